// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <semaphore>

#include "os/thread.h"
#include "server/http/test_client.h"

namespace quern::server {
namespace {

const std::string kJson =
    R"({"id":"a\u00e9","inputs":[{"name":"x","shape":[3],"datatype":"FP32","data":[1,2.5,-0.0]}]})";

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}
std::string binary_json(size_t n, const std::string& more = "") {
  return R"({"inputs":[{"name":"x","shape":[)" + std::to_string(n) +
         R"(],"datatype":"FP32","parameters":{"binary_data_size":)" + std::to_string(4 * n) + "}}]" + more + "}";
}
const std::string kBinaryOut = R"(,"parameters":{"binary_data_output":true})";

using InferTest = ServerTest;

TEST_F(InferTest, JsonInAndOut) {
  start();
  const Response answer = ask(post("/v2/models/echo/infer", kJson));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body,
            "{\"model_name\":\"echo\",\"model_version\":\"0123456789ab\",\"id\":\"a\xc3\xa9\",\"parameters\":{},"
            "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[3],\"data\":[1.0,2.5,-0.0]}]}");
  EXPECT_EQ(answer.header("content-type"), "application/json");
  EXPECT_EQ(answer.header("quern-request"), "c1");
  EXPECT_EQ(answer.headers.count("inference-header-content-length"), 0u);
}

TEST_F(InferTest, BinaryInAndOutWithoutACopy) {
  start();
  auto caller = client();
  for (const size_t n : {1ul, 256ul, 100'000ul, 1ul << 20}) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i) * 0.5f;
    const Response answer = caller->ask(infer(binary_json(n, kBinaryOut), bytes_of(values)));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/octet-stream");
    EXPECT_EQ(answer.json().at("outputs").at(0).at("parameters").at("binary_data_size"), 4 * n);
    EXPECT_TRUE(answer.binary() == bytes_of(values));
  }
  EXPECT_EQ(daemon_.counters().copied_bytes, 0u);
  const auto stages = caller->ask(get("/v1/counters")).json().at("stages");
  EXPECT_EQ(stages.at("parse").at("count"), 4);
  EXPECT_EQ(stages.at("answer").at("count"), 4);
}

TEST_F(InferTest, BodyInPieces) {
  start();
  auto caller = client();
  const std::string text = infer(binary_json(3, kBinaryOut), bytes_of({1, 2, 3}));
  for (size_t step : {1ul, 7ul, 100ul}) {
    for (size_t at = 0; at < text.size(); at += step) caller->send(std::string_view(text).substr(at, step));
    const Response answer = caller->read();
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.binary(), bytes_of({1, 2, 3}));
  }
}

