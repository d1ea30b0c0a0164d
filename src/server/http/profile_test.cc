// SPDX-License-Identifier: Apache-2.0
#include "server/http/test_client.h"

namespace quern::server {
namespace {

using ProfileTest = ServerTest;

TEST_F(ProfileTest, KernelsAndGaps) {
  start();
  const Response answer = ask(get("/v1/functions/echo/profile"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto profile = answer.json();
  EXPECT_EQ(profile.at("function"), "echo");
  EXPECT_EQ(profile.at("version"), "0123456789ab");
  EXPECT_EQ(profile.at("bound_ns"), 400'000);
  const auto& kernel = profile.at("kernels").at(0);
  EXPECT_EQ(kernel.at("entry"), "copy");
  EXPECT_EQ(kernel.at("identity"), "0000000000000abc");
  EXPECT_EQ(kernel.at("device"), "cpu0");
  EXPECT_EQ(kernel.at("groups"), 1000);
  EXPECT_EQ(kernel.at("samples"), 3);
  EXPECT_EQ(kernel.at("launch_ns"), 1250);
  EXPECT_EQ(kernel.at("group_ns").at("mean"), 1.5);
  EXPECT_EQ(kernel.at("group_ns").at("p50"), 1.25);
  EXPECT_EQ(kernel.at("sliceable"), false);
  EXPECT_EQ(kernel.at("reason"), "has one group");
  const auto& gap = profile.at("gaps").at(0);
  EXPECT_EQ(gap.at("device"), "cpu0");
  EXPECT_EQ(gap.at("between_runs"), true);
  EXPECT_EQ(gap.at("p50_ns"), 2'000'000);
  EXPECT_FALSE(gap.as_object().contains("after")) << "there is no kernel before it";
}

TEST_F(ProfileTest, Refused) {
  start();
  auto caller = client();
  const Response none = caller->ask(get("/v1/functions/ecko/profile"));
  EXPECT_EQ(none.status, 404);
  EXPECT_NE(none.error().find("did you mean 'echo'"), std::string::npos) << none.error();
  EXPECT_EQ(caller->ask(get("/v1/functions/echo%40ffffff/profile")).status, 404);
  EXPECT_EQ(caller->ask(get("/v1/functions/echo%400123456/profile")).status, 200);
  EXPECT_EQ(caller->ask(post("/v1/functions/echo/profile", "")).status, 405);
}

}  // namespace
}  // namespace quern::server
