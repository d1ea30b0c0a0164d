// SPDX-License-Identifier: Apache-2.0
#include "executor/lane_test.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>

#include "os/clock.h"
#include "os/thread.h"

namespace quern::executor {
namespace {

class LaneRuns : public LaneTest {
 protected:
  // `copies` launches of copy, each from the input to the output.
  void prepare_copies(size_t copies, const std::string& entry = "copy") {
    auto plan = this->plan();
    for (size_t i = 0; i < copies; ++i) add_copy(plan, 0, 1);
    if (entry != "copy")
      for (auto& launch : plan.launches) {
        launch.entry = entry;
        launch.arguments.erase(launch.arguments.begin());
        launch.arguments.pop_back();
      }
    prepare(kPlan, plan);
  }
  // Launches that may all be in flight: slices of a kernel whose time is known.
  ipc::PlanFrame plan_of_slices(int count) const {
    auto plan = this->plan();
    for (int i = 0; i < count; ++i) {
      add_copy(plan, 0, 1);
      plan.launches.back().group_ps = 1'000'000;
      plan.launches.back().sliceable = true;
      plan.launches.back().global = {32, 1, 1};
    }
    return plan;
  }
  // A run whose first launch is on the device, which stands still, while the lane is before the second.
  void stop_behind_a_launch(const ipc::Grant& grant) {
    set_gate(grant);
    faults_->is_stopped = true;
    push(run_command());
    until([&] { return faults_->launches.load() == 1; });
  }
  static bool is_asleep(const std::string& thread) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name, status;
      std::getline(std::ifstream(task.path() / "comm"), name);
      std::getline(std::ifstream(task.path() / "stat"), status);
      if (name == thread) return status.find(") S ") != std::string::npos;
    }
    return false;
  }
  // The device goes on. The lane may sleep at its gate by then, and looks at what ended only when it is woken.
  ipc::LaneEvent let_it_tell() {
    release_device();
    until([&] {
      wake_.signal();
      return !events_->empty();
    });
    return wait_event();
  }
};

TEST_F(LaneRuns, RunsAGraphFromArenaToArena) {
  prepare_copies(3);
  std::memset(input_.bytes().data(), 42, kBytes);
  start();
  push(run_command());
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.ok) << ended.text;
  EXPECT_EQ(ended.run, kRun);
  EXPECT_EQ(std::memcmp(input_.bytes().data(), output_.bytes().data(), kBytes), 0);
  EXPECT_LE(ended.taken_ns, ended.started_ns);
  EXPECT_LE(ended.started_ns, ended.ended_ns);
}

TEST_F(LaneRuns, CopiesWhereTheDeviceHasMemoryOfItsOwn) {
  open(false);
  prepare_copies(1);
  std::memset(input_.bytes().data(), 17, kBytes);
  start();
  push(run_command());
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.ok) << ended.text;
  EXPECT_EQ(std::memcmp(input_.bytes().data(), output_.bytes().data(), kBytes), 0);
}

TEST_F(LaneRuns, AGateClosedInTheMiddleOfAGraphStopsItThereUntilItOpens) {
  prepare_copies(5);
  faults_->is_stopped = true;  // the first launch stays in flight, and depth 1 keeps the lane before the second
  start();
  push(run_command());
  until([&] { return published().running_run.load() == kRun; });
  set_gate(false);
  release_device();
  until([&] { return published().waits_at_gate.load() == 1; });
  EXPECT_TRUE(events_->empty());
  EXPECT_LT(published().running_launch.load(), 4U) << "it went on past a closed gate";
  set_gate(true);
  wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
}

TEST_F(LaneRuns, AStopAtAClosedGateEndsTheRun) {
  prepare_copies(3);
  set_gate(false);
  start();
  push(run_command());
  until([&] { return published().waits_at_gate.load() == 1; });
  push(ipc::StopCommand{kRun + 1});  // for another run: of no effect
  push(ipc::StopCommand{kRun});
  const auto ended = wait_ended();
  EXPECT_FALSE(ended.ok);
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.code, ErrorCode::kCancelled);
  set_gate(true);
  push(run_command());
  EXPECT_TRUE(wait_ended().ok) << "the lane serves on";
}

