// SPDX-License-Identifier: Apache-2.0
#include "daemon/profiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace quern::daemon {
namespace {

using Sample = ipc::DeviceUsed::Sample;

const KernelPlace kHere{"a", "cpu0"}, kThere{"a", "cpu1"}, kAnother{"b", "cpu0"};
const FunctionVersion kSaxpy{"a", "saxpy", "v1"};

Sample sample(uint64_t kernel, uint64_t groups, uint64_t time_ns) { return {kernel, groups, time_ns, true}; }

void add(Profiles& profiles, const Sample& one, const KernelPlace& place = kHere, int64_t now_s = 1) {
  profiles.add(place, {&one, 1}, now_s);
}

PlannedLaunch launch(uint32_t kernel, uint64_t global, uint64_t local) {
  PlannedLaunch one;
  one.kernel = kernel;
  one.global = {global, 1, 1};
  one.local = {local, 1, 1};
  return one;
}

// One kernel of a plan.
struct PreparedKernel {
  uint64_t identity = 0;
  PlannedLaunch launch;
};

// What is known of each after a plan of these kernels was prepared.
std::vector<ipc::PlanBinding::Launch> prepare(Profiles& profiles, const std::vector<PreparedKernel>& kernels) {
  Plan plan;
  ipc::PlanBinding binding;
  for (const PreparedKernel& kernel : kernels) {
    plan.launches.push_back(kernel.launch);
    binding.launches.push_back({.identity = kernel.identity});
  }
  profiles.prepare(kSaxpy, kHere, plan, binding);
  return binding.launches;
}

TEST(Profiles, ATimeIsThatOfAGroup) {
  Profiles profiles;
  EXPECT_EQ(profiles.group_ps(kHere, 7), 0u) << "it was never seen";
  add(profiles, sample(7, 100, 500), kHere, 42);
  EXPECT_EQ(profiles.group_ps(kHere, 7), 5000u);
  add(profiles, sample(7, 10, 50));  // a slice of the same
  const KernelTimes* times = profiles.find(kHere, 7);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->samples, 2u);
  EXPECT_EQ(times->groups, 10u);
  EXPECT_DOUBLE_EQ(times->mean_ps, 5000);
  EXPECT_DOUBLE_EQ(times->spread_ps, 0);
  EXPECT_EQ(times->seen_s, 1);
  EXPECT_EQ(profiles.group_ps(kThere, 7), 0u) << "another device";
  EXPECT_EQ(profiles.group_ps(kAnother, 7), 0u) << "another's word";
}

TEST(Profiles, OnlySamplesThatSaySomethingCount) {
  Profiles profiles;
  add(profiles, {0, 10, 50, false});
  add(profiles, sample(0, 10, 50));
  add(profiles, sample(7, 0, 50));
  add(profiles, sample(7, 10, 0));
  add(profiles, sample(7, 1, UINT64_MAX));
  EXPECT_EQ(profiles.find(kHere, 7), nullptr);
  EXPECT_EQ(profiles.find(kHere, 0), nullptr);
  add(profiles, sample(7, UINT64_MAX, 1));
  EXPECT_EQ(profiles.group_ps(kHere, 7), 1u) << "less than a picosecond, and not unknown";
}

TEST(Profiles, ADisturbedTimeIsTheMostUntilThereIsABetterOne) {
  Profiles profiles;
  add(profiles, {7, 10, 50, false});
  add(profiles, {7, 10, 40, false});
  add(profiles, {7, 10, 60, false});
  ASSERT_NE(profiles.find(kHere, 7), nullptr);
  EXPECT_TRUE(profiles.find(kHere, 7)->is_rough());
  EXPECT_EQ(profiles.find(kHere, 7)->quantiles().p50, 4000u) << "the least disturbed";
  EXPECT_EQ(profiles.group_ps(kHere, 7), 0u) << "nothing is cut by it";
  EXPECT_TRUE(profiles.take_changed(10).empty()) << "nor kept";
  add(profiles, sample(7, 10, 30));
  add(profiles, {7, 10, 20, false});
  EXPECT_FALSE(profiles.find(kHere, 7)->is_rough());
  EXPECT_EQ(profiles.find(kHere, 7)->samples, 1u);
  EXPECT_EQ(profiles.find(kHere, 7)->mean_ps, 3000);
  EXPECT_EQ(profiles.group_ps(kHere, 7), 3000u);
  EXPECT_EQ(profiles.take_changed(10).kernels.size(), 1u);
}

