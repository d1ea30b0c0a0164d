// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "executor/lane_test.h"

namespace quern::executor {
namespace {

constexpr uint64_t kDeviceBytes = 48 << 10;

class LaneMemory : public LaneTest {
 protected:
  void SetUp() override { open(true, kDeviceBytes); }

  // Copies the first kBytes of a scratch that nobody wrote to the output.
  void prepare_scratch(uint64_t id, uint64_t scratch_bytes) {
    auto plan = this->plan();
    plan.binding.placement.arenas = {scratch_bytes};
    add_buffer(plan, Role::kScratch, scratch_bytes, {0, 0});
    add_copy(plan, 2, 1);
    prepare(id, plan);
  }
  // Nothing more can be allocated on the device until it is set back.
  void forbid_allocations() { faults_->bytes_until_failure = 0; }
  void allow_allocations() { faults_->bytes_until_failure = UINT64_MAX; }
};

TEST_F(LaneMemory, IsSharedByPlansInTurn) {
  prepare_scratch(1, 32 << 10);
  prepare_scratch(2, 32 << 10);
  start();
  EXPECT_TRUE(run(run_command(1)).ok);
  forbid_allocations();
  for (const uint64_t plan : {2, 1, 2}) {
    const auto ended = run(run_command(plan));
    EXPECT_TRUE(ended.ok) << ended.text;
  }
}

TEST_F(LaneMemory, IsAsLargeAsARunSaysAtOnce) {
  prepare_scratch(1, 2 << 10);
  prepare_scratch(2, 40 << 10);
  start();
  auto small = run_command(1);
  small.lane_bytes = 40 << 10;
  EXPECT_TRUE(run(small).ok);
  forbid_allocations();
  EXPECT_TRUE(run(run_command(2)).ok);
}

TEST_F(LaneMemory, IsNoLargerThanTheDeviceAllocatesAtOnce) {
  prepare_scratch(1, 2 << 10);
  start();
  auto run = run_command(1);
  run.lane_bytes = 10 * kDeviceBytes;
  const auto ended = this->run(run);
  EXPECT_TRUE(ended.ok) << ended.text;
}

TEST_F(LaneMemory, GrowsByLettingGoFirstAndNeverShrinks) {
  prepare_scratch(1, 32 << 10);
  prepare_scratch(2, kDeviceBytes);
  start();
  EXPECT_TRUE(run(run_command(1)).ok);
  const auto grown = run(run_command(2));
  EXPECT_TRUE(grown.ok) << grown.text;
  forbid_allocations();
  EXPECT_TRUE(run(run_command(1)).ok);
  EXPECT_TRUE(run(run_command(2)).ok);
}

TEST_F(LaneMemory, ServesPlansWithSeveralArenasToo) {
  auto two = plan();
  two.binding.placement.arenas = {16 << 10, 32 << 10};
  add_buffer(two, Role::kScratch, 16 << 10, {0, 0});
  add_buffer(two, Role::kScratch, 32 << 10, {1, 0});
  add_copy(two, 0, 2);
  add_copy(two, 2, 3);
  add_copy(two, 3, 1);
  prepare(1, two);
  prepare_scratch(2, kDeviceBytes);
  prepare_scratch(3, 16 << 10);
  std::memset(input_.bytes().data(), 42, kBytes);
  start();
  for (int round = 0; round < 2; ++round) {
    auto run = run_command(1);
    run.lane_bytes = kDeviceBytes;
    const auto ended = this->run(run);
    EXPECT_TRUE(ended.ok) << ended.text;
    EXPECT_EQ(std::memcmp(input_.bytes().data(), output_.bytes().data(), kBytes), 0);
    forbid_allocations();
    EXPECT_TRUE(this->run(run_command(3)).ok) << "the first arena is large enough";
    allow_allocations();
    EXPECT_TRUE(this->run(run_command(2)).ok) << "one of all instead of two";
  }
}

// An input, an output, scratch and a constant of no bytes, and a view of none, beside what has some.
TEST_F(LaneMemory, OfNothingIsNotAskedFor) {
  for (const bool in_place : {true, false}) {
    lane_.reset();
    open(in_place, kDeviceBytes);
    auto plan = this->plan();
    for (const Role role : {Role::kInput, Role::kOutput, Role::kScratch, Role::kConstant})
      add_buffer(plan, role, 0, {});
    for (const uint32_t from : {2, 4, 5}) add_copy(plan, from, 3);
    add_copy(plan, 0, 1);
    plan.plan.launches[0].arguments[1].is_view = true;
    for (uint32_t i = 0; i < 3; ++i)
      plan.plan.launches[i].arguments[2].scalar = {PlannedScalar::kFixed, {Dtype::kUint32, 0}};
    prepare(1, plan);
    std::memset(input_.bytes().data(), 42, kBytes);
    start();
    auto command = run_command(1);
    for (const ipc::Block* block : {&input_, &output_})
      command.bindings.push_back({block->segment()->id, block->offset()});
    for (int round = 0; round < 2; ++round) {
      const auto ended = run(command);
      EXPECT_TRUE(ended.ok) << ended.text;
      EXPECT_EQ(std::memcmp(input_.bytes().data(), output_.bytes().data(), kBytes), 0);
    }
    TearDown();
  }
}

TEST_F(LaneMemory, IsFreedByATrimAndAllocatedAgain) {
  prepare_scratch(1, kDeviceBytes);
  start();
  EXPECT_TRUE(run(run_command(1)).ok);
  EXPECT_FALSE(device_->allocate(1).ok());
  push(ipc::TrimCommand{});
  EXPECT_TRUE(std::holds_alternative<ipc::LaneTrimmed>(wait_event()));
  EXPECT_TRUE(device_->allocate(kDeviceBytes).ok());
  EXPECT_TRUE(run(run_command(1)).ok);
  EXPECT_FALSE(device_->allocate(1).ok());
}

TEST_F(LaneMemory, ATrimOfNothingIsAnsweredToo) {
  start();
  push(ipc::TrimCommand{});
  EXPECT_TRUE(std::holds_alternative<ipc::LaneTrimmed>(wait_event()));
}

TEST_F(LaneMemory, ATrimDuringARunWaitsForItsEnd) {
  prepare_scratch(1, kDeviceBytes);
  set_gate(false);
  start();
  push(run_command(1));
  until([&] { return published().waits_at_gate.load() == 1; });
  push(ipc::TrimCommand{});
  set_gate(true);
  wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
  EXPECT_TRUE(std::holds_alternative<ipc::LaneTrimmed>(wait_event()));
  EXPECT_TRUE(device_->allocate(kDeviceBytes).ok());
}

TEST_F(LaneMemory, ThatCannotBeHadEndsTheRunBeforeItBegan) {
  prepare_scratch(1, 16 << 10);
  prepare_scratch(2, 32 << 10);
  start();
  EXPECT_TRUE(run(run_command(1)).ok);
  auto someone_elses = device_->allocate(24 << 10);
  ASSERT_TRUE(someone_elses.ok());
  faults_->fail_launch = 100;  // counts launches
  const auto ended = run(run_command(2));
  EXPECT_FALSE(ended.ok);
  EXPECT_TRUE(ended.no_room);
  EXPECT_EQ(ended.code, ErrorCode::kExhausted);
  EXPECT_NE(ended.text.find("has no room for 32768 bytes"), std::string::npos) << ended.text;
  EXPECT_EQ(faults_->fail_launch.load(), 100U) << "it launched something";
  EXPECT_TRUE(device_->allocate(24 << 10).ok()) << "the lane holds what it had before";
  *someone_elses = nullptr;
  EXPECT_TRUE(run(run_command(2)).ok);
  EXPECT_TRUE(run(run_command(1)).ok);
}

TEST_F(LaneMemory, NeverShowsWhatAnotherDomainLeft) {
  // Of sizes that divide by 16 and that do not; the second grows.
  prepare_scratch(1, 2 << 10);
  prepare_scratch(2, (32 << 10) + 1);
  start();
  for (const uint64_t plan : {1, 2}) {
    std::memset(output_.bytes().data(), 0xff, kBytes);
    EXPECT_TRUE(run(run_command(plan)).ok);
    EXPECT_TRUE(
        std::all_of(output_.bytes().begin(), output_.bytes().end(), [](std::byte b) { return b == std::byte{}; }))
        << "plan " << plan << " saw " << static_cast<int>(output_.bytes()[0]);
  }
}

TEST_F(LaneMemory, IsNotFilledWhereItComesAsZeros) {
  faults_->fresh_memory_is_zero = true;
  faults_->copy_delay_ns = Duration::seconds(3600).ns;  // a fill would be a copy
  open(true, kDeviceBytes);
  prepare_scratch(1, 2 << 10);
  std::memset(output_.bytes().data(), 0xff, kBytes);
  start();
  EXPECT_TRUE(run(run_command(1)).ok);
  EXPECT_EQ(output_.bytes()[0], std::byte{});
}

}  // namespace
}  // namespace quern::executor
