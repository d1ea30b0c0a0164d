// SPDX-License-Identifier: Apache-2.0
#include "sched/homes.h"

#include <gtest/gtest.h>

#include <set>

#include "base/prng.h"
#include "base/units.h"
#include "sched/ids_test.h"
#include "sched/policy/table.h"

namespace quern::sched {
namespace {

constexpr Time kNow{1};

/// Two devices of 8 and 16 GiB.
struct Homestead {
  std::unique_ptr<Eviction> eviction = make_eviction("cost");
  Devices devices{Config{}, *eviction};
  Homes homes;

  Homestead() {
    devices.up(d1, 8 * kGiB, 0, false, 2);
    devices.up(d2, 16 * kGiB, 0, false, 2);
  }
  std::optional<DeviceId> settle(uint64_t function, const Quota& quota, Time now = kNow, uint64_t bytes = kGiB) {
    const Homes::Home* home = homes.settle(FunctionId{function}, quota, bytes, devices, now);
    return home ? home->device : std::nullopt;
  }
  bool is_refused(uint64_t function, const Quota& quota) {
    return homes.settle(FunctionId{function}, quota, kGiB, devices, kNow) == nullptr;
  }
};

Quota share(uint32_t request, uint32_t units = 1000) { return {.request = request, .limit = 1000, .units = units}; }

// What is counted is what runs: parts of 1, 2, 4, ... units, where a device has no others.
TEST(Homes, CountTheUnitsThatAreUsed) {
  const Quota most = share(600, 750), half = share(600, 500);
  EXPECT_EQ(units_of(most, {4, false}), 3U);
  EXPECT_EQ(units_of(most, {4, true}), 2U);
  EXPECT_EQ(units_of(most, {6, true}), 4U);
  EXPECT_EQ(units_of(share(0), {6, true}), 6U);
  EXPECT_EQ(units_of(share(0, 10), {4, true}), 1U);
  for (const bool in_halves : {false, true}) {
    const auto eviction = make_eviction("cost");
    Devices devices{Config{}, *eviction};
    Homes homes;
    devices.up(d1, 8 * kGiB, 0, false, {4, in_halves});
    ASSERT_NE(homes.settle(FunctionId{1}, most, kGiB, devices, kNow), nullptr);
    homes.hold(FunctionId{1});
    EXPECT_EQ(homes.find(FunctionId{1})->at.height, in_halves ? 2U : 3U);
    EXPECT_EQ(homes.settle(FunctionId{2}, half, kGiB, devices, kNow) != nullptr, in_halves) << "beside it";
  }
}

TEST(Homes, OneDeviceIsFullBeforeTheNextIsUsed) {
  Homestead it;
  EXPECT_EQ(it.settle(1, share(600)), d1);
  EXPECT_EQ(it.settle(2, share(400)), d1);
  EXPECT_EQ(it.settle(3, share(300, 500)), d2);
  it.homes.hold(FunctionId{1});
  it.homes.hold(FunctionId{2});
  it.homes.hold(FunctionId{3});
  EXPECT_EQ(it.settle(4, share(700)), d2);
  it.homes.hold(FunctionId{4});
  // Beside 3, on the other half of the units.
  EXPECT_EQ(it.settle(5, share(300, 500)), d2);
  it.homes.hold(FunctionId{5});
  EXPECT_TRUE(it.is_refused(6, share(1, 1000)));
  EXPECT_EQ(it.homes.size(), 5U);
}

// Half of a device that cannot be divided is all of it, and a tenth of two units is one.
TEST(Homes, CountsTheUnitsThatARunReallyUses) {
  Homestead it;
  it.devices.up(DeviceId{3}, 32 * kGiB, 0, false, 1);
  EXPECT_EQ(it.settle(1, share(800, 500), kNow, 20 * kGiB), DeviceId{3});
  it.homes.hold(FunctionId{1});
  EXPECT_EQ(it.homes.settle(FunctionId{2}, share(800, 500), 20 * kGiB, it.devices, kNow), nullptr);
  for (const uint64_t function : {3, 4}) {
    EXPECT_EQ(it.settle(function, share(1000, 100), kNow, 12 * kGiB), d2);
    it.homes.hold(FunctionId{function});
  }
  EXPECT_EQ(it.homes.settle(FunctionId{5}, share(300, 100), 12 * kGiB, it.devices, kNow), nullptr);
}

TEST(Homes, WhatIsTooLargeForADeviceGoesElsewhere) {
  Homestead it;
  EXPECT_EQ(it.settle(1, share(100), kNow, 12 * kGiB), d2);
  EXPECT_EQ(it.homes.settle(FunctionId{2}, share(100), 20 * kGiB, it.devices, kNow), nullptr);
}

TEST(Homes, WithoutARequestItRunsAnywhereAtALevelOfItsOwn) {
  Homestead it;
  const Quota limited{.request = 0, .limit = 300, .units = 1000};
  const Homes::Home* first = it.homes.settle(FunctionId{1}, limited, kGiB, it.devices, kNow);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->device);
  const LevelNo level = level_of(3, first->own);
  EXPECT_TRUE(is_own(level));
  EXPECT_FALSE(it.homes.device_of(level));
  const Homes::Home* second = it.homes.settle(FunctionId{2}, share(100), kGiB, it.devices, kNow);
  ASSERT_TRUE(second);
  EXPECT_NE(second->own, it.homes.find(FunctionId{1})->own);
  EXPECT_EQ(it.homes.device_of(level_of(0, second->own)), d1);
  EXPECT_EQ(it.homes.device_of(level_of(9, second->own)), d1);
  EXPECT_FALSE(it.homes.device_of(level_of(9)));
}

TEST(Homes, AShareThatNobodyUsesGoesToWhoAsks) {
  Homestead it;
  EXPECT_EQ(it.settle(1, share(1000), Time{5}), d1);
  EXPECT_EQ(it.settle(2, share(1000), Time{3}), d2);
  // Of two that have nothing to do, the one that was used least lately.
  EXPECT_EQ(it.settle(3, share(500), Time{6}), d2);
  EXPECT_FALSE(it.homes.find(FunctionId{2}));
  it.homes.hold(FunctionId{1});
  it.homes.hold(FunctionId{3});
  EXPECT_TRUE(it.is_refused(4, share(600)));
  it.homes.release(FunctionId{1}, Time{7});
  EXPECT_EQ(it.settle(4, share(600), Time{8}), d1);
}

TEST(Homes, AnotherQuotaIsAnotherPlace) {
  Homestead it;
  EXPECT_EQ(it.settle(1, share(500)), d1);
  it.homes.hold(FunctionId{1});
  EXPECT_EQ(it.settle(2, share(500)), d1);
  it.homes.hold(FunctionId{2});
  const LevelNo own = it.homes.find(FunctionId{1})->own;
  EXPECT_EQ(it.settle(1, share(800)), d2);
  EXPECT_EQ(it.homes.find(FunctionId{1})->own, own);
  EXPECT_EQ(it.settle(2, share(600)), d1);
  // More than there is left: it keeps what it has.
  EXPECT_EQ(it.settle(3, share(300)), d1);
  it.homes.hold(FunctionId{3});
  EXPECT_TRUE(it.is_refused(2, share(900)));
  EXPECT_EQ(it.homes.find(FunctionId{2})->quota, share(600));
  EXPECT_EQ(it.homes.find(FunctionId{2})->device, d1);
  EXPECT_EQ(it.homes.shares(d1)->taken().size(), 2U);
}

TEST(Homes, WhoLosesItsDeviceFindsAnother) {
  Homestead it;
  EXPECT_EQ(it.settle(1, share(500)), d1);
  it.homes.hold(FunctionId{1});
  it.devices.down(d1);
  it.homes.device_down(d1);
  EXPECT_FALSE(it.homes.find(FunctionId{1})->device);
  EXPECT_EQ(it.homes.shares(d1), nullptr);
  EXPECT_EQ(it.settle(1, share(500)), d2);
}

TEST(Homes, WhoIsGoneGivesAllBackWhenItsRunsEnded) {
  Homestead it;
  EXPECT_EQ(it.settle(1, share(1000)), d1);
  it.homes.hold(FunctionId{1});
  it.homes.gone(FunctionId{1});
  EXPECT_TRUE(it.homes.find(FunctionId{1}));
  it.homes.release(FunctionId{1}, kNow);
  it.homes.gone(FunctionId{1});
  EXPECT_FALSE(it.homes.find(FunctionId{1}));
  EXPECT_TRUE(it.homes.shares(d1)->empty());
}

TEST(Homes, LevelsAreFew) {
  Homestead it;
  const Quota limited{.request = 0, .limit = 300, .units = 1000};
  for (uint64_t function = 1; function <= kShared; ++function) {
    ASSERT_FALSE(it.is_refused(function, limited)) << function;
    it.homes.hold(FunctionId{function});
  }
  EXPECT_TRUE(it.is_refused(1000, limited));
  it.homes.release(FunctionId{7}, kNow);
  EXPECT_FALSE(it.is_refused(1000, limited));
  EXPECT_FALSE(it.homes.find(FunctionId{7}));
}

// Whatever comes and goes, shares of a device do not overlap, and everyone has what its quota says or is refused.
TEST(Homes, SharesNeverSumUpToMoreThanADevice) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Prng prng(seed);
    Homestead it;
    std::map<uint64_t, uint64_t> holds;
    for (int i = 0; i < 400; ++i) {
      const uint64_t function = 1 + prng.below(12);
      switch (prng.below(5)) {
        case 0:
        case 1: {
          const Quota quota =
              share(static_cast<uint32_t>(prng.below(11)) * 100, static_cast<uint32_t>(1 + prng.below(10)) * 100);
          const Homes::Home* home = it.homes.settle(FunctionId{function}, quota, kGiB, it.devices, Time{i + 1});
          if (!home) break;
          EXPECT_EQ(home->quota, quota);
          EXPECT_EQ(home->device.has_value(), quota.request > 0);
          it.homes.hold(FunctionId{function});
          ++holds[function];
          break;
        }
        case 2:
        case 3:
          if (holds[function] == 0) break;
          --holds[function];
          it.homes.release(FunctionId{function}, Time{i + 1});
          break;
        default:
          if (prng.below(10) == 0) it.homes.device_down(d2);
          it.homes.gone(FunctionId{function});
      }
      std::set<LevelNo> owns;
      std::map<DeviceId, uint64_t> areas;
      size_t homes = 0;
      for (uint64_t other = 1; other <= 12; ++other) {
        const Homes::Home* home = it.homes.find(FunctionId{other});
        EXPECT_TRUE(home || holds[other] == 0) << other;
        if (!home) continue;
        ++homes;
        EXPECT_TRUE(owns.insert(home->own).second);
        EXPECT_EQ(home->holders, holds[other]);
        if (!home->device) continue;
        EXPECT_EQ(home->at.width, home->quota.request);
        EXPECT_EQ(home->at.height, units_of(home->quota, 2));
        areas[*home->device] += uint64_t{home->at.width} * home->at.height;
        const auto& taken = it.homes.shares(*home->device)->taken();
        EXPECT_EQ(std::count(taken.begin(), taken.end(), home->at), 1);
      }
      EXPECT_EQ(homes, it.homes.size());
      for (const auto& [device, area] : areas) EXPECT_LE(area, uint64_t{1000} * 2);
      if (HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace quern::sched