TEST_F(InferTest, MixedSelectedAndOrdered) {
  start();
  const std::string json =
      R"({"inputs":[{"name":"b","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"a","shape":[2],"datatype":"INT64","data":[9223372036854775807,-9223372036854775808]}],)"
      R"("outputs":[{"name":"d","parameters":{"binary_data":true}},{"name":"c"}]})";
  const Response answer = ask(infer(json, bytes_of({1, 2}), "pair"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto outputs = answer.json().at("outputs").as_array();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].at("name"), "d");
  EXPECT_EQ(outputs[1].at("data").at(0), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(outputs[1].at("data").at(1), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(answer.binary(), bytes_of({1, 2}));
}

TEST_F(InferTest, LargeJson) {
  start();
  std::string json = R"({"inputs":[{"name":"x","shape":[200000],"datatype":"FP32","data":[)";
  for (int i = 0; i < 200'000; ++i) json += (i ? "," : "") + std::to_string(i);
  json += "]}]}";
  const Response answer = ask(post("/v2/models/echo/infer", json));
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json().at("outputs").at(0).at("data").at(199'999).as_double(), 199'999.0);
}

// One thread for all connections, and one for long JSON, which is blocked.
TEST_F(InferTest, LongJsonHoldsUpNoOtherConnection) {
  std::binary_semaphore is_blocked{0}, may_go{0};
  std::atomic<int> pieces_left{0};  ///< of JSON, until one is held
  config_.threads = 1;
  config_.before_json = [&] {
    if (--pieces_left != 0) return;
    is_blocked.release();
    may_go.acquire();
  };
  start();
  constexpr size_t kElements = 20'000;
  std::string numbers;
  std::vector<float> values(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    numbers += (i > 0 ? "," : "") + std::to_string(i) + ".5";
    values[i] = static_cast<float>(i) + 0.5f;
  }
  const std::string long_answer = infer(binary_json(kElements), bytes_of(values));
  const std::string long_request = infer(R"({"inputs":[{"name":"x","shape":[20000],"datatype":"FP32","data":[)" +
                                         numbers + "]}]" + kBinaryOut + "}");
  auto other = client();
  // A long request is parsed first, and its tensors are read later.
  for (const auto& [text, held_piece] :
       {std::pair<const std::string&, int>(long_answer, 1), {long_request, 1}, {long_request, 2}}) {
    pieces_left = held_piece;
    auto caller = client();
    caller->send(text);
    EXPECT_TRUE(is_blocked.try_acquire_for(std::chrono::seconds(20))) << "the event loop has done it";
    EXPECT_EQ(other->ask(get("/v2/health/live")).status, 200);
    EXPECT_EQ(other->ask(infer(binary_json(1, kBinaryOut), bytes_of({1}))).status, 200);
    may_go.release();
    const Response answer = caller->read();
    ASSERT_EQ(answer.status, 200);
    if (&text == &long_request) {
      EXPECT_TRUE(answer.binary() == bytes_of(values));
      continue;
    }
    const auto json = answer.json();
    const auto& data = json.at("outputs").at(0).at("data").as_array();
    ASSERT_EQ(data.size(), kElements);
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(data[i].to_number<double>(), values[i]);
  }
}

TEST_F(InferTest, ALargeBodyLetsOtherConnectionsHaveTheirTurn) {
  std::binary_semaphore is_prepared{0}, may_go{0};
  os::Guarded<std::string> order;
  daemon_.on_call = [&](std::string_view what) {
    order.with([&](std::string& list) { list += std::string(what) + ' '; });
    if (what != "prepare") return;
    is_prepared.release();
    may_go.acquire();
  };
  config_.threads = 1;
  config_.limits.turn_bytes = kKiB;
  start();
  auto large = client(), other = client();
  EXPECT_EQ(other->ask(get("/v2")).status, 200);
  // The thread is held before it reads the tensor, until all of that is in its socket and the other request, too. What
  // is sent fits into the buffer of a socket that nobody reads.
  const std::vector<float> values(8 * kKiB, 2.5f);
  large->send(infer(binary_json(values.size(), kBinaryOut), bytes_of(values)));
  EXPECT_TRUE(is_prepared.try_acquire_for(std::chrono::seconds(20)));
  large->wait_delivered();
  other->send(get("/v1/devices"));
  other->wait_delivered();
  may_go.release();
  const Response answer = large->read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.binary() == bytes_of(values));
  EXPECT_EQ(other->read().status, 200);
  EXPECT_EQ(order.with([](std::string& list) { return list; }), "prepare devices submit ");
}

TEST_F(InferTest, JsonThatIsTooLongIsRefusedWithTheCure) {
  config_.limits.answer_json_bytes = 64 * kKiB;
  start();
  auto caller = client();
  const auto ask_for = [&](size_t elements, const std::string& value, const std::string& more = "") {
    std::string data;
    for (size_t i = 0; i < elements; ++i) data += (i > 0 ? "," : "") + value;
    return caller->ask(infer(R"({"inputs":[{"name":"x","shape":[)" + std::to_string(elements) +
                             R"(],"datatype":"FP32","data":[)" + data + "]}]" + more + "}"));
  };
  // At two bytes an element it can only be too long, and nothing runs; at six it is once it is written.
  for (const auto& [elements, value] : {std::pair<size_t, std::string>(40'000, "0"), {12'000, "0.125"}}) {
    const Response answer = ask_for(elements, value);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.error(),
              "output y: the answer would have more than 64KiB of JSON; ask for binary (\"binary_data\": true), or let "
              "the output stay on the server (\"object\": true)");
  }
  EXPECT_EQ(ask_for(8'000, "0.125").status, 200);
  EXPECT_EQ(ask_for(40'000, "0", R"(,"outputs":[{"name":"y","parameters":{"binary_data":true}}])").status, 200);
}

TEST_F(InferTest, LargeAnswersOfJsonHaveARoomOfTheirOwn) {
  config_.limits.answers_json_bytes = 600 * kKiB;
  daemon_.holds = true;
  start();
  std::string data = "0";
  for (int i = 1; i < 8'000; ++i) data += ",0";
  const std::string text = infer(R"({"inputs":[{"name":"x","shape":[8000],"datatype":"FP32","data":[)" + data + "]}]}");
  auto first = client(), second = client();
  first->send(text);
  ASSERT_TRUE(daemon_.wait_held());
  const Response refused = second->ask(text);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  daemon_.release();
  EXPECT_EQ(first->read().status, 200);
  // The room is free again.
  second->send(text);
  ASSERT_TRUE(daemon_.wait_held());
  daemon_.release();
  EXPECT_EQ(second->read().status, 200);
}

TEST_F(InferTest, HalfIsBinaryOnly) {
  start();
  const std::string input =
      R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP16","parameters":{"binary_data_size":4}}])";
  Response answer = ask(infer(input + kBinaryOut + "}", "abcd", "half"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.binary(), "abcd");
  answer = ask(infer(input + "}", "abcd", "half"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.error().find("ask for binary"), std::string::npos) << answer.error();
}

TEST_F(InferTest, NanIsNoJson) {
  start();
  for (const float value : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    const Response answer = ask(infer(binary_json(2), bytes_of({1, value})));
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.code(), "invalid");
    EXPECT_NE(answer.error().find("output y: element 1 is"), std::string::npos) << answer.error();
    EXPECT_NE(answer.error().find("ask for binary"), std::string::npos);
  }
}

TEST_F(InferTest, SizesThatDoNotAddUp) {
  start();
  auto caller = client();
  Response answer = caller->ask(infer(binary_json(3), bytes_of({1, 2})));
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.error().find("adds up to 12 bytes, but 8 follow"), std::string::npos) << answer.error();
  const std::string odd =
      R"({"inputs":[{"name":"x","shape":[3],"datatype":"FP32","parameters":{"binary_data_size":8}}]})";
  answer = caller->ask(infer(odd, bytes_of({1, 2})));
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.error().find("binary_data_size is 8, but FP32 of shape [3] takes 12 bytes"), std::string::npos);
  answer = caller->ask(post("/v2/models/echo/infer", binary_json(3)));
  EXPECT_NE(answer.error().find("Inference-Header-Content-Length"), std::string::npos) << answer.error();
  answer = caller->ask(post("/v2/models/echo/infer", "{}", "Inference-Header-Content-Length: 3\r\n"));
  EXPECT_EQ(answer.status, 400);
  // The connection has survived all of it.
  EXPECT_EQ(caller->ask(post("/v2/models/echo/infer", kJson)).status, 200);
}

TEST_F(InferTest, WrongRequestsComeFromTheManifest) {
  start();
  auto caller = client();
  for (const std::string json : {
           R"({"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]})",
           R"({"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[1]}]})",
           R"({"inputs":[{"name":"z","shape":[1],"datatype":"FP32","data":[1]}]})",
           R"({"inputs":[]})",
           R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"parameters":{"alpho":1}})",
           R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"parameters":{"n":2}})",
           R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"outputs":[{"name":"yy"}]})",
       }) {
    const Response answer = caller->ask(post("/v2/models/echo/infer", json));
    EXPECT_EQ(answer.status, 400) << json;
    EXPECT_EQ(answer.code(), "invalid");
    EXPECT_EQ(answer.json().at("request").as_string(), answer.header("quern-request"));
  }
}

