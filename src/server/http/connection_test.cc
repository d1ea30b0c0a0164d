// SPDX-License-Identifier: Apache-2.0
#include "server/http/test_client.h"

namespace quern::server {
namespace {

const std::string kOneTensor = R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]})";

using ConnectionTest = ServerTest;

// Every error, everywhere, has this shape.
void expect_error(const Response& answer, int status, const std::string& code) {
  EXPECT_EQ(answer.status, status) << answer.body;
  const auto json = answer.json();
  ASSERT_EQ(json.as_object().size(), 3u) << answer.body;
  EXPECT_EQ(answer.code(), code);
  EXPECT_FALSE(answer.error().empty());
  EXPECT_EQ(json.at("request").as_string(), answer.header("quern-request"));
  EXPECT_FALSE(answer.header("quern-request").empty());
}

TEST_F(ConnectionTest, ServerHealthAndMetadata) {
  config_.version = "0.1.0";
  start();
  auto caller = client();
  EXPECT_EQ(caller->ask(get("/v2")).body, R"({"name":"quern","version":"0.1.0","extensions":["binary_tensor_data"]})");
  EXPECT_EQ(caller->ask(get("/v2/health/live")).status, 200);
  EXPECT_EQ(caller->ask(get("/v2/health/ready")).status, 200);
  EXPECT_EQ(caller->ask(get("/v2/models/echo/ready")).status, 200);
  EXPECT_EQ(caller->ask(get("/v2/models/echo%400123456789ab/ready")).status, 200);
  EXPECT_EQ(caller->ask(get("/v2/models/echo/versions/0123456789ab/ready?x=1")).status, 200);
  EXPECT_EQ(caller->ask(get("/v2/models/echo")).body,
            R"({"name":"echo","versions":["0123456789ab"],"platform":"quern_graph",)"
            R"("inputs":[{"name":"x","datatype":"FP32","shape":[-1]}],)"
            R"("outputs":[{"name":"y","datatype":"FP32","shape":[-1]}]})");
  expect_error(caller->ask(get("/v2/models/nope")), 404, "not_found");
  expect_error(caller->ask(get("/v2/models/echo/versions/ffffff/ready")), 404, "not_found");
}

TEST_F(ConnectionTest, NotReady) {
  daemon_.ready = false;
  start();
  const Response answer = ask(get("/v2/health/ready"));
  expect_error(answer, 503, "unavailable");
  EXPECT_EQ(answer.header("retry-after"), "1");
}

TEST_F(ConnectionTest, FunctionsAndDevices) {
  start();
  auto caller = client();
  EXPECT_EQ(caller->ask(get("/v1/functions")).json().at("functions").as_array().size(), 3u);
  const auto details = caller->ask(get("/v1/functions/echo")).json();
  EXPECT_EQ(details.at("dims").at("n").at("max"), 1 << 24);
  EXPECT_EQ(details.at("params").at("alpha").at("default"), 2.0);
  EXPECT_EQ(details.at("settings").at("limits").at("timeout"), "1m");
  EXPECT_EQ(caller->ask(get("/v1/devices")).json().at("devices").at(0).at("name"), "cpu0");
  EXPECT_EQ(caller->ask(request("DELETE", "/v1/functions/echo", "")).body, R"({"removed":"echo"})");
  expect_error(caller->ask(request("DELETE", "/v1/functions/nope", "")), 404, "not_found");
}

TEST_F(ConnectionTest, Deploy) {
  start();
  auto caller = client();
  std::string tar(300'000, 'a');
  for (size_t i = 0; i < tar.size(); ++i) tar[i] = static_cast<char>(i * 7);
  const Response answer = caller->ask(request("PUT", "/v1/functions/new", tar));
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.json().at("name"), "new");
  EXPECT_EQ(answer.json().at("version"), "0123456789ab");
  EXPECT_EQ(answer.json().at("warnings").as_array().size(), 1u);
  EXPECT_TRUE(daemon_.deployed.with([&](const Bytes& bytes) { return as_text(bytes) == tar; }));
  expect_error(caller->ask(request("PUT", "/v1/functions/new@123456", "x")), 400, "invalid");
}

