// SPDX-License-Identifier: Apache-2.0
#include "server/http/router.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern::server {
namespace {

TEST(Router, Paths) {
  struct Case {
    Method method;
    std::string target;
    Endpoint endpoint;
    std::string name, version;
  };
  const std::vector<Case> cases = {
      {Method::kGet, "/v2", Endpoint::kServer, "", ""},
      {Method::kGet, "/v2/", Endpoint::kServer, "", ""},
      {Method::kGet, "http://host:1/v2?x=/a", Endpoint::kServer, "", ""},
      {Method::kGet, "/v2/health/live", Endpoint::kLive, "", ""},
      {Method::kHead, "/v2/health/ready", Endpoint::kReady, "", ""},
      {Method::kGet, "/v2/models/a", Endpoint::kModel, "a", ""},
      {Method::kGet, "/v2/models/a@b", Endpoint::kModel, "a", "b"},
      {Method::kGet, "/v2/models/%61%40b/ready", Endpoint::kModelReady, "a", "b"},
      {Method::kGet, "/v2/models/a/versions/b", Endpoint::kModel, "a", "b"},
      {Method::kPost, "/v2/models/a@b/versions/b/infer", Endpoint::kInfer, "a", "b"},
      {Method::kPost, "/v2/models/a%2Fc/infer", Endpoint::kInfer, "a/c", ""},
      {Method::kPut, "/v1/functions/a", Endpoint::kFunction, "a", ""},
      {Method::kGet, "/v1/functions/", Endpoint::kFunctions, "", ""},
      {Method::kGet, "/v1/requests", Endpoint::kRequests, "", ""},
      {Method::kDelete, "/v1/requests/a%2D7", Endpoint::kRequest, "a-7", ""},
      {Method::kGet, "/v1/requests/a%2D7", Endpoint::kRequest, "a-7", ""},
      {Method::kGet, "/v1/memory", Endpoint::kMemory, "", ""},
      {Method::kGet, "/v1/accounts?by=tenant", Endpoint::kAccounts, "", ""},
      {Method::kGet, "/v1/trace", Endpoint::kTrace, "", ""},
      {Method::kGet, "/v1/trace?seconds=5", Endpoint::kTrace, "", ""},
      {Method::kDelete, "/v1/trace", Endpoint::kTrace, "", ""},
      {Method::kPost, "/v1/functions/a/keep?stage=hot&for=60s", Endpoint::kKeep, "a", ""},
      {Method::kDelete, "/v1/functions/a/keep", Endpoint::kKeep, "a", ""},
      {Method::kGet, "/v1/functions/a/profile", Endpoint::kProfile, "a", ""},
      {Method::kGet, "/v1/functions/a%40b/profile", Endpoint::kProfile, "a", "b"},
      {Method::kPut, "/v1/objects", Endpoint::kObjects, "", ""},
      {Method::kGet, "/v1/objects/", Endpoint::kObjects, "", ""},
      {Method::kGet, "/v1/objects/lease%2Da?keep=true", Endpoint::kObject, "lease-a", ""},
      {Method::kDelete, "/v1/objects/a@b", Endpoint::kObject, "a@b", ""},
  };
  for (const Case& c : cases) {
    Route route;
    const auto failure = find_route(c.method, c.target, route);
    ASSERT_FALSE(failure) << c.target << " " << failure->error.text;
    EXPECT_EQ(route.endpoint, c.endpoint) << c.target;
    EXPECT_EQ(route.name, c.name) << c.target;
    EXPECT_EQ(route.version, c.version) << c.target;
  }
}

TEST(Router, KeepIsRead) {
  for (const auto& [target, keeps] : std::vector<std::pair<std::string, bool>>{{"/v1/objects/a", false},
                                                                               {"/v1/objects/a?keep=true", true},
                                                                               {"/v1/objects/a?x=1&keep=true#f", true},
                                                                               {"/v1/objects/a?keep=false", false},
                                                                               {"/v1/objects/a?keep=true1", false},
                                                                               {"/v1/objects/a?xkeep=true", false},
                                                                               {"/v1/objects/a#?keep=true", false}}) {
    Route route;
    EXPECT_FALSE(find_route(Method::kGet, target, route)) << target;
    EXPECT_EQ(route.keeps, keeps) << target;
  }
}

TEST(Router, AProfileIsOnlyRead) {
  Route route;
  const auto failure = find_route(Method::kPost, "/v1/functions/a/profile", route);
  ASSERT_TRUE(failure);
  EXPECT_EQ(status_of(*failure), 405);
  EXPECT_EQ(failure->allow, "GET, HEAD");
  const auto mistyped = find_route(Method::kGet, "/v1/functions/a/profle", route);
  ASSERT_TRUE(mistyped);
  EXPECT_NE(mistyped->error.text.find("/v1/functions/a/profile"), std::string::npos) << mistyped->error.text;
}

TEST(Router, SecondsAreRead) {
  Route route;
  const std::vector<std::pair<std::string, std::string>> cases = {{"/v1/trace?seconds=5", "5"},
                                                                  {"/v1/trace", ""},
                                                                  {"/v1/trace?a=1&seconds=x", "x"},
                                                                  {"/v1/trace?xseconds=5", ""},
                                                                  {"/v1/trace#?seconds=5", ""}};
  for (const auto& [target, seconds] : cases) {
    EXPECT_FALSE(find_route(Method::kGet, target, route)) << target;
    EXPECT_EQ(route.seconds, seconds) << target;
  }
  const auto failure = find_route(Method::kHead, "/v1/trace", route);
  ASSERT_TRUE(failure);
  EXPECT_EQ(status_of(*failure), 405);
  EXPECT_EQ(failure->allow, "GET, DELETE");
}

TEST(Router, AccountsAreByWhatIsAskedFor) {
  for (const auto& [target, by] :
       std::vector<std::pair<std::string, std::string>>{{"/v1/accounts", ""},
                                                        {"/v1/accounts?by=device", "device"},
                                                        {"/v1/accounts?x=1&by=tenant#f", "tenant"},
                                                        {"/v1/accounts?xby=tenant", ""}}) {
    Route route;
    EXPECT_FALSE(find_route(Method::kGet, target, route)) << target;
    EXPECT_EQ(route.by, by) << target;
  }
}

TEST(Router, Refused) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"/", 404},
      {"", 404},
      {"*", 404},
      {"/v3", 404},
      {"/v2/models", 404},
      {"/v2/models//infer", 404},
      {"/v2/models/a/versions", 404},
      {"/v2/models/a/b/c/d/e/f/g/h/i/j", 404},
      {"/v2/models/a/infer/x", 404},
      {"/v2/models/%", 400},
      {"/v2/models/%4", 400},
      {"/v2/models/a@", 400},
      {"/v2/models/a@b/versions/c", 400},
      {"/v2/models/a/infer", 405},
      {"/v1/functions/a/b", 404},
      {"/v1/functions/a/keep", 405},
      {"/v1/functions/a/profile/x", 404},
      {"/v1/requests/a/b", 404},
      {"/v1/objects/a/b", 404},
      {"/v1/objects/%", 400},
  };
  for (const auto& [target, status] : cases) {
    Route route;
    const auto failure = find_route(Method::kGet, target, route);
    ASSERT_TRUE(failure) << target;
    EXPECT_EQ(status_of(*failure), status) << target;
  }
}

}  // namespace
}  // namespace quern::server
