// SPDX-License-Identifier: Apache-2.0
#include "executor/lane_test.h"

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

TEST_F(LaneRuns, AKernelThatFailsIsNamed) {
  prepare_copies(1, "fail");
  start();
  push(run_command());
  const auto ended = wait_ended();
  EXPECT_FALSE(ended.ok);
  EXPECT_NE(ended.text.find("fail"), std::string::npos) << ended.text;
}

}  // namespace
}  // namespace quern::executor