TEST_F(ConnectionTest, UploadsAreHandedOnInBoundedPieces) {
  start();
  const std::string body(5 * kMiB + 1, 'a');
  EXPECT_EQ(ask(request("PUT", "/v1/functions/new", body)).status, 201);
  EXPECT_EQ(ask(request("PUT", "/v1/objects", body)).status, 201);
  EXPECT_TRUE(daemon_.deployed.with([&](const Bytes& bytes) { return as_text(bytes) == body; }));
  EXPECT_GT(daemon_.largest_piece, 0u);
  EXPECT_LE(daemon_.largest_piece, 256 * kKiB);
}

TEST_F(ConnectionTest, DeployFails) {
  daemon_.deploy_error = invalid("function.yaml:1:1: error: odd\nfunction.yaml:2:1: error: \"more\"");
  start();
  const Response answer = ask(request("PUT", "/v1/functions/new", "tar"));
  expect_error(answer, 400, "invalid");
  EXPECT_EQ(answer.error(), daemon_.deploy_error->text);
}

TEST_F(ConnectionTest, Keys) {
  daemon_.key = "secret";
  start();
  auto caller = client();
  Response answer = caller->ask(get("/v2"));
  expect_error(answer, 401, "denied");
  EXPECT_EQ(answer.header("www-authenticate"), "Bearer realm=\"quern\"");
  expect_error(caller->ask("GET /v2 HTTP/1.1\r\nAuthorization: Bearer wrong\r\n\r\n"), 401, "denied");
  expect_error(caller->ask(get("/nowhere")), 401, "denied");
  expect_error(caller->ask(post("/v2/models/echo/infer", kOneTensor)), 401, "denied");
  EXPECT_EQ(caller->ask(get("/v2/health/live")).status, 200);
  EXPECT_EQ(caller->ask("GET /v2 HTTP/1.1\r\nauthorization: bearer secret\r\n\r\n").status, 200);
  answer = caller->ask("GET /v2 HTTP/1.1\r\nAuthorization: Basic abc\r\n\r\n");
  expect_error(answer, 401, "denied");
}

TEST_F(ConnectionTest, WrongPathsAndMethods) {
  start();
  auto caller = client();
  Response answer = caller->ask(get("/v2/model/echo/infer"));
  expect_error(answer, 404, "not_found");
  EXPECT_NE(answer.error().find("did you mean '/v2/models/echo/infer'?"), std::string::npos) << answer.error();
  answer = caller->ask(get("/v2/models/echo/infer"));
  expect_error(answer, 405, "invalid");
  EXPECT_EQ(answer.header("allow"), "POST");
  answer = caller->ask("POST /v1/functions/echo HTTP/1.1\r\n\r\n");
  expect_error(answer, 405, "invalid");
  EXPECT_EQ(answer.header("allow"), "GET, HEAD, PUT, PATCH, DELETE");
  answer = caller->ask(get("/v1/functions/echo/rollback"));
  expect_error(answer, 405, "invalid");
  EXPECT_EQ(answer.header("allow"), "POST");
  expect_error(caller->ask(get("/v2/models/a%zz")), 400, "invalid");
  expect_error(caller->ask(get("/v2/models/%ff%fe")), 404, "not_found");
}

TEST_F(ConnectionTest, BodiesThatAreNotTaken) {
  config_.limits.body_bytes = 4096;
  config_.limits.json_bytes = 1024;
  start();
  const std::string path = "/v2/models/echo/infer";
  for (const bool has_body : {false, true}) {
    auto caller = client();
    const Response answer = caller->ask("POST " + path + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" +
                                        (has_body ? "2\r\n{}\r\n0\r\n\r\n" : ""));
    expect_error(answer, 411, "invalid");
    EXPECT_EQ(answer.header("connection"), "close");
    caller->end_sending();
    EXPECT_TRUE(caller->is_at_end());
  }
  expect_error(ask("POST " + path + " HTTP/1.1\r\n\r\n"), 411, "invalid");
  expect_error(ask(post(path, "abc", "Content-Encoding: gzip\r\n")), 415, "unsupported");
  EXPECT_EQ(ask(post(path, kOneTensor, "Content-Encoding: identity\r\nContent-Type: x/y\r\n")).status, 200);
  expect_error(ask(post(path, std::string(2000, ' '))), 413, "invalid");
  expect_error(ask(post(path, std::string(5000, ' '))), 413, "invalid");
  expect_error(ask("POST " + path + " HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n"), 413, "invalid");
  expect_error(ask(post(path, "{}", "Expect: magic\r\n")), 417, "invalid");
  expect_error(ask("POST " + path + " HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"), 400, "invalid");
}

