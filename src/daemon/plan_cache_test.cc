// SPDX-License-Identifier: Apache-2.0
#include "daemon/plan_cache.h"

#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

CachedPlanRef plan_of(size_t launches, uint64_t id = 1) {
  auto plan = std::make_shared<CachedPlan>();
  plan->id = id;
  plan->plan.launches.resize(launches);
  return plan;
}

TEST(PlanCache, FindsWhatWasPut) {
  PlanCache plans;
  EXPECT_EQ(plans.find("n=1"), nullptr);
  const auto first = plan_of(1);
  EXPECT_EQ(plans.put("n=1", first), first);
  EXPECT_EQ(plans.find("n=1"), first);
  EXPECT_EQ(plans.put("n=1", plan_of(1, 2)), first) << "whoever was faster";
  EXPECT_EQ(plans.find("n=2"), nullptr);
}

// A caller of ever new sizes drives out what nobody asks for, and not what others use again and again.
TEST(PlanCache, WhatWasNotUsedTheLongestLeaves) {
  const uint64_t each = footprint_of(plan_of(10)->plan) + 1024;
  PlanCache plans(8 * each);
  const auto used = plan_of(10);
  plans.put("used", used);
  for (int i = 0; i < 1000; ++i) {
    plans.put(std::to_string(i), plan_of(10));
    ASSERT_EQ(plans.find("used"), used) << i;
    ASSERT_NE(plans.find(std::to_string(i)), nullptr);
  }
  EXPECT_NE(plans.find("997"), nullptr);
  EXPECT_EQ(plans.find("900"), nullptr);
}

TEST(PlanCache, IsBoundedInBytesAndKeepsTheLatestWhateverItsSize) {
  const uint64_t small = footprint_of(plan_of(1)->plan), large = footprint_of(plan_of(1000)->plan);
  EXPECT_GT(large, 50 * small);
  PlanCache plans(large / 2);
  for (int i = 0; i < 20; ++i) plans.put(std::to_string(i), plan_of(1));
  EXPECT_NE(plans.find("0"), nullptr) << "small ones all fit";
  const auto huge = plan_of(1000);
  EXPECT_EQ(plans.put("huge", huge), huge);
  EXPECT_EQ(plans.find("huge"), huge);
  EXPECT_EQ(plans.find("19"), nullptr);
  plans.put("after", plan_of(1));
  EXPECT_EQ(plans.find("huge"), nullptr);
  EXPECT_NE(plans.find("after"), nullptr);
}

}  // namespace
}  // namespace quern::daemon