TEST_F(LaneRuns, TellsHowLongKernelsTook) {
  prepare_copies(3);
  start();
  push(run_command());
  ASSERT_TRUE(wait_ended().ok);
  ASSERT_EQ(used_.size(), 1U);
  EXPECT_EQ(used_[0].launches, 3U);
  EXPECT_FALSE(used_[0].samples.empty());
  for (const auto& sample : used_[0].samples) EXPECT_EQ(sample.groups, 1U);
  EXPECT_TRUE(traced_.empty());
}

TEST_F(LaneRuns, TellsHowManyTimesOfItsLaunchesCouldNotBeTrue) {
  auto plan = this->plan();
  for (int i = 0; i < 3; ++i) add_copy(plan, 0, 1);
  plan.launches[0].entry = plan.launches[2].entry = "misdated";
  prepare(kPlan, plan);
  start();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(run_command()).corrected_timings, 2u) << "of one run";
}

TEST_F(LaneRuns, TellsWhatItUsedBeforeItWaitsWhereItIsMetered) {
  prepare_copies(2);
  start();
  stop_behind_a_launch(ipc::Grant{.open = true, .meters = true, .depth_ns = 2'000'000, .depth = 1});
  set_gate(ipc::Grant{.meters = true});
  EXPECT_TRUE(std::holds_alternative<ipc::DeviceUsed>(let_it_tell()));
  set_gate(ipc::Grant{.open = true, .meters = true, .depth_ns = 2'000'000, .depth = 1});
  wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
  EXPECT_FALSE(used_.empty()) << "and what it used after that";
}

TEST_F(LaneRuns, TellsOfAllLaunchesAlsoWhereTheDaemonFellBehind) {
  prepare_copies(1);
  set_gate(ipc::Grant{.open = true, .meters = true, .depth_ns = 2'000'000, .depth = 2});
  start();
  auto& ours = pages_.daemon().lanes[0];
  uint64_t runs = 0;
  const auto run_unheard = [&] {
    push(run_command());
    ++runs;
    until([&] { return published().command_tail.read.load() == ours.command_head.written.load(); });
  };
  while (published().event_head.written.load() <= ipc::kRingBytes / 2) run_unheard();
  for (int i = 0; i < 8; ++i) run_unheard();
  for (uint64_t i = 0; i < runs; ++i) ASSERT_TRUE(wait_ended().ok);
  ASSERT_TRUE(run(run_command()).ok);
  uint64_t launches = 0;
  for (const auto& used : used_) launches += used.launches;
  EXPECT_EQ(launches, runs + 1);
}

TEST_F(LaneRuns, TellsFromWhenToWhenEachLaunchWasThereWhereItIsTraced) {
  prepare_copies(3);
  set_gate(ipc::Grant{.open = true, .traces = true, .depth_ns = 2'000'000, .depth = 2});
  start();
  push(run_command());
  const auto ended = wait_ended();
  ASSERT_TRUE(ended.ok);
  ASSERT_EQ(traced_.size(), 1U);
  EXPECT_EQ(traced_[0].run, kRun);
  ASSERT_EQ(traced_[0].spans.size(), 3U);
  for (uint32_t i = 0; i < 3; ++i) {
    const auto& span = traced_[0].spans[i];
    EXPECT_EQ(span.launch, i);
    EXPECT_EQ(span.parts, span.of);
    EXPECT_LE(span.start_ns, span.end_ns);
    EXPECT_LE(ended.started_ns, span.start_ns);
  }
}