TEST(KernelTimes, TheFirstSamplesCountTheSame) {
  KernelTimes times;
  for (const uint64_t ps : {1000, 2000, 3000, 6000}) times.add(1, ps, 0);
  EXPECT_DOUBLE_EQ(times.mean_ps, 3000);
  EXPECT_NEAR(times.spread_ps, std::sqrt(3'500'000), 1e-6);  // of four, around 3000
}

TEST(KernelTimes, OldSamplesFade) {
  KernelTimes times;
  for (int i = 0; i < 1000; ++i) times.add(1, 1000, 0);
  for (int i = 0; i < 16; ++i) times.add(1, 9000, 0);
  EXPECT_GT(times.mean_ps, 5500) << "16 new ones outweigh all that was before";
  EXPECT_LT(times.mean_ps, 9000);
  EXPECT_GT(times.spread_ps, 1000);
  for (int i = 0; i < 200; ++i) times.add(1, 9000, 0);
  EXPECT_NEAR(times.mean_ps, 9000, 10);
  EXPECT_LT(times.spread_ps, 100);
  EXPECT_EQ(times.samples, 1216u);
}

TEST(KernelTimes, QuantilesAreThoseOfTheLast) {
  KernelTimes times;
  EXPECT_EQ(times.quantiles().p50, 0u);
  times.add(1, 500, 0);
  EXPECT_EQ(times.quantiles().p10, 500u);
  EXPECT_EQ(times.quantiles().p90, 500u);
  for (int i = 0; i < 100; ++i) times.add(1, 1'000'000, 0);
  for (uint64_t i = 1; i <= KernelTimes::kLast; ++i) times.add(1, i * 100, 0);
  EXPECT_EQ(times.last_ps.size(), KernelTimes::kLast);
  EXPECT_EQ(times.last_ps.front(), 100u);
  const auto quantiles = times.quantiles();
  EXPECT_EQ(quantiles.p10, 400u);
  EXPECT_EQ(quantiles.p50, 1700u);
  EXPECT_EQ(quantiles.p90, 2900u);
}

