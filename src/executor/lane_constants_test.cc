// SPDX-License-Identifier: Apache-2.0
#include "executor/lane_test.h"

namespace quern::executor {
namespace {

constexpr uint64_t kObjectBytes = 64 << 10;
constexpr uint64_t kHeld = 5, kThere = 6;  // objects

class LaneConstants : public LaneTest {
 protected:
  void SetUp() override { open(false); }

  // Filled with a byte of its own.
  void load(uint64_t id) {
    const Bytes bytes(kObjectBytes, static_cast<std::byte>(id));
    holdings_->load_object({id, kObjectBytes}, *os::immutable_copy("object", bytes));
  }
  // One that stays on its way until release_device; inputs are smaller.
  void load_held(uint64_t id) {
    faults_->held_write_bytes = kObjectBytes;
    load(id);
  }
  void load_now(uint64_t id) {
    load(id);
    EXPECT_TRUE(told_.next<ipc::Loaded>().ok);
  }

  ipc::BoundPlan plan_with(const std::vector<uint64_t>& objects) {
    auto plan = this->plan();
    for (const uint64_t object : objects) add_buffer(plan, Role::kConstant, kObjectBytes, {}, object);
    return plan;
  }
  // Until the lane waits for a constant: with the gate open it takes a command in the middle of a run only there.
  void until_it_waits() {
    push(ipc::StopCommand{kRun + 1});
    until([&] { return published().command_tail.read.load() == pages_.daemon().lanes[0].command_head.written.load(); });
  }
  void expect_output(uint64_t object) {
    for (const std::byte byte : output_.bytes()) ASSERT_EQ(byte, static_cast<std::byte>(object));
  }
};

TEST_F(LaneConstants, ALaunchWaitsForItsOwnOnly) {
  load_now(kThere);
  load_held(kHeld);
  auto plan = plan_with({kThere, kHeld});
  add_copy(plan, 0, 1);
  add_copy(plan, 2, 1);
  add_copy(plan, 3, 1);
  prepare(kPlan, plan);
  start();
  faults_->fail_launch = 100;  // counts launches
  push(run_command());
  until([&] { return faults_->fail_launch.load() == 98; });
  until_it_waits();
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(events_->empty());
  release_device();
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.ok) << ended.text;
  EXPECT_GT(ended.waited_ns, 0);
  EXPECT_FALSE(told_.empty()) << "the run was over before its load";
  EXPECT_EQ(faults_->fail_launch.load(), 97U);
  expect_output(kHeld);
  const auto again = run(run_command());
  EXPECT_TRUE(again.ok) << again.text;
  EXPECT_EQ(again.waited_ns, 0);
}

TEST_F(LaneConstants, ARunEndsOnlyWhenAllAreThere) {
  load_held(kHeld);
  auto plan = plan_with({kHeld});
  add_copy(plan, 0, 1);
  prepare(kPlan, plan);
  start();
  push(run_command());
  until_it_waits();
  EXPECT_TRUE(events_->empty());
  release_device();
  EXPECT_TRUE(wait_ended().ok);
  EXPECT_TRUE(told_.next<ipc::Loaded>().ok);
}

TEST_F(LaneConstants, AStopEndsTheWait) {
  load_held(kHeld);
  auto plan = plan_with({kHeld});
  add_copy(plan, 2, 1);
  prepare(kPlan, plan);
  start();
  push(run_command());
  until_it_waits();
  set_gate(false);
  push(ipc::StopCommand{kRun});
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.code, ErrorCode::kCancelled);
  EXPECT_TRUE(told_.empty()) << "the load goes on";
  set_gate(true);
  release_device();
  EXPECT_TRUE(run(run_command()).ok);
  expect_output(kHeld);
}

TEST_F(LaneConstants, OneThatFailsEndsTheRunThatWaitsForIt) {
  load_held(kHeld);
  auto plan = plan_with({kHeld});
  add_copy(plan, 2, 1);
  prepare(kPlan, plan);
  start();
  push(run_command());
  until_it_waits();
  holdings_->drop_object(kHeld);
  release_device();
  const auto ended = wait_ended();
  EXPECT_FALSE(ended.ok);
  EXPECT_FALSE(ended.stopped);
  EXPECT_EQ(ended.code, ErrorCode::kUnavailable);
  EXPECT_NE(ended.text.find("constant"), std::string::npos) << ended.text;
}

TEST_F(LaneConstants, OneThatHadFailedEndsTheRun) {
  faults_->bytes_until_failure = 0;
  load(kHeld);
  EXPECT_EQ(told_.next<ipc::Loaded>().code, ErrorCode::kExhausted);
  faults_->bytes_until_failure = UINT64_MAX;
  auto plan = plan_with({kHeld});
  add_copy(plan, 2, 1);
  prepare(kPlan, plan);
  start();
  const auto ended = run(run_command());
  EXPECT_FALSE(ended.ok);
  EXPECT_FALSE(ended.no_room) << "its own memory was there";
  EXPECT_EQ(ended.code, ErrorCode::kUnavailable);
}

TEST_F(LaneConstants, AViewOfOneOutlivesTheMemoryOfTheLane) {
  load_now(kThere);
  auto plan = plan_with({kThere});
  add_copy(plan, 2, 1);
  plan.plan.launches[0].arguments[0].is_view = true;
  plan.plan.launches[0].arguments[0].offset_bytes = 4096;
  plan.plan.launches[0].arguments[0].size_bytes = kBytes;
  prepare(kPlan, plan);
  start();
  EXPECT_TRUE(run(run_command()).ok);
  push(ipc::TrimCommand{});
  EXPECT_TRUE(std::holds_alternative<ipc::LaneTrimmed>(wait_event()));
  std::memset(output_.bytes().data(), 0, kBytes);
  const auto ended = run(run_command());
  EXPECT_TRUE(ended.ok) << ended.text;
  expect_output(kThere);
}

// A lane that is busy forgets a plan late: the memory of its constants, and of views of them, does not wait for it.
TEST_F(LaneConstants, LeaveWithTheirPlanEvenIfALaneStillKnowsIt) {
  open(false, kObjectBytes + 2 * kBytes);
  load_now(kThere);
  auto plan = plan_with({kThere});
  add_copy(plan, 2, 1);
  plan.plan.launches[0].arguments[0].is_view = true;
  plan.plan.launches[0].arguments[0].size_bytes = kBytes;
  prepare(kPlan, plan);
  start();
  EXPECT_TRUE(run(run_command()).ok);
  holdings_->drop_plan(kPlan);
  holdings_->drop_object(kThere);
  EXPECT_EQ(told_.next<ipc::Dropped>().object, kThere);
  EXPECT_TRUE(device_->allocate(kObjectBytes).ok());
}

}  // namespace
}  // namespace quern::executor