TEST_F(ConnectionTest, MalformedEnds) {
  start();
  for (const std::string text :
       {"hello\r\n\r\n", "GET /v2 HTTP/9.9\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "GET /v2 HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /v2 HTTP/1.1\r\nX: a\r\n b\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    auto caller = client();
    const Response answer = caller->ask(text);
    expect_error(answer, 400, "invalid");
    EXPECT_EQ(answer.header("connection"), "close");
    caller->end_sending();
    EXPECT_TRUE(caller->is_at_end());
  }
}

TEST_F(ConnectionTest, HeadLimits) {
  config_.limits.header_bytes = 1024;
  start();
  EXPECT_EQ(ask("GET /v2 HTTP/1.1\r\nX: " + std::string(900, 'a') + "\r\n\r\n").status, 200);
  expect_error(ask("GET /v2 HTTP/1.1\r\nX: " + std::string(2000, 'a') + "\r\n\r\n"), 431, "invalid");
  expect_error(ask("GET /v2 HTTP/1.1\r\nX: " + std::string(200'000, 'a')), 431, "invalid");
}

TEST_F(ConnectionTest, SlowHead) {
  config_.limits.header_time = Duration::millis(40);
  start();
  auto caller = client();
  caller->send("GET /v2 HTT");
  expect_error(caller->read(), 408, "deadline");
  caller->end_sending();
  EXPECT_TRUE(caller->is_at_end());
}

TEST_F(ConnectionTest, IdleEndsQuietly) {
  config_.limits.keep_alive = Duration::millis(40);
  start();
  EXPECT_TRUE(client()->is_at_end());
  auto caller = client();
  EXPECT_EQ(caller->ask(get("/v2")).status, 200);
  EXPECT_TRUE(caller->is_at_end());
}

TEST_F(ConnectionTest, KeepAliveAndPipelining) {
  start();
  auto caller = client();
  std::string all;
  for (int i = 0; i < 50; ++i) all += i % 3 ? post("/v2/models/echo/infer", kOneTensor) : get("/v2/health/live");
  caller->send(all);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(caller->read().status, 200);
  // What a refused request still sends does not end the connection, as long as it is little.
  expect_error(caller->ask(post("/v2/models/nope/infer", std::string(100'000, ' '))), 404, "not_found");
  EXPECT_EQ(caller->ask(get("/v2")).status, 200);
  const Response last = caller->ask("GET /v2 HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(caller->is_at_end());
}

TEST_F(ConnectionTest, Http10) {
  start();
  auto caller = client();
  EXPECT_EQ(caller->ask("GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").header("connection"), "keep-alive");
  EXPECT_EQ(caller->ask("GET /v2 HTTP/1.0\r\n\r\n").header("connection"), "close");
  EXPECT_TRUE(caller->is_at_end());
}

TEST_F(ConnectionTest, HeadHasNoBody) {
  start();
  auto caller = client();
  caller->send("HEAD /v2 HTTP/1.1\r\n\r\n");
  EXPECT_NE(caller->read(false).header("content-length"), "0");
  EXPECT_EQ(caller->ask(get("/v2")).status, 200);
}

TEST_F(ConnectionTest, RefusedRequestGetsItsAnswerThoughItSendsMuch) {
  start();
  auto caller = client();
  caller->send(post("/v2/models/nope/infer", std::string(8 << 20, ' ')));
  const Response answer = caller->read();
  expect_error(answer, 404, "not_found");
  EXPECT_EQ(answer.header("connection"), "close");
}

TEST_F(ConnectionTest, IdleConnectionsGiveWay) {
  config_.limits.connections = 2;
  start();
  auto a = client(), b = client();
  EXPECT_EQ(a->ask(get("/v2")).status, 200);
  EXPECT_EQ(b->ask(get("/v2")).status, 200);
  auto c = client();
  EXPECT_EQ(c->ask(get("/v2")).status, 200);
  EXPECT_TRUE(a->is_at_end()) << "the one that was idle for longest";
  EXPECT_EQ(b->ask(get("/v2")).status, 200);
}

TEST_F(ConnectionTest, IdleConnectionsOfOtherThreadsGiveWay) {
  config_.limits.connections = 2;
  config_.threads = 2;  // connections are dealt out to them in turns
  daemon_.holds = true;
  start();
  auto busy = client();
  busy->send(post("/v2/models/echo/infer", kOneTensor));
  ASSERT_TRUE(daemon_.wait_held());
  auto idle = client();
  EXPECT_EQ(idle->ask(get("/v2")).status, 200);
  // The third is dealt to the thread of the busy one.
  auto more = client();
  EXPECT_EQ(more->ask(get("/v2")).status, 200);
  EXPECT_TRUE(idle->is_at_end());
  more->send(post("/v2/models/echo/infer", kOneTensor));
  ASSERT_TRUE(daemon_.wait_held());
  expect_error(client()->ask(get("/v2")), 503, "unavailable");
  daemon_.release();
  EXPECT_EQ(busy->read().status, 200);
  EXPECT_EQ(more->read().status, 200);
}

TEST_F(ConnectionTest, MostConnections) {
  config_.limits.connections = 2;
  config_.limits.refused = Duration::seconds(60);  // nobody is closed for being slow
  daemon_.holds = true;
  start();
  auto a = client(), b = client();
  for (auto* busy : {&a, &b}) {
    (*busy)->send(post("/v2/models/echo/infer", kOneTensor));
    ASSERT_TRUE(daemon_.wait_held());
  }
  auto c = client();
  expect_error(c->ask(get("/v2")), 503, "unavailable");
  EXPECT_TRUE(c->is_at_end());
  c.reset();
  // More than there are places for refused ones, and all are silent: the oldest give way to one that asks.
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 70; ++i) silent.push_back(client());
  expect_error(client()->ask(get("/v2")), 503, "unavailable");
  EXPECT_TRUE(silent.front()->is_at_end());
  expect_error(silent.back()->ask(get("/v2")), 503, "unavailable");
  daemon_.release();
  EXPECT_EQ(a->read().status, 200);
  EXPECT_EQ(b->read().status, 200);
}

TEST_F(ConnectionTest, ARefusedConnectionThatSendsNoRequestEndsSoon) {
  config_.limits.connections = 0;
  config_.limits.linger = Duration::millis(20);  // looks at connections every 5 ms
  config_.limits.refused = Duration::millis(40);
  start();
  auto silent = client(), slow = client();
  slow->send("GET /v2 HTT");
  EXPECT_TRUE(silent->is_at_end());
  EXPECT_TRUE(slow->is_at_end());
}

// A deploy and calls, which the daemon holds.
const std::string kDeploy = request("PUT", "/v1/functions/new", "tar"),
                  kCall = post("/v2/models/echo/infer", kOneTensor),
                  kOldCall =
                      "POST /v2/models/echo/infer HTTP/1.0\r\nContent-Length: " + std::to_string(kOneTensor.size()) +
                      "\r\n\r\n" + kOneTensor;

TEST_F(ConnectionTest, WhoEndsSendingIsAnswered) {
  daemon_.holds = true;
  config_.limits.linger = Duration::millis(20);  // looks at callers every 5 ms
  config_.limits.half_closed = Duration::millis(1);
  start();
  for (const auto& [text, status] : {std::pair(kCall, 200), {kDeploy, 201}}) {
    auto caller = client();
    caller->send(text);
    ASSERT_TRUE(daemon_.wait_held());
    caller->end_sending();
    EXPECT_EQ(caller->read().status, 100) << "whether it still listens is asked";
    daemon_.release();
    EXPECT_EQ(caller->read().status, status);
    EXPECT_TRUE(caller->is_at_end());
  }
  EXPECT_TRUE(daemon_.cancelled.with([](const auto& ids) { return ids.empty(); }));
}

TEST_F(ConnectionTest, ACallerOfHttp10ThatEndsSendingIsAnswered) {
  daemon_.holds = true;
  config_.limits.linger = Duration::millis(20);
  config_.limits.half_closed = Duration::millis(1);
  start();
  for (const bool was_asked : {true, false}) {
    auto caller = client();
    caller->send(kOldCall);
    ASSERT_TRUE(daemon_.wait_held());
    caller->end_sending();
    if (was_asked) {
      EXPECT_EQ(caller->peek(), "HTTP/1.0 ") << "the beginning of every answer";
    }
    daemon_.release();
    const Response answer = caller->read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.first_line, "HTTP/1.0 200 OK");
    EXPECT_TRUE(caller->is_at_end());
  }
  EXPECT_TRUE(daemon_.cancelled.with([](const auto& ids) { return ids.empty(); }));
}

TEST_F(ConnectionTest, WhoEndsSendingWhatIsAnsweredAtOnceIsAnswered) {
  start();
  for (const auto& [text, status] : {std::pair(kCall, 200), {kDeploy, 201}, {kOldCall, 200}}) {
    auto caller = client();
    caller->send(text);
    caller->end_sending();
    EXPECT_EQ(caller->read().status, status);
    EXPECT_TRUE(caller->is_at_end());
  }
}

TEST_F(ConnectionTest, WhoHasGoneIsNotWorkedFor) {
  daemon_.holds = true;
  config_.limits.linger = Duration::millis(20);
  config_.limits.half_closed = Duration::millis(1);
  start();
  for (const std::string& text : {kCall, kDeploy, kOldCall}) {
    auto caller = client();
    caller->send(text);
    ASSERT_TRUE(daemon_.wait_held());
    caller->close_now();
    EXPECT_TRUE(daemon_.wait_cancelled()) << text;
  }
}

TEST_F(ConnectionTest, UploadsAreRefusedBeforeTheirBytesAreRead) {
  daemon_.upload_refusal = exhausted("tenant default: stores as much as it may");
  start();
  for (const std::string path : {"/v1/functions/new", "/v1/objects"}) {
    auto caller = client();
    const Response answer = caller->ask("PUT " + path + " HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n");
    expect_error(answer, 429, "exhausted");
    EXPECT_EQ(answer.header("connection"), "close");
  }
}

TEST_F(ConnectionTest, AFullDiskEndsAnUpload) {
  daemon_.write_error = exhausted("the server's disk: write: no space");
  start();
  expect_error(ask(request("PUT", "/v1/functions/new", std::string(900'000, 'x'))), 429, "exhausted");
  expect_error(ask(request("PUT", "/v1/objects", "x")), 429, "exhausted");
}

TEST_F(ConnectionTest, FunctionsThatCannotBeCalledAreListed) {
  daemon_.broken = {{"lost", std::string(64, 'a'), "then", false, internal("object ab: is damaged on disk")},
                    {"soon", std::string(64, 'b'), "then", true, unavailable("function soon: is being made ready")}};
  start();
  const auto list = ask(get("/v1/functions")).json().at("functions");
  ASSERT_EQ(list.as_array().size(), 5u);
  EXPECT_EQ(list.at(0).at("state"), "ready");
  EXPECT_EQ(list.at(3).at("state"), "damaged");
  EXPECT_EQ(list.at(3).at("error"), "object ab: is damaged on disk");
  EXPECT_EQ(list.at(4).at("state"), "starting");
}

TEST_F(ConnectionTest, AddressTaken) {
  start();
  ServerConfig again;
  again.port = server_->port();
  const auto second = Server::create(again, daemon_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  again.host = "no such host";
  EXPECT_EQ(Server::create(again, daemon_).error().code, ErrorCode::kInvalid);
}

TEST(Loopback, Hosts) {
  for (const char* host : {"127.0.0.1", "127.3.2.1", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example.org", ""}) EXPECT_FALSE(is_loopback(host)) << host;
  for (const char* host :
       {"127.0.0.1:8080", "localhost", "localhost:1", "[::1]:8080", "LOCALHOST", "localhost.", "LocalHost.:8080"})
    EXPECT_TRUE(is_of_this_machine(host, "")) << host;
  for (const char* host : {"", ".", ":8080", "evil.example", "evil.example:8080", "10.0.0.1:80",
                           "localhost.evil.example", "localhost..", "[", "[::2]:1"})
    EXPECT_FALSE(is_of_this_machine(host, "")) << host;
  EXPECT_TRUE(is_of_this_machine("LOCALHOST:8080", "http://localhost:8080"));
  EXPECT_TRUE(is_of_this_machine("localhost:8080", "http://localhost:8080"));
  EXPECT_FALSE(is_of_this_machine("localhost:8080", "http://evil.example"));
  EXPECT_FALSE(is_of_this_machine("localhost:8080", "null"));
}

}  // namespace
}  // namespace quern::server
