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

constexpr int64_t kMicrosecond = 1000;

Ask small_kernel() {
  return {.parts = 1, .part_ns = 5 * kMicrosecond, .sliceable = false, .in_flight = 0, .in_flight_ns = 0};
}

/// A program, with the daemon's half in the test's hands. Nobody signals: what does not return by itself hangs.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    pages_ = std::move(*ipc::create_shared_pages());
    const auto copy = [](int fd) { return os::Fd(dup(fd)); };
    program_ = std::move(*Program::open({.daemon_page = copy(pages_.daemon_fd.get()),
                                         .own_page = copy(pages_.executor_fd.get()),
                                         .wake = copy(wake_.fd()),
                                         .daemon_wake = copy(daemon_wake_.fd()),
                                         .life = {}}));
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
  static ipc::Grant open_grant() { return {.open = true, .depth_ns = 400 * kMicrosecond, .depth = 256}; }

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
  program_->work_ready({.kernels = {{}}});
  program_->ask(small_kernel());
  for (const auto& event : told()) ASSERT_TRUE(std::holds_alternative<ipc::GapBegun>(event));
  program_->ask(small_kernel());
  const auto events = told();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<ipc::WorkReady>(events[0]));
  program_->ask(small_kernel());
  EXPECT_TRUE(told().empty()) << "it is known";
}

// To tell takes longer than to launch: the device need not wait for it.
TEST_F(ProgramTest, WhoIsLetThroughTellsOfItsWorkOnceThatIsLaunched) {
  ipc::Grant grant = open_grant();
  grant.tells = true;
  set_gate(grant);
  const auto is_told = [&](int64_t at_ns) {
    const auto events = told();
    return events.size() == 1 && std::get<ipc::WorkReady>(events[0]).at_ns == at_ns;
  };
  program_->work_ready({.at_ns = 1, .kernels = {}});
  EXPECT_EQ(program_->ask(small_kernel()).parts, 1u);
  EXPECT_TRUE(told().empty());
  program_->launched();
  EXPECT_TRUE(is_told(1));
  program_->launched();
  EXPECT_TRUE(told().empty()) << "once";

  program_->work_ready({.at_ns = 2, .kernels = {}});
  grant.from_ns = (os::now() + Duration::seconds(60)).ns;
  set_gate(grant);
  EXPECT_EQ(program_->ask(small_kernel()).parts, 0u);
  EXPECT_TRUE(is_told(2)) << "it has to wait after all";

  set_gate(ipc::Grant{.tells = true});
  program_->work_ready({.at_ns = 3, .kernels = {}});
  EXPECT_TRUE(is_told(3)) << "whoever is closed is opened sooner for it";

  set_gate(ipc::Grant{.open = true});
  program_->work_ready({.at_ns = 4, .kernels = {}});
  program_->launched();
  EXPECT_TRUE(told().empty()) << "nobody listens";
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

// Of what is told, the spans; `moment` is when.
TEST_F(ProgramTest, TellsFromWhenToWhenItsLaunchesWereThereWhereItIsTraced) {
  const auto spans = [&] {
    std::vector<ipc::Traced::Span> all;
    for (const auto& event : told())
      if (const auto* traced = std::get_if<ipc::Traced>(&event))
        all.insert(all.end(), traced->spans.begin(), traced->spans.end());
    return all;
  };
  const auto launch = [&](int64_t start_ns) {
    ASSERT_EQ(program_->ask(small_kernel()).parts, 1u);
    program_->traced({.launch = 1, .first = 0, .parts = 1, .of = 1, .start_ns = start_ns, .end_ns = start_ns + 5});
  };
  set_gate(open_grant());
  launch(10);
  set_gate({});
  program_->ask(small_kernel());
  EXPECT_TRUE(spans().empty()) << "nobody draws";
  ipc::Grant grant = open_grant();
  grant.traces = true;
  set_gate(grant);
  launch(20);
  launch(30);
  EXPECT_TRUE(spans().empty()) << "many at a time";
  set_gate(ipc::Grant{.traces = true});
  ASSERT_EQ(program_->ask(small_kernel()).parts, 0u);
  const auto told_before_it_waits = spans();
  ASSERT_EQ(told_before_it_waits.size(), 2u);
  EXPECT_EQ(told_before_it_waits[0].start_ns, 20);
  EXPECT_EQ(told_before_it_waits[1].end_ns, 35);
  // What is in flight when the drawing ends belongs to it, and nothing after that.
  set_gate(grant);
  ASSERT_EQ(program_->ask(small_kernel()).parts, 1u);
  set_gate(open_grant());
  program_->traced({.start_ns = 40, .end_ns = 45});
  ASSERT_EQ(spans().size(), 1u);
  launch(50);
  set_gate({});
  program_->ask(small_kernel());
  EXPECT_TRUE(spans().empty());
}

TEST_F(ProgramTest, SpansNeverTakeTheRoomOfWhatMustBeTold) {
  ipc::Grant grant = open_grant();
  grant.traces = grant.tells = true;
  set_gate(grant);
  ASSERT_EQ(program_->ask(small_kernel()).parts, 1u);
  for (int i = 0; i < 100'000; ++i) program_->traced({.start_ns = i + 1, .end_ns = i + 2});
  program_->gap_begun({.at_ns = 1, .after = 7});
  const auto events = told();
  ASSERT_FALSE(events.empty());
  ASSERT_TRUE(std::holds_alternative<ipc::GapBegun>(events.back()));
  EXPECT_EQ(std::get<ipc::GapBegun>(events.back()).after, 7u);
}

}  // namespace
}  // namespace quern::launcher
