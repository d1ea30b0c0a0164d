// SPDX-License-Identifier: Apache-2.0
#include "daemon/counters.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace quern::daemon {
namespace {

TEST(Counters, EachIsToldOnceByItsName) {
  LiveCounters counters;
  counters.builds = 3;
  counters.fairness_lag_ns = -5;
  std::map<std::string, int64_t, std::less<>> told;
  std::set<std::string_view> meanings;
  for_each_counter(counters.read(), [&](std::string_view name, auto value, std::string_view meaning) {
    EXPECT_TRUE(told.emplace(name, static_cast<int64_t>(value)).second) << name;
    EXPECT_TRUE(meanings.insert(meaning).second) << meaning;
    EXPECT_FALSE(meaning.empty()) << name;
  });
  EXPECT_EQ(told.size() * sizeof(uint64_t), sizeof(Counters));
  EXPECT_EQ(told["builds"], 3);
  EXPECT_EQ(told["fairness_lag_ns"], -5);
  EXPECT_EQ(told["loads"], 0);
}

}  // namespace
}  // namespace quern::daemon
