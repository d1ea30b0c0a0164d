// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "server/http/test_client.h"

namespace quern::server {
namespace {

using testing::HasSubstr;
using TraceTest = ServerTest;

TEST_F(TraceTest, IsOfNothingButStillOne) {
  start();
  const Response answer = ask(get("/v1/trace?seconds=3"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("otherData").at("length_us").to_number<double>(), 3e6);
  EXPECT_EQ(answer.json().at("traceEvents").at(0).at("args").at("name"), "device cpu0");
}

TEST_F(TraceTest, SaysWhichSecondsThereAre) {
  start();
  auto caller = client();
  for (const char* seconds : {"0", "61", "-1", "1.5", "x", "5s", "99999999999999999999", "+5"}) {
    const Response answer = caller->ask(get(std::string("/v1/trace?seconds=") + seconds));
    EXPECT_EQ(answer.status, 400) << seconds;
    EXPECT_THAT(answer.error(), HasSubstr("write a whole number from 1 to 60")) << seconds;
  }
  for (const char* seconds : {"1", "60"})
    EXPECT_EQ(caller->ask(get(std::string("/v1/trace?seconds=") + seconds)).status, 200) << seconds;
}

TEST_F(TraceTest, ThereIsOneAtATime) {
  daemon_.holds = true;
  start();
  auto first = client();
  first->send(get("/v1/trace"));
  ASSERT_TRUE(daemon_.wait_held());
  const Response second = ask(get("/v1/trace"));
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.code(), "exhausted");
  EXPECT_EQ(ask(request("DELETE", "/v1/trace", "")).status, 202);
  EXPECT_EQ(first->read().status, 200);
}

TEST_F(TraceTest, EndsSoonerAndIsStillSent) {
  daemon_.holds = true;
  start();
  EXPECT_EQ(ask(request("DELETE", "/v1/trace", "")).status, 404);
  auto caller = client();
  caller->send(get("/v1/trace"));
  ASSERT_TRUE(daemon_.wait_held());
  EXPECT_EQ(ask(request("DELETE", "/v1/trace", "")).status, 202);
  const Response answer = caller->read();
  ASSERT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.json().as_object().contains("traceEvents"));
  EXPECT_EQ(caller->ask(get("/v2/health/live")).status, 200) << "its connection goes on";
}

TEST_F(TraceTest, EndsWithItsCaller) {
  daemon_.holds = true;
  start();
  auto caller = client();
  caller->send(get("/v1/trace"));
  ASSERT_TRUE(daemon_.wait_held());
  caller->close_now();
  EXPECT_TRUE(daemon_.wait_trace_ended());
}

}  // namespace
}  // namespace quern::server