TEST_F(LaneRuns, TellsWhatIsTracedBeforeItWaitsAndNothingOnceTheTraceIsOver) {
  prepare_copies(2);
  start();
  stop_behind_a_launch(ipc::Grant{.open = true, .traces = true, .depth_ns = 2'000'000, .depth = 1});
  set_gate(ipc::Grant{.traces = true});
  const auto told = let_it_tell();
  ASSERT_TRUE(std::holds_alternative<ipc::Traced>(told));
  EXPECT_EQ(std::get<ipc::Traced>(told).spans.size(), 1U);
  traced_.clear();
  set_gate(true);
  wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
  EXPECT_TRUE(traced_.empty());
}

// Rounds of a kernel and a fill, after every second another kernel and a look at its result; then a last one.
TEST_F(LaneRuns, TellsWhatComesNextUpToWhatIsNotDecided) {
  using Step = ipc::PlanFrame::Step;
  auto plan = this->plan();
  for (uint64_t identity = 1; identity <= 3; ++identity) {
    add_copy(plan, 0, 1);
    plan.launches.back().identity = identity;
    plan.launches.back().group_ps = identity * 1'000'000;
  }
  plan.fills.push_back({.buffer = 1, .offset = 0, .size_bytes = kBytes, .value = {.dtype = Dtype::kUint32}});
  plan.steps = {{Step::Kind::kRepeat, 0, 4},
                {Step::Kind::kLaunch, 0, 2},
                {Step::Kind::kFill, 0, 3},
                {Step::Kind::kLaunch, 1, 4},
                {Step::Kind::kLaunch, 2, 5}};
  ipc::PlanFrame::Repeat& repeat = plan.repeats.emplace_back();
  repeat.rounds = 4;
  repeat.bodies = {1};
  repeat.checks = {3};
  repeat.until = {.buffer = 1, .dtype = Dtype::kUint32, .every = 2, .value = {.dtype = Dtype::kFp64}, .name = "out"};
  prepare(kPlan, plan);
  start();
  const auto told = [&](const ipc::LaneEvent& event, bool was_seen) {
    const auto& ready = std::get<ipc::WorkReady>(event);
    EXPECT_TRUE(ready.pauses);
    std::vector<uint64_t> identities;
    for (const auto& kernel : ready.kernels) {
      identities.push_back(kernel.identity);
      const uint64_t time_ns = kernel.identity == 0 ? kBytes / 4 : kernel.identity * 1000;
      EXPECT_TRUE(was_seen || kernel.time_ns == time_ns) << kernel.time_ns;
      EXPECT_EQ(kernel.groups, kernel.identity == 0 ? 0U : 1U);
      EXPECT_FALSE(kernel.sliceable) << "it has one group";
    }
    return identities;
  };
  stop_behind_a_launch(ipc::Grant{.open = true, .depth_ns = 2'000'000, .depth = 1});
  set_gate(ipc::Grant{.tells = true});
  EXPECT_EQ(told(let_it_tell(), false), (std::vector<uint64_t>{0, 1, 0, 2}));
  set_gate(true);
  wake_.signal();
  ASSERT_TRUE(wait_ended().ok);
  // Of every run anew.
  set_gate(ipc::Grant{.tells = true});
  push(run_command());
  EXPECT_EQ(told(wait_event(), true), (std::vector<uint64_t>{1, 0, 1, 0, 2}));
  set_gate(true);
  wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
}

