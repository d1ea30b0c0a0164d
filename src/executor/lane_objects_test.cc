// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "executor/lane_test.h"

namespace quern::executor {
namespace {

constexpr uint64_t kObject = 5, kMade = 9;

class LaneObjects : public LaneTest {
 protected:
  void SetUp() override { open(false); }

  // Copies the input, which has no memory in the lane, to the output.
  void prepare_copy(uint64_t id) {
    auto plan = this->plan();
    if (!holdings_->in_place()) {
      plan.binding.placement = {{{}, {0, 0}}, {kBytes}};
    }
    add_copy(plan, 0, 1);
    prepare(id, plan);
  }
  // At an offset in memory that has more.
  void load(uint64_t id, int value) {
    Bytes bytes(3 * kBytes, std::byte{0xee});
    std::fill_n(bytes.begin() + kBytes, kBytes, static_cast<std::byte>(value));
    holdings_->load_object({id, kBytes, kBytes, bytes.size()}, *os::immutable_copy("object", bytes));
  }
  ipc::RunCommand command(uint64_t input, uint64_t output = 0) const {
    auto run = run_command();
    if (input != 0) run.bindings[0] = {0, 0, input};
    run.bindings[1].object = output;
    return run;
  }
  void expect_output(int value) {
    const auto bytes = output_.bytes();
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [&](std::byte one) {
      return one == static_cast<std::byte>(value);
    })) << static_cast<int>(bytes[0]);
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
};

TEST_F(LaneObjects, AnInputIsUsedWhereItIs) {
  prepare_copy(kPlan);
  load(kObject, 42);
  EXPECT_TRUE(told_.next<ipc::Loaded>().ok);
  start();
  for (int round = 0; round < 2; ++round) {
    const auto ended = run(command(kObject));
    EXPECT_TRUE(ended.ok) << ended.text;
    expect_output(42);
  }
  holdings_->drop_object(kObject);
  EXPECT_EQ(told_.next<ipc::Dropped>().object, kObject);
}

TEST_F(LaneObjects, ARunMayComeBeforeItsInput) {
  prepare_copy(kPlan);
  start();
  push(command(kObject));
  until([&] { return published().running_run.load() == kRun; });
  EXPECT_TRUE(events_->empty());
  load(kObject, 7);
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.ok) << ended.text;
  expect_output(7);
}

TEST_F(LaneObjects, AnInputThatCannotBeLoadedEndsTheRun) {
  prepare_copy(kPlan);
  start();
  push(command(kObject));
  until([&] { return published().running_run.load() == kRun; });
  holdings_->load_object({kObject, kBytes, 8 * kBytes, 4 * kBytes}, *os::immutable_copy("object", Bytes(4 * kBytes)));
  const auto ended = wait_ended();
  EXPECT_EQ(name_of(ended.code), name_of(ErrorCode::kUnavailable)) << ended.text;
  EXPECT_EQ(told_.next<ipc::Loaded>().code, ErrorCode::kInvalid);
}

// Whether the run or the end of the load comes first is chance.
TEST_F(LaneObjects, ARunThatComesAfterItsInputFailedIsToldSo) {
  prepare_copy(kPlan);
  holdings_->load_object({kObject, kBytes, 8 * kBytes, 4 * kBytes}, *os::immutable_copy("object", Bytes(4 * kBytes)));
  EXPECT_EQ(told_.next<ipc::Loaded>().code, ErrorCode::kInvalid);
  faults_->bytes_until_failure = 0;
  load(kObject + 1, 1);
  EXPECT_EQ(told_.next<ipc::Loaded>().code, ErrorCode::kExhausted);
  faults_->bytes_until_failure = UINT64_MAX;
  start();
  EXPECT_EQ(run(command(kObject)).code, ErrorCode::kUnavailable);
  EXPECT_EQ(run(command(kObject + 1)).code, ErrorCode::kUnavailable);
}

