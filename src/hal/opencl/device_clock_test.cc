// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/device_clock.h"

#include <gtest/gtest.h>

namespace quern::hal::opencl {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(DeviceClock, ABracketRelatesTheClocks) {
  DeviceClock clock;
  EXPECT_FALSE(clock.is_known());
  clock.saw({1000}, 500'000, {3000});
  const auto interval = clock.place({0, 500'100, 500'300}, {1000}, {1 * kMs});
  EXPECT_EQ(interval.start_ns, 2100);
  EXPECT_EQ(interval.end_ns, 2300);
  EXPECT_EQ(clock.corrected(), 0u);
}

TEST(DeviceClock, ANarrowerBracketIsTakenAtOnceAndAWiderOneNever) {
  DeviceClock clock;
  clock.saw({0}, 0, {10'000});
  clock.saw({20'000}, 20'000, {20'002});
  EXPECT_EQ(clock.place({0, 30'000, 30'001}, {0}, {1 * kMs}).start_ns, 30'001);
  clock.saw({40'000}, 0, {1'040'000});
  EXPECT_EQ(clock.place({0, 40'000, 40'001}, {0}, {2 * kMs}).start_ns, 40'001);
  EXPECT_FALSE(clock.is_stale({5 * kMs}));
  EXPECT_TRUE(clock.is_stale({11 * kMs}));
}

TEST(DeviceClock, QueuedOfACommandCountsOnlyIfItFits) {
  DeviceClock clock;
  clock.saw_command({1000}, {1200}, {9000}, {77'000, 77'500, 78'000});
  EXPECT_EQ(clock.place({0, 77'000, 77'001}, {0}, {1 * kMs}).start_ns, 1100);
  DeviceClock intel;  // QUEUED of a marker is 0 there
  intel.saw_command({1000}, {1200}, {9000}, {0, 78'000, 78'000});
  EXPECT_EQ(intel.place({0, 78'000, 78'001}, {0}, {1 * kMs}).start_ns, 5000);
}

TEST(DeviceClock, ALongCommandWithoutQueuedRelatesTheClocksAsWellAsAShortOne) {
  DeviceClock clock;
  const Stamps stamps{0, 500 * kMs, 600 * kMs};
  clock.saw_command({10 * kMs}, {11 * kMs}, {112 * kMs}, stamps);
  const auto interval = clock.place(stamps, {10 * kMs}, {112 * kMs});
  EXPECT_EQ(interval.start_ns, 11 * kMs);
  EXPECT_EQ(interval.end_ns, 111 * kMs);
  EXPECT_EQ(clock.corrected(), 0u);
  // Stamps that are further apart than what was seen say something of the end alone.
  DeviceClock odd;
  odd.saw_command({0}, {0}, {1 * kMs}, {0, 100 * kMs, 600 * kMs});
  EXPECT_EQ(odd.place({0, 600 * kMs, 600 * kMs}, {0}, {2 * kMs}).end_ns, 1 * kMs);
}

TEST(DeviceClock, AnIntervalOutsideOfWhatWasSeenIsMovedAndCounted) {
  DeviceClock clock;
  clock.set({0}, {0});
  const auto late = clock.place({0, 90 * kMs, 91 * kMs}, {10 * kMs}, {20 * kMs});
  EXPECT_EQ(late.start_ns, 19 * kMs);
  EXPECT_EQ(late.end_ns, 20 * kMs);
  EXPECT_EQ(clock.corrected(), 1u);
  EXPECT_TRUE(clock.is_stale({20 * kMs})) << "a wrong offset is measured again";
  clock.set({0}, {20 * kMs});
  const auto early = clock.place({0, 1 * kMs, 2 * kMs}, {30 * kMs}, {40 * kMs});
  EXPECT_EQ(early.start_ns, 30 * kMs);
  EXPECT_EQ(early.end_ns, 31 * kMs);
  EXPECT_EQ(clock.corrected(), 2u);
}

TEST(DeviceClock, AnIntervalThatIsTooLongIsCut) {
  DeviceClock clock;
  clock.set({0}, {0});
  const auto interval = clock.place({0, 0, 500 * kMs}, {10 * kMs}, {20 * kMs});
  EXPECT_EQ(interval.start_ns, 10 * kMs);
  EXPECT_EQ(interval.end_ns, 20 * kMs);
  const auto backwards = clock.place({0, 35 * kMs, 34 * kMs}, {30 * kMs}, {40 * kMs});
  EXPECT_EQ(backwards.start_ns, 35 * kMs);
  EXPECT_EQ(backwards.end_ns, 35 * kMs);
  EXPECT_EQ(clock.corrected(), 2u);
}

TEST(DeviceClock, LaunchesOfOneQueueNeverOverlap) {
  DeviceClock clock;
  clock.set({0}, {0});
  EXPECT_EQ(clock.place({0, 1000, 5000}, {0}, {9000}).end_ns, 5000);
  clock.set({-10}, {0});  // as it may be read a moment later
  EXPECT_EQ(clock.place({0, 5000, 6000}, {0}, {9000}).start_ns, 5000);
  EXPECT_EQ(clock.corrected(), 0u) << "within what can be known";
}

}  // namespace
}  // namespace quern::hal::opencl
