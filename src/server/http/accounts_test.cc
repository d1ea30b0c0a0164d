// SPDX-License-Identifier: Apache-2.0
#include "server/http/test_client.h"

namespace quern::server {
namespace {

using AccountsTest = ServerTest;

TEST_F(AccountsTest, AreGroupedByWhatIsAskedFor) {
  start();
  auto caller = client();
  Response answer = caller->ask(get("/v1/accounts"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("by"), "function");
  EXPECT_EQ(answer.json().at("age_ns"), 9);
  const auto row = answer.json().at("accounts").at(0);
  EXPECT_EQ(row.at("tenant"), "default");
  EXPECT_EQ(row.at("function"), "echo");
  EXPECT_FALSE(row.as_object().contains("device"));
  EXPECT_EQ(row.at("requests"), 2);
  EXPECT_EQ(row.at("device_time_ns"), 1500);
  EXPECT_EQ(row.at("waits").at("fairness_ns"), 700);
  EXPECT_EQ(row.at("waits").at("quota_ns"), 0);
  EXPECT_EQ(answer.json().at("total").at("device_time_ns"), 1500);

  answer = caller->ask(get("/v1/accounts?by=device"));
  EXPECT_EQ(answer.json().at("accounts").at(0).at("device"), "cpu0");
  EXPECT_FALSE(answer.json().at("accounts").at(0).as_object().contains("function"));
  answer = caller->ask(get("/v1/accounts?by=tenant"));
  EXPECT_EQ(answer.json().at("by"), "tenant");
  EXPECT_EQ(answer.json().at("accounts").at(0).at("tenant"), "default");
}

TEST_F(AccountsTest, Refused) {
  start();
  auto caller = client();
  const Response wrong = caller->ask(get("/v1/accounts?by=tennant"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_NE(wrong.error().find("did you mean 'tenant'?"), std::string::npos) << wrong.error();
  EXPECT_EQ(caller->ask(post("/v1/accounts", "")).status, 405);
  EXPECT_EQ(caller->ask(get("/v1/accounts/echo")).status, 404);
}

}  // namespace
}  // namespace quern::server
