// SPDX-License-Identifier: Apache-2.0
#include "hal/cts/suite.h"
#include "os/clock.h"
#include "os/thread.h"

namespace quern::hal::cts {
namespace {

class Timelines : public Suite {
 protected:
  // Some 50 ms on any machine we know; long enough to be caught under way.
  static constexpr uint32_t kLong = 30'000'000;
};

TEST_F(Timelines, CountSubmissions) {
  auto lane = queue();
  EXPECT_EQ(*lane->timeline().reached(), 0u);
  auto buffer = allocate(64);
  const std::vector<uint8_t> values(64, 3);
  for (uint64_t i = 1; i <= 10; ++i) {
    auto point = lane->write(*buffer, 0, bytes_of(values));
    QUERN_ASSERT_OK(point);
    EXPECT_EQ(*point, i);
  }
  QUERN_ASSERT_OK(lane->timeline().wait(4, Duration::forever()));
  EXPECT_GE(*lane->timeline().reached(), 4u);
  QUERN_ASSERT_OK(lane->timeline().wait(10, Duration::seconds(60)));
  EXPECT_EQ(*lane->timeline().reached(), 10u);
  QUERN_ASSERT_OK(lane->timeline().wait(1, Duration{0}));
  QUERN_ASSERT_OK(lane->timeline().wait(0, Duration{0}));
}

TEST_F(Timelines, DoNotWaitForWhatWasNeverSubmitted) {
  auto lane = queue();
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->timeline().wait(1, Duration::forever()));
}

TEST_F(Timelines, KeepOrder) {
  auto lane = queue();
  auto add = kernel("suite_add");
  auto a = filled(*lane, std::vector<int32_t>(64, 0)), b = allocate(256);
  for (int i = 0; i < 100; ++i) {
    const Argument there[] = {a.get(), b.get(), *scalar_of(Dtype::kInt32, int64_t{1})};
    QUERN_ASSERT_OK(lane->launch({.kernel = add.get(), .arguments = there, .global = {64, 1, 1}}));
    QUERN_ASSERT_OK(lane->copy(*b, 0, *a, 0, 256));
  }
  EXPECT_EQ(contents<int32_t>(*lane, *a), std::vector<int32_t>(64, 100));
}

TEST_F(Timelines, WaitNoLongerThanTheLimit) {
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  auto point = spin(*lane, *slow, *out, kLong);
  QUERN_ASSERT_OK(point);
  const Time before = os::now();
  QUERN_EXPECT_CODE(ErrorCode::kDeadline, lane->timeline().wait(*point, Duration::millis(2)));
  QUERN_EXPECT_CODE(ErrorCode::kDeadline, lane->timeline().wait(*point, Duration{0}));
  EXPECT_GE((os::now() - before).ns, Duration::millis(2).ns);
  EXPECT_EQ(*lane->timeline().reached(), 0u);
  // The work goes on, and both kinds of waiting see its end.
  QUERN_ASSERT_OK(lane->timeline().wait(*point, Duration::seconds(60)));
  finish(*lane, spin(*lane, *slow, *out, kLong));
}

TEST_F(Timelines, WaitForAnEarlierPointWhileLaterOnesRun) {
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  auto first = spin(*lane, *slow, *out, 1000);
  QUERN_ASSERT_OK(first);
  auto second = spin(*lane, *slow, *out, kLong);
  QUERN_ASSERT_OK(second);
  QUERN_ASSERT_OK(lane->timeline().wait(*first, Duration::forever()));
  EXPECT_EQ(*lane->timeline().reached(), 1u);
  QUERN_ASSERT_OK(lane->timeline().wait(*second, Duration::forever()));
}

TEST_F(Timelines, CanBeWaitedForByAnotherThread) {
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  auto point = spin(*lane, *slow, *out, kLong / 10);
  QUERN_ASSERT_OK(point);
  QUERN_ASSERT_OK(lane->flush());
  bool is_over = false;
  os::Thread waiter("waiter", [&] { is_over = lane->timeline().wait(*point, Duration::forever()).ok(); });
  waiter.join();
  EXPECT_TRUE(is_over);
}

TEST_F(Timelines, WaitForOtherQueues) {
  auto first = queue(), second = queue();
  auto slow = kernel("suite_spin"), add = kernel("suite_add");
  auto out = filled(*first, std::vector<int32_t>(1, 0)), sum = allocate(4);
  auto point = spin(*first, *slow, *out, kLong);
  QUERN_ASSERT_OK(point);
  QUERN_ASSERT_OK(second->wait_for(*first, *point));
  const Argument arguments[] = {out.get(), sum.get(), *scalar_of(Dtype::kInt32, int64_t{1})};
  finish(*second, second->launch({.kernel = add.get(), .arguments = arguments}));
  EXPECT_EQ(*first->timeline().reached(), *point);
  EXPECT_EQ(contents<int32_t>(*second, *sum)[0], contents<int32_t>(*first, *out)[0] + 1);
  // Of what is over, and of what never was.
  QUERN_ASSERT_OK(second->wait_for(*first, *point));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, second->wait_for(*first, 1000));
  finish(*second, second->launch({.kernel = add.get(), .arguments = arguments}));
}

