// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/hash.h"
#include "server/http/test_client.h"

namespace quern::server {
namespace {

using ObjectsTest = ServerTest;

std::string text_at(const Response& answer, const char* key) { return std::string(answer.json().at(key).as_string()); }

std::string input_of(const std::string& id, size_t n = 2) {
  return R"({"inputs":[{"name":"x","shape":[)" + std::to_string(n) + R"(],"datatype":"FP32","parameters":{"object":")" +
         id + R"("}}])";
}
const std::string kStays = R"(,"outputs":[{"name":"y","parameters":{"object":true,"lease":"90s"}}]})";
const std::string kTwo = "abcdefgh";

std::string with_key(const std::string& text, const std::string& key) {
  const size_t line = text.find("\r\n") + 2;
  return text.substr(0, line) + "Authorization: Bearer " + key + "\r\n" + text.substr(line);
}

TEST_F(ObjectsTest, PutListGetRemove) {
  start();
  auto caller = client();
  std::string bytes(300'000, 'a');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  Response answer = caller->ask(request("PUT", "/v1/objects", bytes));
  ASSERT_EQ(answer.status, 201) << answer.body;
  const std::string id = sha256(bytes);
  EXPECT_EQ(answer.body, R"({"object":")" + id + R"(","bytes":300000})");
  EXPECT_FALSE(answer.header("quern-request").empty());

  answer = caller->ask(get("/v1/objects"));
  EXPECT_EQ(answer.body,
            R"({"objects":[{"object":")" + id + R"(","bytes":300000,"kind":"stored","created_at":"then"}]})");
  for (int i = 0; i < 2; ++i) {
    answer = caller->ask(get("/v1/objects/" + id));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("content-type"), "application/octet-stream");
    EXPECT_TRUE(answer.body == bytes);
  }
  caller->send("HEAD /v1/objects/" + id + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(caller->read(false).header("content-length"), "300000");

  EXPECT_EQ(caller->ask(request("DELETE", "/v1/objects/" + id, "")).body, R"({"removed":")" + id + R"("})");
  for (const char* method : {"GET", "DELETE"}) {
    answer = caller->ask(request(method, "/v1/objects/" + id, ""));
    EXPECT_EQ(answer.status, 404) << method;
    EXPECT_EQ(answer.code(), "not_found");
  }
}

TEST_F(ObjectsTest, AnEmptyOneAndOneInPieces) {
  start();
  auto caller = client();
  EXPECT_EQ(text_at(caller->ask(request("PUT", "/v1/objects", "")), "object"), sha256(""));
  EXPECT_EQ(caller->ask(get("/v1/objects/" + sha256(""))).body, "");
  const std::string text = request("PUT", "/v1/objects", kTwo);
  for (size_t at = 0; at < text.size(); at += 7) caller->send(std::string_view(text).substr(at, 7));
  EXPECT_EQ(text_at(caller->read(), "object"), sha256(kTwo));
}

TEST_F(ObjectsTest, BodiesThatAreNotTaken) {
  config_.limits.body_bytes = 1000;
  start();
  EXPECT_EQ(ask(request("PUT", "/v1/objects", std::string(1001, 'a'))).status, 413);
  EXPECT_EQ(ask("PUT /v1/objects HTTP/1.1\r\n\r\n").status, 411);
  const Response answer = ask(post("/v1/objects", "a"));
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.header("allow"), "GET, HEAD, PUT");
}

