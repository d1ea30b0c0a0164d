// SPDX-License-Identifier: Apache-2.0
#include "ipc/plan_frame.h"

#include <gtest/gtest.h>

namespace quern::ipc {
namespace {

using Kind = PlanFrame::Step::Kind;

// launch, repeat { launch, check: launch } until, fill
PlanFrame sample_plan() {
  PlanFrame plan;
  plan.program = 7;
  plan.slots = 1;
  plan.reports = 1;
  plan.arenas = {512};
  plan.buffers = {{.role = PlanFrame::Role::kInput, .size_bytes = 64},
                  {.role = PlanFrame::Role::kOutput, .size_bytes = 64},
                  {.role = PlanFrame::Role::kScratch, .size_bytes = 64, .object = 0, .arena = 0, .offset = 256}};
  PlanFrame::Launch launch;
  launch.entry = "saxpy";
  launch.global = {64, 1, 1};
  launch.arguments.resize(3);
  launch.arguments[1].kind = PlanFrame::Argument::Kind::kScalar;
  launch.arguments[1].value = {0, Dtype::kFp32, 0};
  launch.arguments[2].kind = PlanFrame::Argument::Kind::kLocal;
  plan.launches = {launch, launch, launch};
  plan.fills = {{1, 0, 64, {PlanFrame::kNone, Dtype::kFp32, 0}}};
  PlanFrame::Repeat repeat;
  repeat.rounds = 10;
  repeat.bodies = {2};
  repeat.checks = {3};
  repeat.swaps = {{1, 2}};
  repeat.until.every = 2;
  repeat.until.buffer = 2;
  repeat.until.value = {0, Dtype::kFp64, 0};
  repeat.report = 0;
  plan.repeats = {repeat};
  plan.steps = {
      {Kind::kLaunch, 0, 1}, {Kind::kRepeat, 0, 4}, {Kind::kLaunch, 1, 3}, {Kind::kLaunch, 2, 4}, {Kind::kFill, 0, 5}};
  return plan;
}

bool is_refused(auto change) {
  PlanFrame plan = sample_plan();
  change(plan);
  return !decode_plan(encode(plan)).ok();
}

TEST(PlanFrame, ComesBackAsItWas) {
  const auto back = decode_plan(encode(sample_plan()));
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->steps.size(), 5U);
  EXPECT_EQ(back->repeats[0].swaps[0], (std::pair{1U, 2U}));
  EXPECT_EQ(back->repeats[0].until.every, 2U);
  EXPECT_EQ(back->launches[2].arguments[1].value.slot, 0U);
}

TEST(PlanFrame, WhatPointsOutsideIsRefused) {
  EXPECT_FALSE(is_refused([](PlanFrame&) {}));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.launches[0].arguments[0].buffer = 3; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.launches[0].arguments[0].size_bytes = 65; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.launches[0].arguments[0].offset = 65; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.launches[0].arguments[1].value.slot = 1; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.launches[0].arguments[1].value.dtype = static_cast<Dtype>(99); }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.launches[0].dimensions = 4; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.buffers[0].size_bytes = 0; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.buffers[2].arena = 1; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.buffers[2].arena = PlanFrame::kNone; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.buffers[2].offset = 449; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.fills[0].buffer = 0; })) << "an input is filled";
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.fills[0].offset = 2; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].swaps = {{0, 1}}; })) << "an input is swapped";
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.buffers[2].size_bytes = 32; })) << "a swap of unlike buffers";
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].report = 1; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].until.offset = 61; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].until.value.dtype = Dtype::kFp32; }));
  EXPECT_FALSE(is_refused([](PlanFrame& p) { p.repeats[0].until.value.dtype = Dtype::kUint64; }));
}

TEST(PlanFrame, StepsThatDoNotNestAreRefused) {
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.steps[0].end = 2; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.steps[0].end = 0; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.steps[1].end = 6; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.steps[2].kind = static_cast<Kind>(3); }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.steps[2] = {Kind::kRepeat, 0, 3}; })) << "a repeat in itself";
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].rounds = 0; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].bodies = {1}; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].checks = {5}; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) { p.repeats[0].checks = {1}; }));
  EXPECT_TRUE(is_refused([](PlanFrame& p) {
    p.repeats[0].bodies = {2, 3}, p.repeats[0].checks = {3, 4};
  })) << "two variants of ten rounds";
  EXPECT_FALSE(is_refused([](PlanFrame& p) {
    p.repeats[0].rounds = 2;
    p.repeats[0].bodies = {2, 3}, p.repeats[0].checks = {3, 4};
  }));
}

TEST(PlanFrame, ALongListThatIsNotThereCostsNothing) {
  ByteWriter writer;
  writer.put(uint64_t{1});
  writer.put(uint32_t{0});
  writer.put(uint32_t{0});
  writer.put(uint32_t{4096});  // buffers, and none follows
  EXPECT_FALSE(decode_plan(writer.bytes()).ok());
  ByteWriter larger;
  larger.put(uint64_t{1});
  larger.put(uint32_t{0});
  larger.put(uint32_t{0});
  larger.put(~uint32_t{0});
  EXPECT_FALSE(decode_plan(larger.bytes()).ok());
}

}  // namespace
}  // namespace quern::ipc