// A double holds neither 2^53 + 1 nor 2^64 - 1.
TEST_F(LaneRuns, UntilComparesWholeNumbersOf64BitsExactly) {
  using Until = ipc::PlanFrame::Until;
  constexpr uint64_t kOdd = (uint64_t{1} << 53) + 1;
  start();
  uint64_t id = kPlan;
  const auto run_until = [&](Dtype dtype, uint64_t seen, Until::Compare compare, ipc::PlanFrame::Value bound) {
    auto plan = this->plan();
    plan.fills.push_back({.buffer = 1, .offset = 0, .size_bytes = kBytes, .value = {.dtype = dtype, .bits = seen}});
    plan.steps = {{ipc::PlanFrame::Step::Kind::kRepeat, 0, 2}, {ipc::PlanFrame::Step::Kind::kFill, 0, 2}};
    ipc::PlanFrame::Repeat& repeat = plan.repeats.emplace_back();
    repeat.rounds = 2;
    repeat.bodies = {1};
    repeat.checks = {2};
    repeat.limit_is_error = true;
    repeat.until = {.compare = compare, .buffer = 1, .dtype = dtype, .every = 1, .value = bound, .name = "out"};
    prepare(++id, plan);
    const auto ended = run(run_command(id));
    return ended.ok ? "met" : ended.text;
  };
  using enum Until::Compare;
  EXPECT_EQ(run_until(Dtype::kInt64, kOdd, kEquals, {.dtype = Dtype::kInt64, .bits = kOdd}), "met");
  EXPECT_THAT(run_until(Dtype::kInt64, kOdd, kEquals, {.dtype = Dtype::kInt64, .bits = kOdd - 1}),
              testing::HasSubstr("'out' was not equal to 9007199254740992 after 2 rounds"));
  EXPECT_THAT(run_until(Dtype::kInt64, kOdd, kAbove, {.dtype = Dtype::kInt64, .bits = kOdd}),
              testing::HasSubstr("'out' was not above 9007199254740993 after 2 rounds"));
  EXPECT_EQ(run_until(Dtype::kInt64, kOdd, kAbove, {.dtype = Dtype::kFp64, .bits = std::bit_cast<uint64_t>(0x1p53)}),
            "met");
  EXPECT_EQ(run_until(Dtype::kUint64, UINT64_MAX - 1, kBelow, {.dtype = Dtype::kUint64, .bits = UINT64_MAX}), "met");
  EXPECT_THAT(run_until(Dtype::kUint64, UINT64_MAX, kBelow, {.dtype = Dtype::kUint64, .bits = UINT64_MAX}),
              testing::HasSubstr("'out' was not below 18446744073709551615 after 2 rounds"));
}

TEST_F(LaneRuns, LingersWhenItsWindowIsOver) {
  prepare_copies(1);
  shares_core_ = true;
  set_gate(ipc::Grant{.open = true, .tells = true, .until_ns = 1, .depth_ns = 2'000'000, .depth = 2});
  start();
  push(run_command());
  ASSERT_TRUE(std::holds_alternative<ipc::WorkReady>(wait_event()));
  // Nobody signals: it looks. If it has gone to sleep by then, which it does on a slow machine, it is woken.
  set_gate(true);
  if (published().waits_at_gate.load() == 1) wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
}

TEST_F(LaneRuns, TakesTheCoreFromNobodyWhoIsMoreUrgent) {
  const auto stand_back = [] {
    const auto threads = os::threads_of_process();
    return std::count_if(threads.begin(), threads.end(),
                         [](int thread) { return sched_getscheduler(thread) == SCHED_BATCH; });
  };
  prepare_copies(1);
  shares_core_ = true;
  set_gate(ipc::Grant{.tells = true});
  start();
  push(run_command());
  until([&] { return published().waits_at_gate.load() == 1; });
  EXPECT_EQ(stand_back(), 1);
  set_gate(true);
  wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
  // The next run may be an urgent one.
  EXPECT_TRUE(run(run_command()).ok);
  EXPECT_EQ(stand_back(), 0);
}

TEST_F(LaneRuns, WaitsUntilItsWindowBegins) {
  prepare_copies(1);
  const Time from = os::now() + Duration::millis(20);
  set_gate(ipc::Grant{.open = true, .from_ns = from.ns, .depth_ns = 2'000'000, .depth = 2});
  start();
  push(run_command());
  const auto ended = wait_ended();
  ASSERT_TRUE(ended.ok);
  EXPECT_GE(ended.started_ns, from.ns);
}