TEST_F(Timelines, StayFailed) {
  auto lane = queue();
  auto buffer = filled(*lane, std::vector<uint8_t>(64, 1));
  lane->timeline().fail({ErrorCode::kFaulted, "the first reason"});
  lane->timeline().fail({ErrorCode::kUnavailable, "another reason"});
  const std::vector<uint8_t> values(64);
  for (const auto& error :
       {lane->timeline().reached().error(), lane->timeline().wait(1, Duration::forever()).error(),
        lane->timeline().wait(1, Duration{0}).error(), lane->write(*buffer, 0, bytes_of(values)).error()}) {
    EXPECT_EQ(name_of(error.code), name_of(ErrorCode::kFaulted));
    EXPECT_EQ(error.text, "the first reason");
  }
  // And nobody else is.
  auto other = queue();
  EXPECT_EQ(contents<uint8_t>(*other, *buffer), std::vector<uint8_t>(64, 1));
}

// What a lane does whose queue fails in the midst of its launches, and what the executor after it does.
TEST_F(Timelines, TellHowFarTheyCameBeforeTheyFailed) {
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  for (int round = 0; round < 3; ++round) {
    auto lane = queue(), gate = queue();
    auto held = spin(*gate, *slow, *out, kLong);
    const auto first = spin(*lane, *slow, *out, 10);
    finish(*lane, first);
    EXPECT_EQ(lane->timeline().last_reached(), *first);
    QUERN_ASSERT_OK(lane->wait_for(*gate, *held));
    std::vector<uint64_t> points;
    for (int i = 0; i < 4; ++i) points.push_back(*spin(*lane, *slow, *out, 10));
    lane->timeline().fail({ErrorCode::kFaulted, "lost"});
    EXPECT_EQ(lane->timeline().last_reached(), *first);
    for (const uint64_t point : points)
      QUERN_EXPECT_CODE(ErrorCode::kFaulted, lane->timeline().wait(point, Duration::forever()));
    EXPECT_EQ(lane->timeline().last_reached(), *first) << "those behind the failure do not count";
    finish(*gate, held);
    auto next = queue();
    finish(*next, spin(*next, *slow, *out, 10));
    EXPECT_EQ(contents<uint32_t>(*next, *out).size(), 1u);
  }
  // What was in flight cannot be recalled.
  static std::shared_ptr<Buffer> kept;
  kept = out;
}

TEST_F(Timelines, FailWithWhatTheyWaitFor) {
  auto first = queue(), second = queue(), third = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4), other = allocate(4);
  auto point = spin(*first, *slow, *out, kLong);
  QUERN_ASSERT_OK(point);
  QUERN_ASSERT_OK(second->wait_for(*first, *point));
  auto later = spin(*second, *slow, *other, 10);
  QUERN_ASSERT_OK(later);
  first->timeline().fail({ErrorCode::kFaulted, "lost"});
  const auto status = second->timeline().wait(*later, Duration::seconds(60));
  QUERN_EXPECT_CODE(ErrorCode::kFaulted, status);
  QUERN_EXPECT_CODE(ErrorCode::kFaulted, third->wait_for(*first, *point));
  QUERN_EXPECT_CODE(ErrorCode::kFaulted, third->timeline().reached());
  // The work itself cannot be recalled: its buffers live as long as the process.
  static std::vector<std::shared_ptr<Buffer>> kept;
  kept = {out, other};
}

TEST_F(Timelines, BoundWhatIsUnderWay) {
  auto gate = queue(), lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4), buffer = allocate(64);
  auto held = spin(*gate, *slow, *out, 4 * kLong);
  QUERN_ASSERT_OK(held);
  QUERN_ASSERT_OK(lane->wait_for(*gate, *held));
  const std::vector<uint8_t> values(64, 3);
  for (uint64_t i = 0; i < Queue::kTimingsKept; ++i) QUERN_ASSERT_OK(lane->write(*buffer, 0, bytes_of(values)));
  QUERN_EXPECT_CODE(ErrorCode::kExhausted, lane->write(*buffer, 0, bytes_of(values)));
  QUERN_ASSERT_OK(lane->timeline().wait(Queue::kTimingsKept, Duration::forever()));
  finish(*lane, lane->write(*buffer, 0, bytes_of(values)));
}

}  // namespace
}  // namespace quern::hal::cts