TEST(Profiles, APlanIsToldWhatItsKernelsTookBefore) {
  Profiles profiles;
  add(profiles, sample(7, 10, 500));
  add(profiles, sample(8, 10, 900), kThere);
  const auto launches = prepare(profiles, {{7, launch(0, 640, 64)}, {8, launch(1, 640, 0)}, {7, launch(2, 640, 64)}});
  EXPECT_EQ(launches[0].group_ps, 50'000u);
  EXPECT_EQ(launches[1].group_ps, 0u) << "seen elsewhere only";
  EXPECT_EQ(launches[2].group_ps, 50'000u);
  const std::vector<FunctionKernelRecord> wanted = {{kSaxpy, 7, 0, 10}, {kSaxpy, 8, 1, 0}};
  EXPECT_EQ(profiles.kernels_of(kSaxpy), wanted) << "launches that are alike are one kernel";
  EXPECT_TRUE(profiles.kernels_of({"a", "saxpy", "v2"}).empty());
  profiles.forget(kSaxpy);
  EXPECT_TRUE(profiles.kernels_of(kSaxpy).empty());
  EXPECT_EQ(profiles.group_ps(kHere, 7), 50'000u) << "another version may have the same kernel";
}

TEST(Profiles, GroupsOfAllDimensionsCount) {
  auto one = launch(0, 640, 64);
  EXPECT_EQ(groups_of(one), 10u);
  one.dimensions = 2;
  one.global[1] = 12;
  one.local[1] = 4;
  EXPECT_EQ(groups_of(one), 30u);
  one.local[1] = 0;
  EXPECT_EQ(groups_of(one), 0u) << "the driver picks";
}

TEST(Profiles, WhatChangedIsTakenOnceAndInPieces) {
  Profiles profiles;
  for (uint64_t kernel = 1; kernel <= 3; ++kernel) add(profiles, sample(kernel, 1, 100));
  add(profiles, sample(1, 1, 100));
  prepare(profiles, {{1, launch(0, 64, 64)}});
  const ProfileRecords first = profiles.take_changed(2);
  ASSERT_EQ(first.kernels.size(), 2u);
  EXPECT_EQ(first.kernels[0].identity, 1u) << "the first to change";
  EXPECT_EQ(first.kernels[0].times.samples, 2u);
  ASSERT_EQ(first.function_kernels.size(), 1u);
  EXPECT_EQ(first.function_kernels[0], (FunctionKernelRecord{kSaxpy, 1, 0, 1}));
  const ProfileRecords second = profiles.take_changed(2);
  ASSERT_EQ(second.kernels.size(), 1u);
  EXPECT_EQ(second.kernels[0].identity, 3u);
  EXPECT_TRUE(profiles.take_changed(2).empty());
  prepare(profiles, {{1, launch(0, 64, 64)}});
  EXPECT_TRUE(profiles.take_changed(2).empty()) << "nothing new was learned";
  add(profiles, sample(2, 1, 100));
  EXPECT_EQ(profiles.take_changed(2).kernels.size(), 1u);
}

TEST(Profiles, WhatWasKeptComesBack) {
  Profiles before;
  for (int i = 0; i < 50; ++i) add(before, sample(7, 10, static_cast<uint64_t>(500 + i)));
  add(before, sample(8, 1, 100), kAnother);
  prepare(before, {{7, launch(4, 640, 64)}});
  const ProfileRecords kept = before.take_changed(100);
  Profiles after;
  after.load(kept);
  EXPECT_TRUE(after.take_changed(100).empty()) << "it is stored already";
  ASSERT_TRUE(after.find(kHere, 7));
  EXPECT_EQ(*after.find(kHere, 7), *before.find(kHere, 7));
  EXPECT_EQ(after.kernels_of(kSaxpy), before.kernels_of(kSaxpy));
  EXPECT_EQ(after.kernels_at(kAnother), before.kernels_at(kAnother));
  add(after, sample(7, 10, 500));
  EXPECT_EQ(after.find(kHere, 7)->samples, 51u) << "and it goes on from there";
}

TEST(Profiles, TooMuchOfWhatWasKeptIsCut) {
  ProfileRecords kept;
  kept.kernels = {{kHere, 7, {}}};
  kept.kernels[0].times.samples = 100;
  for (uint64_t i = 0; i < 100; ++i) kept.kernels[0].times.last_ps.push_back(i);
  Profiles profiles;
  profiles.load(kept);
  EXPECT_EQ(profiles.find(kHere, 7)->last_ps.size(), KernelTimes::kLast);
  EXPECT_EQ(profiles.find(kHere, 7)->last_ps.back(), 99u);
}

TEST(Profiles, WhoBringsEverNewKernelsDrivesOutItsOwn) {
  Profiles profiles(10);
  add(profiles, sample(1, 1, 100), kAnother);
  for (uint64_t kernel = 1; kernel <= 1000; ++kernel) {
    add(profiles, sample(kernel, 1, 100));
    add(profiles, sample(1, 1, 100));  // this one is used all the time
  }
  EXPECT_TRUE(profiles.find(kAnother, 1));
  EXPECT_TRUE(profiles.find(kHere, 1)) << "the one used least lately leaves";
  EXPECT_EQ(profiles.kernels_at(kHere).size(), 9u);
  EXPECT_EQ(profiles.kernels_at(kHere).back().identity, 1000u);
  const ProfileRecords changed = profiles.take_changed(1000);
  EXPECT_EQ(changed.kernels.size(), 10u) << "what left is not told of";
}

TEST(Shelves, AnEmptyShelfIsNone) {
  Shelves<std::string, int> shelves(2);
  shelves.use("a", 1, true) = 5;
  shelves.use("b", 1, true) = 6;
  shelves.use("c", 1, true) = 7;
  EXPECT_EQ(shelves.size(), 2u);
  EXPECT_EQ(shelves.find("a", 1), nullptr) << "all are as full: the first";
  ASSERT_TRUE(shelves.find("c", 1));
  EXPECT_EQ(*shelves.find("c", 1), 7);
  shelves.forget("c");
  shelves.forget("c");
  EXPECT_EQ(shelves.size(), 1u);
  int taken = 0;
  shelves.take_changed(10, [&](const std::string& name, uint64_t number, int item) {
    EXPECT_EQ(name, "b");
    EXPECT_EQ(number, 1u);
    EXPECT_EQ(item, 6);
    ++taken;
  });
  EXPECT_EQ(taken, 1) << "what is forgotten is not told of";
}

}  // namespace
}  // namespace quern::daemon