TEST_F(LaneObjects, AnInputOfAnotherSizeIsRefused) {
  prepare_copy(kPlan);
  holdings_->load_object({kObject, 2 * kBytes}, *os::immutable_copy("object", Bytes(2 * kBytes)));
  EXPECT_TRUE(told_.next<ipc::Loaded>().ok);
  start();
  EXPECT_EQ(run(command(kObject)).code, ErrorCode::kInternal);
  // Nor is there a place for one that does not come as an object.
  EXPECT_EQ(run(command(0)).code, ErrorCode::kInternal);
}

TEST_F(LaneObjects, AnOutputThatStaysIsThereForTheNextRun) {
  prepare_copy(kPlan);
  load(kObject, 42);
  load(kObject + 1, 43);
  start();
  auto ended = run(command(kObject, kMade));
  EXPECT_TRUE(ended.ok) << ended.text;
  expect_output(42);  // the host has it, too
  // What the lane computes in is the next run's.
  EXPECT_TRUE(run(command(kObject + 1)).ok);
  expect_output(43);
  ended = run(command(kMade));
  EXPECT_TRUE(ended.ok) << ended.text;
  expect_output(42);
}

TEST_F(LaneObjects, AnOutputThatFindsNoRoomIsNotThere) {
  prepare_copy(kPlan);
  load(kObject, 42);
  EXPECT_TRUE(told_.next<ipc::Loaded>().ok);
  start();
  EXPECT_TRUE(run(command(kObject)).ok);
  faults_->bytes_until_failure = 0;
  const auto ended = run(command(kObject, kMade));
  EXPECT_TRUE(ended.no_room);
  EXPECT_EQ(name_of(ended.code), name_of(ErrorCode::kExhausted));
  EXPECT_NE(ended.text.find("that a run leaves there"), std::string::npos) << ended.text;
  // The lane holds nothing either: as the daemon has it.
  EXPECT_TRUE(run(command(kObject)).no_room);
  faults_->bytes_until_failure = UINT64_MAX;
  EXPECT_TRUE(run(command(kObject, kMade)).ok);
}

TEST_F(LaneObjects, InPlaceAnOutputIsReadWhereItWasWritten) {
  open(true);
  prepare_copy(kPlan);
  std::memset(input_.bytes().data(), 42, kBytes);
  start();
  EXPECT_TRUE(run(command(0, kMade)).ok);
  faults_->bytes_until_failure = 0;
  std::memset(output_.bytes().data(), 44, kBytes);  // there is one copy
  auto plan = this->plan();
  add_buffer(plan, Role::kOutput, kBytes, {});
  add_copy(plan, 0, 1);
  prepare(2, plan);
  const auto second = ipc::Arena::create("out", ipc::Direction::kOutput, uint64_t{1} << 30)->take(kBytes);
  const ipc::Segment& segment = *second->segment();
  ASSERT_TRUE(holdings_->map_segment({segment.id, 1, segment.size_bytes}, os::Fd(dup(segment.fd.get()))).ok());
  auto next = run_command(2);
  next.bindings = {{0, 0, kMade}, {segment.id, second->offset(), 0}, {output_.segment()->id, output_.offset(), 0}};
  const auto ended = run(next);
  EXPECT_TRUE(ended.ok) << ended.text;
  EXPECT_EQ(second->bytes()[kBytes - 1], std::byte{44});
}

// What is copied in is no launch: it is neither counted nor learned from as one.
TEST_F(LaneObjects, CopiesAreNoKernels) {
  auto plan = this->plan();
  add_copy(plan, 0, 1);
  prepare(kPlan, plan);
  set_gate({.open = true, .meters = true, .depth_ns = 2'000'000, .depth = 2});
  start();
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(run(run_command()).ok);
  uint64_t launches = 0;
  for (const auto& used : used_) launches += used.launches;
  EXPECT_LE(launches, 3U);
  EXPECT_GT(launches, 0U);
}

}  // namespace
}  // namespace quern::executor