TEST_F(ObjectsTest, AnInputIsAnObjectAndAnOutputStays) {
  start();
  auto caller = client();
  ASSERT_EQ(caller->ask(request("PUT", "/v1/objects", kTwo)).status, 201);
  Response answer = caller->ask(post("/v2/models/echo/infer", input_of(sha256(kTwo)) + kStays));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("content-type"), "application/json");
  const auto output = answer.json().at("outputs").at(0);
  const auto& parameters = output.at("parameters").as_object();
  EXPECT_EQ(output.as_object().count("data"), 0u);
  EXPECT_EQ(parameters.at("bytes"), 8);
  EXPECT_EQ(parameters.at("expires_in"), "90s");
  const std::string lease(parameters.at("object").as_string());
  EXPECT_EQ(lease.size(), 38u);

  const auto listed = caller->ask(get("/v1/objects")).json().at("objects").as_array();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[1].at("kind"), "lease");
  EXPECT_EQ(listed[1].at("expires_in"), "1500ms");
  // It is the next call's input, and an answer may have both kinds.
  answer = caller->ask(infer(input_of(lease) + R"(,"parameters":{"binary_data_output":true}})"));
  EXPECT_EQ(answer.binary(), kTwo);

  EXPECT_EQ(caller->ask(get("/v1/objects/" + lease + "?keep=true")).body, kTwo);
  EXPECT_EQ(caller->ask(get("/v1/objects/" + lease)).body, kTwo);
  EXPECT_EQ(caller->ask(get("/v1/objects/" + lease)).status, 404);
  EXPECT_EQ(daemon_.counters().copied_bytes, 0u);
}

TEST_F(ObjectsTest, OneOfAnotherSizeOrThatIsNotThere) {
  start();
  auto caller = client();
  ASSERT_EQ(caller->ask(request("PUT", "/v1/objects", kTwo)).status, 201);
  Response answer = caller->ask(post("/v2/models/echo/infer", input_of(sha256(kTwo), 3) + "}"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.code(), "invalid");
  answer = caller->ask(post("/v2/models/echo/infer", input_of(sha256("no")) + "}"));
  EXPECT_EQ(answer.status, 404);
  // The connection has survived it.
  EXPECT_EQ(caller->ask(post("/v2/models/echo/infer", input_of(sha256(kTwo)) + "}")).status, 200);
}

TEST_F(ObjectsTest, OfAnotherTenantThereIsNone) {
  daemon_.key = "a";
  daemon_.other_key = "b";
  start();
  auto caller = client();
  ASSERT_EQ(caller->ask(with_key(request("PUT", "/v1/objects", kTwo), "a")).status, 201);
  const std::string path = "/v1/objects/" + sha256(kTwo);
  EXPECT_EQ(caller->ask(with_key(get(path), "a")).status, 200);
  EXPECT_EQ(caller->ask(with_key(get(path), "b")).status, 404);
  EXPECT_EQ(caller->ask(with_key(request("DELETE", path, ""), "b")).status, 404);
  EXPECT_EQ(caller->ask(with_key(post("/v2/models/echo/infer", input_of(sha256(kTwo)) + "}"), "b")).status, 404);
  EXPECT_EQ(caller->ask(with_key(get("/v1/objects"), "b")).body, R"({"objects":[]})");
  EXPECT_EQ(caller->ask(get(path)).status, 401);
}

TEST_F(ObjectsTest, AFailedCallLeavesNothing) {
  daemon_.call_error = Error{ErrorCode::kFaulted, "function echo: broke"};
  start();
  auto caller = client();
  ASSERT_EQ(caller->ask(request("PUT", "/v1/objects", kTwo)).status, 201);
  EXPECT_EQ(caller->ask(post("/v2/models/echo/infer", input_of(sha256(kTwo)) + kStays)).status, 422);
  EXPECT_EQ(caller->ask(get("/v1/objects")).json().at("objects").as_array().size(), 1u);
}

// More than the socket takes at once, so that the reader can go in the middle.
TEST_F(ObjectsTest, ALeaseThatWasNotReadToItsEndIsThereAgain) {
  start();
  const size_t n = 16 << 20;
  const std::string bytes(4 * n, 'a');
  auto caller = client();
  ASSERT_EQ(caller->ask(request("PUT", "/v1/objects", bytes)).status, 201);
  const Response answer = caller->ask(post("/v2/models/echo/infer", input_of(sha256(bytes), n) + kStays));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string path =
      "/v1/objects/" + std::string(answer.json().at("outputs").at(0).at("parameters").at("object").as_string());
  auto reader = client();
  reader->send(get(path));
  EXPECT_EQ(reader->read(false).status, 200);
  EXPECT_EQ(caller->ask(get(path)).status, 404) << "it is being read";
  reader->close_now();
  ASSERT_TRUE(daemon_.wait_unread());
  EXPECT_TRUE(caller->ask(get(path)).body == bytes);
  EXPECT_EQ(caller->ask(get(path)).status, 404);
}

}  // namespace
}  // namespace quern::server