TEST_F(InferTest, ErrorsOfCalls) {
  for (const auto& [code, status] : std::map<ErrorCode, int>{{ErrorCode::kFaulted, 422},
                                                             {ErrorCode::kExhausted, 429},
                                                             {ErrorCode::kUnavailable, 503},
                                                             {ErrorCode::kDeadline, 504},
                                                             {ErrorCode::kInternal, 500}}) {
    daemon_.call_error = Error{code, "function echo: kernel \"k\" broke"};
    start();
    const Response answer = ask(post("/v2/models/echo/infer", kJson));
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.code(), name_of(code));
    EXPECT_EQ(answer.error(), "function echo: kernel \"k\" broke");
    EXPECT_EQ(answer.header("retry-after"), status == 429 || status == 503 ? "7" : "");
    TearDown();
  }
}

TEST_F(InferTest, RefusedBeforeTheBody) {
  daemon_.refusal = exhausted("tenant default: 64 requests wait");
  start();
  auto caller = client();
  const std::string text = infer(binary_json(3), bytes_of({1, 2, 3}), "echo", "Expect: 100-continue\r\n");
  caller->send(text.substr(0, text.find("\r\n\r\n") + 4));
  const Response answer = caller->read();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "3");
  EXPECT_EQ(answer.header("connection"), "close");
  caller->end_sending();
  EXPECT_TRUE(caller->is_at_end());
}

TEST_F(InferTest, ExpectContinue) {
  start();
  auto caller = client();
  const std::string text = infer(binary_json(3, kBinaryOut), bytes_of({1, 2, 3}), "echo", "Expect: 100-continue\r\n");
  const size_t head = text.find("\r\n\r\n") + 4;
  caller->send(text.substr(0, head));
  EXPECT_EQ(caller->read().status, 100);
  caller->send(text.substr(head));
  EXPECT_EQ(caller->read().binary(), bytes_of({1, 2, 3}));
  // Nobody waits for it if the body is there already.
  EXPECT_EQ(caller->ask(text).status, 200);
}

TEST_F(InferTest, CallerGoneCancelsTheCall) {
  daemon_.holds = true;
  start();
  auto caller = client();
  caller->send(post("/v2/models/echo/infer", kJson));
  ASSERT_TRUE(daemon_.wait_held());
  caller->close_now();
  server_->stop(Duration::seconds(20));  // returns once the call is back, which only the cancel brings about
  EXPECT_EQ(daemon_.cancelled.with([](auto& ids) { return ids; }), std::vector<std::string>{"c1"});
}

