// SPDX-License-Identifier: Apache-2.0
#include "sched/gaps.h"

#include <gtest/gtest.h>

#include "sched/ids_test.h"

namespace quern::sched {
namespace {

void add(Gaps& gaps, DeviceId device, FunctionId function, uint64_t after, Duration gap) {
  for (int i = 0; i < 4; ++i) gaps.add(device, function, after, gap);
}

TEST(Gaps, OfOneFunctionAreEachDevicesOwn) {
  Gaps gaps;
  add(gaps, d1, f1, 7, Duration::millis(1));
  EXPECT_TRUE(gaps.of(d1, f1, 7).is_known);
  EXPECT_FALSE(gaps.of(d2, f1, 7).is_known) << "it was never there";
  add(gaps, d2, f1, 7, Duration::millis(3));
  EXPECT_EQ(gaps.of(d1, f1, 7).median, Duration::millis(1));
  EXPECT_EQ(gaps.of(d2, f1, 7).median, Duration::millis(3));
  EXPECT_TRUE(gaps.of(d1, f1, 7).is_stable) << "one does not make the other vary";
  const auto seen = gaps.seen(f1);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].device, d1);
  EXPECT_EQ(seen[1].device, d2);
  EXPECT_EQ(seen[1].gaps.size(), 4u);
}

TEST(Gaps, LeaveWithTheirFunctionFromAllDevices) {
  Gaps gaps;
  for (const DeviceId device : {d1, d2})
    for (const FunctionId function : {f1, f2}) add(gaps, device, function, 0, Duration::millis(1));
  gaps.forget(f1);
  EXPECT_TRUE(gaps.seen(f1).empty());
  EXPECT_EQ(gaps.seen(f2).size(), 2u);
}

TEST(Gaps, AreRememberedAfterSoManyKernelsOfADevice) {
  Gaps gaps;
  for (uint64_t after = 0; after < Gaps::kMostPositions + 10; ++after) add(gaps, d1, f1, after, Duration::millis(1));
  EXPECT_EQ(gaps.seen(f1).size(), Gaps::kMostPositions);
  add(gaps, d2, f1, 0, Duration::millis(1));
  EXPECT_TRUE(gaps.of(d2, f1, 0).is_known) << "what one device has is not another's";
}

TEST(Bursts, OfOneFunctionAreEachDevicesOwn) {
  Bursts bursts;
  for (int i = 0; i < 4; ++i) {
    bursts.add(d1, f1, 1, Duration::millis(2), 5);
    bursts.add(d2, f1, 1, Duration::millis(6), 8);
  }
  EXPECT_EQ(bursts.of(d1, f1, 1)->length, Duration::millis(2));
  EXPECT_EQ(bursts.of(d1, f1, 1)->after, 5u);
  EXPECT_EQ(bursts.of(d2, f1, 1)->length, Duration::millis(6));
  EXPECT_EQ(bursts.of(d2, f1, 1)->after, 8u);
  EXPECT_FALSE(bursts.of(DeviceId{3}, f1, 1));
}

}  // namespace
}  // namespace quern::sched
