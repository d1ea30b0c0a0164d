// SPDX-License-Identifier: Apache-2.0
#include "sched/quotas.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "sched/ids_test.h"

namespace quern::sched {
namespace {

constexpr Quota kFifth{.request = 100, .limit = 200, .units = 1000};

Time at_ms(int64_t ms) { return {Duration::millis(ms).ns}; }

/// Windows of 100 ms, and a function that may have a fifth of each.
struct Shares {
  Config config;
  Quotas quotas{config};

  Shares() { quotas.set(f1, kFifth, {0}); }
  Duration left(Time now, uint32_t units = 1) { return quotas.left(d1, f1, units, now); }
  void charge(Duration used, Time now, uint32_t units = 1) { quotas.charge(d1, f1, units, used, now); }
  bool is_below(Time now) { return quotas.is_below_request(d1, f1, 1, now); }
};

TEST(Quotas, EveryWindowGivesTheLimit) {
  Shares it;
  EXPECT_EQ(it.left(at_ms(0)), Duration::millis(20));
  it.charge(Duration::millis(5), at_ms(50));
  EXPECT_EQ(it.left(at_ms(99)), Duration::millis(15));
  // What it did not use is nobody's.
  EXPECT_EQ(it.left(at_ms(100)), Duration::millis(20));
  EXPECT_EQ(it.quotas.next_window(at_ms(99)), at_ms(100));
  EXPECT_EQ(it.quotas.next_window(at_ms(100)), at_ms(200));
}

TEST(Quotas, WhatWasTooMuchIsPaidBack) {
  Shares it;
  it.charge(Duration::millis(55), at_ms(10));
  EXPECT_EQ(it.left(at_ms(10)), Duration::millis(-35));
  EXPECT_EQ(it.left(at_ms(100)), Duration::millis(-15));
  EXPECT_EQ(it.left(at_ms(200)), Duration::millis(5));
  EXPECT_EQ(it.left(at_ms(300)), Duration::millis(20));
  // Also where nobody asked meanwhile.
  it.charge(Duration::millis(55), at_ms(310));
  EXPECT_EQ(it.left(at_ms(500)), Duration::millis(5));
  it.charge(Duration::seconds(3600), at_ms(510));
  EXPECT_EQ(it.left(Time{Duration::seconds(86400).ns}), Duration::millis(20));
}

TEST(Quotas, UnitsCountAsManyTimes) {
  Shares it;
  EXPECT_EQ(it.left(at_ms(0), 4), Duration::millis(80));
  it.charge(Duration::millis(50), at_ms(0), 4);
  EXPECT_EQ(it.left(at_ms(0), 4), Duration::millis(30));
}

TEST(Quotas, ARequestIsDueAsTheWindowPasses) {
  Shares it;
  it.quotas.set(f1, {.request = 300, .limit = 1000}, {0});
  const auto behind = [&](Time now, uint32_t units = 1) { return it.quotas.behind_request(d1, f1, units, now); };
  EXPECT_EQ(behind(at_ms(0)), Duration{0});
  EXPECT_EQ(behind(at_ms(50)), Duration::millis(15));
  it.charge(Duration::millis(20), at_ms(50));
  EXPECT_EQ(behind(at_ms(50)), Duration::millis(-5));
  EXPECT_EQ(behind(at_ms(90)), Duration::millis(7));
  // What it did not get is nobody's.
  EXPECT_EQ(behind(at_ms(110)), Duration::millis(3));
  EXPECT_EQ(behind(at_ms(110), 4), Duration::millis(12));
  EXPECT_EQ(it.quotas.behind_request(d1, FunctionId{99}, 1, at_ms(110)), Duration{0});
}

TEST(Quotas, RequestIsOfThisWindowOnly) {
  Shares it;
  EXPECT_TRUE(it.is_below(at_ms(0)));
  it.charge(Duration::millis(30), at_ms(1));
  EXPECT_FALSE(it.is_below(at_ms(1)));
  // It owes something, and still has had nothing of this one.
  EXPECT_TRUE(it.is_below(at_ms(100)));
  it.quotas.set(f1, {.request = 0, .limit = 200, .units = 1000}, at_ms(100));
  EXPECT_FALSE(it.is_below(at_ms(100)));
}

TEST(Quotas, EachOnEachDeviceForItself) {
  Shares it;
  it.quotas.set(f2, kFifth, at_ms(0));
  it.charge(Duration::millis(20), at_ms(0));
  EXPECT_EQ(it.left(at_ms(0)), Duration{0});
  EXPECT_EQ(it.quotas.left(d2, f1, 1, at_ms(0)), Duration::millis(20));
  EXPECT_EQ(it.quotas.left(d1, f2, 1, at_ms(0)), Duration::millis(20));
}

TEST(Quotas, AnotherQuotaCountsFromNowOn) {
  Shares it;
  it.charge(Duration::millis(100), at_ms(0));
  // 80 ms are owed: four windows under the old one, one of them passed.
  it.quotas.set(f1, {.request = 0, .limit = 600, .units = 1000}, at_ms(100));
  EXPECT_EQ(it.quotas.of(f1).limit, 600U);
  EXPECT_EQ(it.left(at_ms(100)), Duration::millis(-20));
  EXPECT_EQ(it.left(at_ms(200)), Duration::millis(40));
}

TEST(Quotas, WhatIsHeldIsKept) {
  Shares it;
  it.quotas.hold(f1, Quota{}, at_ms(0));
  EXPECT_EQ(it.quotas.of(f1), kFifth);  // it was set already
  it.charge(Duration::millis(40), at_ms(0));
  it.quotas.forget(f1);
  EXPECT_EQ(it.left(at_ms(0)), Duration::millis(-20));
  it.quotas.release(f1);
  EXPECT_EQ(it.quotas.size(), 0U);
  EXPECT_EQ(it.left(at_ms(0)), Duration::forever());
  it.quotas.hold(f1, kFifth, at_ms(0));
  EXPECT_EQ(it.left(at_ms(0)), Duration::millis(20));
  it.quotas.release(f1);
  EXPECT_EQ(it.quotas.size(), 1U);
  it.quotas.release(f1);  // nobody's
  EXPECT_EQ(it.quotas.size(), 1U);
}

TEST(Quotas, ThoseThatOweNothingAreFew) {
  Shares it;
  it.charge(Duration::seconds(100), at_ms(0));
  for (uint64_t i = 0; i < Quotas::kMost + 100; ++i) {
    it.quotas.set(FunctionId{100 + i}, kFifth, at_ms(1));
    it.quotas.charge(d1, FunctionId{100 + i}, 1, Duration::millis(1), at_ms(1));
  }
  EXPECT_GT(it.quotas.size(), Quotas::kMost + 100);  // all of them may still owe something
  it.quotas.hold(f2, kFifth, at_ms(500));
  EXPECT_EQ(it.quotas.size(), 2U);  // who holds, and who owes
}

// Who uses what is left and a little more each time has its limit over many windows, and never more than that little.
TEST(Quotas, OverManyWindowsItIsTheLimit) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Prng prng(seed);
    Shares it;
    Duration used{0};
    const Duration most = Duration::millis(15);
    for (int64_t window = 0; window < 1000; ++window) {
      const Duration left = it.left(at_ms(window * 100));
      EXPECT_LE(left, Duration::millis(20));
      if (left.ns <= 0) continue;
      const Duration more = left + Duration{static_cast<int64_t>(prng.below(static_cast<uint64_t>(most.ns)))};
      it.charge(more, at_ms(window * 100 + 50));
      used = used + more;
      const Duration allowed = Duration::millis(20 * (window + 1)) + most;
      ASSERT_LE(used, allowed) << "window " << window << ", seed " << seed;
    }
    EXPECT_GE(used, Duration::millis(20 * 1000 - 20));
  }
}

}  // namespace
}  // namespace quern::sched
