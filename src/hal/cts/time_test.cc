// SPDX-License-Identifier: Apache-2.0
#include "hal/cts/suite.h"
#include "os/clock.h"

namespace quern::hal::cts {
namespace {

class Timing : public Suite {
 protected:
  static constexpr uint32_t kSome = 3'000'000;  // some 5 ms
};

TEST_F(Timing, LiesWithinWhatTheHostSaw) {
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  for (int i = 0; i < 5; ++i) {
    const Time before = os::now();
    auto point = spin(*lane, *slow, *out, kSome);
    finish(*lane, point);
    const Time after = os::now();
    const auto interval = lane->timing(*point);
    ASSERT_TRUE(interval);
    // The clocks of host and device are related to within some microseconds.
    EXPECT_GE(interval->start_ns, before.ns - 20'000);
    EXPECT_LE(interval->end_ns, after.ns + 20'000);
    EXPECT_GT(interval->end_ns, interval->start_ns);
  }
  EXPECT_EQ(lane->corrected_timings(), 0u) << "the device's clock was not related to ours";
}

TEST_F(Timing, OfOneQueueDoesNotOverlap) {
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  for (int i = 0; i < 20; ++i) QUERN_ASSERT_OK(spin(*lane, *slow, *out, kSome / 50));
  QUERN_ASSERT_OK(lane->timeline().wait(20, Duration::forever()));
  int64_t last = 0;
  for (uint64_t i = 1; i <= 20; ++i) {
    const auto interval = lane->timing(i);
    ASSERT_TRUE(interval);
    EXPECT_LE(last, interval->start_ns);
    EXPECT_LT(interval->start_ns, interval->end_ns);
    last = interval->end_ns;
  }
}

TEST_F(Timing, IsOfLaunchesThatWereReached) {
  auto lane = queue();
  auto buffer = allocate(64);
  const std::vector<uint8_t> values(64);
  finish(*lane, lane->write(*buffer, 0, bytes_of(values)));
  EXPECT_FALSE(lane->timing(0));
  EXPECT_FALSE(lane->timing(1));
  EXPECT_FALSE(lane->timing(2));
}

TEST_F(Timing, IsKeptForTheLastSubmissions) {
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  uint64_t last = 0;
  for (uint64_t i = 0; i < Queue::kTimingsKept + 100; ++i) {
    auto point = spin(*lane, *slow, *out, 1);
    QUERN_ASSERT_OK(point);
    last = *point;
    if (i % 64 == 0) QUERN_ASSERT_OK(lane->timeline().wait(last, Duration::forever()));
  }
  QUERN_ASSERT_OK(lane->timeline().wait(last, Duration::forever()));
  EXPECT_FALSE(lane->timing(last - Queue::kTimingsKept));
  EXPECT_TRUE(lane->timing(last - Queue::kTimingsKept + 1));
  EXPECT_TRUE(lane->timing(last));
}

TEST_F(Timing, DeviceTimeGrowsWithTheWork) {
  auto lane = queue(), other = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  EXPECT_EQ(lane->device_time_ns(), 0u);
  auto point = spin(*lane, *slow, *out, 4 * kSome);
  finish(*lane, point);
  const uint64_t once = lane->device_time_ns();
  const auto interval = lane->timing(*point);
  ASSERT_TRUE(interval);
  const auto wall = static_cast<uint64_t>(interval->end_ns - interval->start_ns);
  // One work-item runs on one unit; others of the machine may take the core away, which is not device time.
  EXPECT_LE(once, wall + wall / 4);
  EXPECT_GT(once, wall / 50);
  finish(*lane, spin(*lane, *slow, *out, 4 * kSome));
  EXPECT_GT(lane->device_time_ns(), once + once / 4);
  EXPECT_EQ(other->device_time_ns(), 0u);
}

TEST_F(Timing, DeviceTimeIsChargedToWhoUsedIt) {
  auto heavy = queue(), light = queue();
  auto slow = kernel("suite_spin"), quick = kernel("suite_spin");
  auto a = allocate(4), b = allocate(4);
  for (int i = 0; i < 4; ++i) {
    auto long_point = spin(*heavy, *slow, *a, 4 * kSome);
    QUERN_ASSERT_OK(long_point);
    auto short_point = spin(*light, *quick, *b, kSome / 4);
    QUERN_ASSERT_OK(short_point);
    finish(*heavy, long_point);
    finish(*light, short_point);
  }
  EXPECT_GT(light->device_time_ns(), 0u);
  EXPECT_GT(heavy->device_time_ns(), 2 * light->device_time_ns());
}

}  // namespace
}  // namespace quern::hal::cts
