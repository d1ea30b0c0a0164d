// SPDX-License-Identifier: Apache-2.0
#include "launcher/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <variant>
#include <vector>

#include "os/clock.h"

namespace quern::launcher {
namespace {

constexpr int64_t kMicro = 1000;

Ask small_kernel() {
  return {.parts = 1, .part_ns = 5 * kMicro, .sliceable = false, .in_flight = 0, .in_flight_ns = 0};
}

/// A program, with the daemon's half in the test's hands. Nobody signals: what does not return by itself hangs.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    pages_ = std::move(*ipc::create_shared_pages());
    const auto copy = [](int fd) { return os::Fd(dup(fd)); };
    program_ = std::move(*Program::open(copy(pages_.daemon_fd.get()), copy(pages_.executor_fd.get()), copy(wake_.fd()),
                                        copy(daemon_wake_.fd())));
    auto& ours = pages_.daemon().lanes[0];
    auto& theirs = pages_.executor().lanes[0];
    events_ = std::make_unique<ipc::RingConsumer>(theirs.event_head, ours.event_tail, theirs.events);
  }
  void set_gate(const ipc::Grant& grant) { ipc::write_grant(pages_.daemon().lanes[0].gate, epoch_, grant); }
  /// What it told, since it was asked last.
  std::vector<ipc::LaneEvent> told() {
    std::vector<ipc::LaneEvent> events;
    Bytes record;
    while (*events_->pop(record)) events.push_back(*ipc::decode_lane_event(record));
    return events;
  }
  static ipc::Grant open_grant() { return {.open = true, .depth_ns = 400 * kMicro, .depth = 256}; }

  ipc::SharedPages pages_;
  os::Event wake_ = *os::Event::create(), daemon_wake_ = *os::Event::create();
  std::unique_ptr<Program> program_;
  std::unique_ptr<ipc::RingConsumer> events_;
  uint64_t epoch_ = 0;
};

TEST_F(ProgramTest, DoesNotSleepThroughAGrantThatCameAfterItAsked) {
  set_gate({});
  ASSERT_EQ(program_->ask(small_kernel()).why, Permit::Why::kClosed);
  set_gate(open_grant());
  program_->wait();
  EXPECT_EQ(program_->ask(small_kernel()).parts, 1u);
}

TEST_F(ProgramTest, DoesNotSleepThroughATimeThatCameAfterItAsked) {
  ipc::Grant grant = open_grant();
  Permit answer;
  // On a machine that stands still the time has come before it asks.
  while (answer.why != Permit::Why::kEarly) {
    grant.from_ns = (os::now() + Duration::micros(100)).ns;
    set_gate(grant);
    answer = program_->ask(small_kernel());
  }
  while (os::now().ns < grant.from_ns) continue;
  program_->wait();
  EXPECT_EQ(program_->ask(small_kernel()).parts, 1u);
}

TEST_F(ProgramTest, SleepsUntilItsTimeComes) {
  ipc::Grant grant = open_grant();
  grant.from_ns = (os::now() + Duration::millis(5)).ns;
  set_gate(grant);
  while (program_->ask(small_kernel()).parts == 0) program_->wait();
  EXPECT_GE(os::now().ns, grant.from_ns);
}

// Else it would be taken for one that pauses, and never be open in a gap again.
TEST_F(ProgramTest, TellsThatItHasWorkOnceThereIsRoomForIt) {
  ipc::Grant grant;
  grant.tells = true;
  set_gate(grant);
  for (int i = 0; i < 100'000; ++i) program_->gap_begun({});  // more than there is room for
  program_->work_ready({});
  program_->ask(small_kernel());
  for (const auto& event : told()) ASSERT_TRUE(std::holds_alternative<ipc::GapBegun>(event));
  program_->ask(small_kernel());
  const auto events = told();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<ipc::WorkReady>(events[0]));
  program_->ask(small_kernel());
  EXPECT_TRUE(told().empty()) << "it is known";
}

// One that does not ask, or launches though it is closed, says so itself: nobody else could.
TEST_F(ProgramTest, CountsWhatNoGrantLetThrough) {
  const auto past_gate = [&] {
    program_->used({});
    set_gate(ipc::Grant{.meters = true});
    program_->ask(small_kernel());  // who has to wait tells what it used
    uint64_t sum = 0;
    for (const auto& event : told()) sum += std::get<ipc::DeviceUsed>(event).past_gate;
    return sum;
  };
  set_gate(open_grant());
  ASSERT_EQ(program_->ask(small_kernel()).parts, 1u);
  EXPECT_EQ(past_gate(), 0u);
  EXPECT_EQ(past_gate(), 1u);
}

}  // namespace
}  // namespace quern::launcher
