// SPDX-License-Identifier: Apache-2.0
#include "sched/arrivals.h"

#include <gtest/gtest.h>

#include "sched/ids_test.h"

namespace quern::sched {
namespace {

constexpr int64_t kSecond = Duration::seconds(1).ns;
constexpr double kRent = 0.01;  // a price of 1 s is paid in 100 s

Arrivals with_gaps(std::initializer_list<int64_t> seconds) {
  Arrivals arrivals;
  Time now{0};
  arrivals.arrived(f1, now);
  for (const int64_t gap : seconds) arrivals.arrived(f1, now = now + Duration::seconds(gap));
  return arrivals;
}

TEST(Arrivals, OfWhichNothingIsKnownAreWaitedForUntilRentReachesThePrice) {
  EXPECT_EQ(Arrivals().stay(f1, kSecond, kRent), Duration::seconds(100));
  EXPECT_EQ(with_gaps({1, 1}).stay(f1, kSecond, kRent), Duration::seconds(100));
}

TEST(Arrivals, ThatCostNothingToWaitForAreWaitedForForEver) {
  EXPECT_EQ(with_gaps({1, 1, 1, 1, 1}).stay(f1, kSecond, 0), Duration::forever());
}

TEST(Arrivals, ThatAllCameSoonSayNothingOfLaterOnes) {
  EXPECT_EQ(with_gaps({1, 1, 1, 1, 1, 1}).stay(f1, kSecond, kRent), Duration::seconds(100));
}

TEST(Arrivals, ThatComeJustAfterTheWorstCaseAreWaitedFor) {
  const Duration stay = with_gaps({10, 90, 90, 90, 10, 90}).stay(f1, kSecond, kRent);
  EXPECT_GE(stay, Duration::seconds(90));
  EXPECT_LE(stay, Duration::seconds(200));
}

TEST(Arrivals, ThatAreMostlyLateAreNotWaitedForLongerThanForTheEarlyOnes) {
  const Duration stay = with_gaps({1, 1, 100'000, 1, 100'000, 100'000, 100'000, 1}).stay(f1, kSecond, kRent);
  EXPECT_GE(stay, Duration::seconds(1));
  EXPECT_LE(stay, Duration::seconds(3));
  EXPECT_EQ(with_gaps({90'000, 100'000, 100'000, 100'000, 95'000}).stay(f1, kSecond, kRent), Duration{0});
}

TEST(Arrivals, OfLongAgoCountLessAndLess) {
  Arrivals arrivals = with_gaps({90'000, 100'000, 100'000, 100'000, 95'000});
  Time now = Time{0} + Duration::seconds(1'000'000);
  for (int i = 0; i < 300; ++i) arrivals.arrived(f1, now = now + Duration::seconds(1));
  EXPECT_GE(arrivals.stay(f1, kSecond, kRent), Duration::seconds(1));
  arrivals.forget(f1);
  EXPECT_EQ(arrivals.stay(f1, kSecond, kRent), Duration::seconds(100));
}

}  // namespace
}  // namespace quern::sched