// Nobody signals that the time has come, which it may do at any moment on the way to sleep.
TEST_F(LaneRuns, DoesNotSleepThroughTheBeginOfItsWindow) {
  prepare_copies(1);
  start();
  for (int64_t i = 0; i < 2000; ++i) {
    set_gate(ipc::Grant{.open = true, .from_ns = os::now().ns + i % 100 * 1000, .depth_ns = 2'000'000, .depth = 2});
    ASSERT_TRUE(run(run_command()).ok);
  }
}

// Fills are of the device's time too: those that are in flight at once are bounded as kernels are.
TEST_F(LaneRuns, DoesNotPutMoreFillsInFlightThanItMay) {
  auto plan = this->plan();
  for (uint32_t i = 0; i < 8; ++i) {
    plan.fills.push_back({.buffer = 1, .offset = 0, .size_bytes = kBytes, .value = {.dtype = Dtype::kUint32}});
    plan.steps.push_back({ipc::PlanFrame::Step::Kind::kFill, i, i + 1});
  }
  add_copy(plan, 0, 1);
  plan.steps.back().end = static_cast<uint32_t>(plan.steps.size());
  prepare(kPlan, plan);
  set_gate(ipc::Grant{.open = true, .depth_ns = kBytes, .depth = 256});  // four times what one is taken for
  start();
  faults_->is_stopped = true;
  push(run_command());
  until([&] { return published().running_run.load() == kRun; });
  until([&] { return faults_->launches.load() > 0 || is_asleep("lane"); });
  EXPECT_EQ(faults_->launches.load(), 0u) << "eight fills were in flight before it";
  release_device();
  EXPECT_TRUE(wait_ended().ok);
}

TEST_F(LaneRuns, ADeviceThatCannotBeDividedSaysSo) {
  prepare_copies(1);
  start();
  auto run = run_command();
  run.units = 2;
  push(run);
  const auto ended = wait_ended();
  EXPECT_FALSE(ended.ok);
  EXPECT_NE(ended.text.find("cannot be divided"), std::string::npos) << ended.text;
  push(run_command());
  EXPECT_TRUE(wait_ended().ok) << "the lane serves on";
}

TEST_F(LaneRuns, ARunThatDoesNotFitItsPlanOrNamesNoPlanIsAnError) {
  prepare_copies(1);
  start();
  auto run = run_command();
  run.plan = 99;
  push(run);
  EXPECT_FALSE(wait_ended().ok);
  run = run_command();
  run.scalars.clear();
  push(run);
  EXPECT_FALSE(wait_ended().ok);
  run = run_command();
  run.bindings[0].offset = ~uint64_t{0};
  push(run);
  EXPECT_FALSE(wait_ended().ok);
  run = run_command();
  std::swap(run.bindings[0], run.bindings[1]);  // an output where only reading is allowed
  push(run);
  EXPECT_FALSE(wait_ended().ok);
}

// What the core finds hangs by: which launch has not ended, since when, also while the gate is closed.
TEST_F(LaneRuns, TellsWhichLaunchHasNotEnded) {
  prepare_copies(2);
  start();
  EXPECT_FALSE(lane_->flight());
  const Time before = os::now();
  stop_behind_a_launch(ipc::Grant{.open = true, .depth_ns = 2'000'000, .depth = 1});
  until([&] { return lane_->flight().has_value(); });
  const auto first = *lane_->flight();
  EXPECT_EQ(first.run, kRun);
  EXPECT_GT(first.number, 0u);
  EXPECT_GE(first.since_ns, before.ns);
  EXPECT_LE(first.since_ns, os::now().ns);
  EXPECT_EQ(first.used_ns, 0);
  set_gate(false);
  EXPECT_EQ(lane_->flight()->number, first.number);
  release_device();
  // Between two launches nothing is in flight, and the run is still there.
  until([&] { return lane_->flight()->number == 0; });
  faults_->is_stopped = true;
  set_gate(true);
  wake_.signal();
  until([&] { return lane_->flight()->number != 0; });
  const auto second = *lane_->flight();
  EXPECT_EQ(second.number, first.number + 1);
  EXPECT_GT(second.since_ns, first.since_ns);
  EXPECT_GT(second.used_ns, 0) << "the first launch has ended";
  release_device();
  EXPECT_TRUE(wait_ended().ok);
  EXPECT_FALSE(lane_->flight());
}