TEST_F(InferTest, RequestSentAheadIsNotGone) {
  daemon_.holds = true;
  start();
  auto caller = client();
  caller->send(post("/v2/models/echo/infer", kJson) + post("/v2/models/echo/infer", kJson));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(daemon_.wait_held());
    daemon_.release();
    EXPECT_EQ(caller->read().header("quern-request"), "c" + std::to_string(i + 1));
  }
  EXPECT_TRUE(daemon_.cancelled.with([](auto& ids) { return ids.empty(); }));
}

TEST_F(InferTest, BodyCutShort) {
  start();
  {
    auto caller = client();
    const std::string text = infer(binary_json(100), bytes_of({1, 2}));
    caller->send("POST /v2/models/echo/infer HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{\"inputs\"");
    caller->end_sending();
    EXPECT_TRUE(caller->is_at_end());
  }
  {
    auto caller = client();
    std::string text = infer(binary_json(100), std::string(400, 'a'));
    caller->send(text.substr(0, text.size() - 1));
    caller->end_sending();
    EXPECT_TRUE(caller->is_at_end());
  }
  EXPECT_EQ(ask(post("/v2/models/echo/infer", kJson)).status, 200);
}

TEST_F(InferTest, BodyTooLong) {
  start();
  auto caller = client();
  caller->send(post("/v2/models/echo/infer", kJson) + "surplus bytes\r\n\r\n");
  EXPECT_EQ(caller->read().status, 200);
  const Response answer = caller->read();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.header("connection"), "close");
  caller->end_sending();
  EXPECT_TRUE(caller->is_at_end());
}

TEST_F(InferTest, SlowBody) {
  config_.limits.body_idle = Duration::millis(40);
  start();
  auto caller = client();
  const std::string text = infer(binary_json(3), bytes_of({1, 2, 3}));
  caller->send(text.substr(0, text.size() - 1));
  const Response answer = caller->read();
  EXPECT_EQ(answer.status, 408);
  EXPECT_EQ(answer.code(), "deadline");
  caller->end_sending();
  EXPECT_TRUE(caller->is_at_end());
}

TEST_F(InferTest, GracefulStopAnswersWhatRuns) {
  daemon_.holds = true;
  start();
  auto idle = client(), busy = client();
  EXPECT_EQ(idle->ask(get("/v2")).status, 200);
  busy->send(post("/v2/models/echo/infer", kJson));
  ASSERT_TRUE(daemon_.wait_held());
  os::Thread stopping("stop", [&] { server_->stop(Duration::seconds(20)); });
  EXPECT_TRUE(idle->is_at_end());
  daemon_.release();
  const Response answer = busy->read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(busy->is_at_end());
  stopping.join();
}

TEST_F(InferTest, StopPastItsLimitCancels) {
  daemon_.holds = true;
  start();
  auto busy = client();
  busy->send(post("/v2/models/echo/infer", kJson));
  ASSERT_TRUE(daemon_.wait_held());
  server_->stop(Duration::millis(1));
  EXPECT_TRUE(busy->is_at_end());
  EXPECT_EQ(daemon_.cancelled.with([](auto& ids) { return ids.size(); }), 1u);
}

TEST_F(InferTest, ManyAtOnceOverTwoThreads) {
  config_.threads = 2;
  start();
  std::vector<os::Thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back("caller", [&] {
      auto caller = client();
      for (int i = 0; i < 100; ++i)
        good += caller->ask(infer(binary_json(256, kBinaryOut), std::string(1024, static_cast<char>(i)))).binary() ==
                std::string(1024, static_cast<char>(i));
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 800);
}

TEST_F(InferTest, JsonIsRefusedBeforeItIsReadWhenTooMuchIs) {
  config_.limits.requests_json_bytes = 300 * kKiB;
  start();
  const auto head = [](size_t length) {
    return "POST /v2/models/echo/infer HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  };
  auto slow = client(), other = client();
  slow->send(
      "POST /v2/models/echo/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n");
  ASSERT_EQ(slow->read().status, 100);
  const Response refused = other->ask(head(100'000));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.error().find("too much JSON is being read"), std::string::npos) << refused.error();
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_EQ(ask(infer(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]})")).status, 200)
      << "a short one needs no room";
  slow->close_now();
}

TEST_F(InferTest, ABodyThatCrawlsIsEnded) {
  config_.limits.slowest_turn = Duration::millis(30);
  start();
  auto slow = client();
  const Response answer =
      slow->ask("POST /v2/models/echo/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{\"inputs\"");
  EXPECT_EQ(answer.status, 408);
}

}  // namespace
}  // namespace quern::server