// As after a fault in code of which nobody knows to what kernel it belongs.
TEST_F(LaneRuns, PublishesTheLaunchThatTheDeviceIsAtWhenAsked) {
  auto plan = plan_of_slices(5);
  prepare(kPlan, plan);
  set_gate(ipc::Grant{.open = true, .depth_ns = 1'000'000'000, .depth = 256});
  start();
  faults_->hold_launch = 4;
  push(run_command());
  until([&] { return lane_->flight() && lane_->flight()->number == 4 && faults_->launches.load() == 5; });
  const auto& published = pages_.executor().lanes[0].running_launch;
  EXPECT_EQ(published.load(), 0u) << "the lane looks at all five when they have ended";
  lane_->publish_front();
  EXPECT_EQ(published.load(), 3u);
  release_device();
  EXPECT_TRUE(wait_ended().ok);
}

TEST_F(LaneRuns, ALaunchThatFailsAmongOthersInFlightIsNamedAndEndsTheLane) {
  auto plan = this->plan();
  for (int i = 0; i < 5; ++i) add_copy(plan, 0, 1);
  plan.launches[2].entry = "fail";
  plan.launches[2].arguments.erase(plan.launches[2].arguments.begin());
  plan.launches[2].arguments.pop_back();
  prepare(kPlan, plan);
  set_gate(ipc::Grant{.open = true, .depth_ns = 1'000'000'000, .depth = 256});
  start();
  push(run_command());
  const auto ended = wait_ended();
  EXPECT_FALSE(ended.ok);
  EXPECT_TRUE(ended.ends_executor);
  EXPECT_EQ(name_of(ended.code), name_of(ErrorCode::kFaulted));
  EXPECT_TRUE(ended.text.starts_with("kernel fail: failed on the device: ")) << ended.text;
  thread_.join();
  EXPECT_EQ(name_of(ended_.error().code), name_of(ErrorCode::kFaulted));
}

// What fails is the fourth launch; the others, which are in flight with it, are not named.
TEST_F(LaneRuns, TheLaunchAfterTheLastOneThatEndedIsTheOneThatFailed) {
  auto plan = plan_of_slices(5);
  plan.launches[3].entry = "copy_too";
  prepare(kPlan, plan);
  set_gate(ipc::Grant{.open = true, .depth_ns = 1'000'000'000, .depth = 256});
  start();
  faults_->is_stopped = true;
  faults_->fail_launch = 4;
  push(run_command());
  until([&] { return faults_->launches.load() == 5; });
  release_device();
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.ends_executor);
  EXPECT_TRUE(ended.text.starts_with("kernel copy_too: ")) << ended.text;
  thread_.join();
  // Fails once, then serves: in what the next executor has.
  lane_.reset();
  open(true);
  prepare(kPlan, plan);
  start();
  EXPECT_TRUE(run(run_command()).ok);
}

TEST_F(LaneRuns, ACopyThatFailsBlamesNobodyAndEndsTheLane) {
  open(false);
  prepare_copies(2);
  start();
  EXPECT_TRUE(run(run_command()).ok);
  faults_->fail_copy = 1;
  push(run_command());
  thread_.join();
  EXPECT_EQ(name_of(ended_.error().code), name_of(ErrorCode::kFaulted));
  EXPECT_TRUE(ended_.error().text.starts_with("a copy: failed on the device: ")) << ended_.error().text;
  EXPECT_TRUE(events_->empty()) << "the end of the process tells what became of the run";
}

}  // namespace
}  // namespace quern::executor
