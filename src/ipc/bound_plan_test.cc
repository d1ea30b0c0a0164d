// SPDX-License-Identifier: Apache-2.0
#include "ipc/bound_plan.h"

#include <gtest/gtest.h>

namespace quern::ipc {
namespace {

using Kind = PlannedStep::Kind;

PlannedBuffer buffer_of(Role role) {
  PlannedBuffer buffer;
  buffer.role = role;
  buffer.shape = {16};
  buffer.size_bytes = 64;
  return buffer;
}

// launch, repeat { launch, check: launch } until, fill
BoundPlan sample_plan() {
  Plan plan;
  plan.slots.resize(1);
  plan.slots[0].rounds = {{0, 3}};
  plan.reported = {0};
  plan.buffers = {buffer_of(Role::kInput), buffer_of(Role::kOutput), buffer_of(Role::kScratch)};
  PlannedLaunch launch;
  launch.entry = "saxpy";
  launch.global = {64, 1, 1};
  launch.arguments.resize(3);
  launch.arguments[1].kind = ArgumentDecl::Kind::kScalar;
  launch.arguments[1].scalar = {0, {Dtype::kFp32, 0}};
  launch.arguments[2].kind = ArgumentDecl::Kind::kLocal;
  plan.launches = {launch, launch, launch};
  plan.fills = {{1, 0, 64, {PlannedScalar::kFixed, {Dtype::kFp32, 0}}}};
  PlannedRepeat repeat;
  repeat.rounds = 10;
  repeat.bodies = {2};
  repeat.checks = {3};
  repeat.swaps = {{1, 2}};
  repeat.until = PlannedUntil{2, Dtype::kFp32, 0, 2, UntilDecl::Compare::kAbove, {0, {Dtype::kFp64, 0}}, "change"};
  repeat.report = 0;
  plan.repeats = {repeat};
  plan.steps = {{Kind::kLaunch, 0, 1, 1},
                {Kind::kRepeat, 0, 4, 1},
                {Kind::kLaunch, 1, 3, 2},
                {Kind::kLaunch, 2, 4, 3},
                {Kind::kFill, 0, 5, 4}};
  PlanBinding binding;
  binding.programs = {7};
  binding.objects.resize(3);
  binding.placement = {{{}, {}, {0, 256}}, {512}};
  binding.launches = {{1, true, 5}, {2, false, 0}, {3, false, 0}};
  return {plan, binding};
}

bool is_refused(auto change) {
  BoundPlan bound = sample_plan();
  change(bound.plan, bound.binding);
  return !decode_plan(encode(bound.plan, bound.binding)).ok();
}
bool is_refused_plan(auto change) {
  return is_refused([&](Plan& plan, PlanBinding&) { change(plan); });
}

TEST(BoundPlan, ComesBackAsItWas) {
  const BoundPlan sample = sample_plan();
  const Bytes bytes = encode(sample.plan, sample.binding);
  const auto back = decode_plan(bytes);
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(encode(back->plan, back->binding), bytes);
  EXPECT_EQ(back->plan.steps.size(), 5U);
  EXPECT_EQ(back->plan.steps[4].level, 4U);
  EXPECT_EQ(back->plan.buffers[1].shape, (Shape{16}));
  EXPECT_EQ(back->plan.repeats[0].swaps[0], (std::pair{1U, 2U}));
  EXPECT_EQ(back->plan.repeats[0].until->every, 2U);
  EXPECT_EQ(back->plan.repeats[0].until->name, "change");
  EXPECT_EQ(back->plan.launches[2].arguments[1].scalar.slot, 0U);
  EXPECT_EQ(back->plan.slots[0].rounds, (std::vector<std::pair<uint32_t, int64_t>>{{0, 3}}));
  EXPECT_EQ(back->binding.placement.places[2].offset, 256U);
  EXPECT_EQ(back->binding.launches[0].group_ps, 5U);
}

TEST(BoundPlan, ABindingOfAnotherPlanIsRefused) {
  EXPECT_TRUE(is_refused([](Plan&, PlanBinding& b) { b.objects.pop_back(); }));
  EXPECT_TRUE(is_refused([](Plan&, PlanBinding& b) { b.placement.places.emplace_back(); }));
  EXPECT_TRUE(is_refused([](Plan&, PlanBinding& b) { b.launches.pop_back(); }));
  EXPECT_TRUE(is_refused([](Plan&, PlanBinding& b) { b.programs.clear(); }));
  EXPECT_TRUE(is_refused([](Plan& p, PlanBinding&) { p.launches[1].program = 1; }));
  EXPECT_TRUE(is_refused([](Plan&, PlanBinding& b) { b.placement.places[2].arena = 1; }));
  EXPECT_TRUE(is_refused([](Plan&, PlanBinding& b) { b.placement.places[2].arena = Placement::kElsewhere; }));
  EXPECT_TRUE(is_refused([](Plan&, PlanBinding& b) { b.placement.places[2].offset = 449; }));
}

TEST(BoundPlan, WhatPointsOutsideIsRefused) {
  EXPECT_FALSE(is_refused_plan([](Plan&) {}));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.launches[0].arguments[0].buffer = 3; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.launches[0].arguments[0].size_bytes = 65; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.launches[0].arguments[0].offset_bytes = 65; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.launches[0].arguments[1].scalar.slot = 1; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.launches[0].arguments[1].scalar.fixed.dtype = static_cast<Dtype>(99); }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.launches[0].dimensions = 4; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.buffers[2].size_bytes = 0; })) << "nothing has no place";
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.fills[0].buffer = 0; })) << "an input is filled";
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.fills[0].offset_bytes = 2; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].swaps = {{0, 1}}; })) << "an input is swapped";
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.buffers[2].size_bytes = 32; })) << "a swap of unlike buffers";
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].report = 1; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].until->offset_bytes = 61; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].until->value.fixed.dtype = Dtype::kFp32; }));
  EXPECT_FALSE(is_refused_plan([](Plan& p) { p.repeats[0].until->value.fixed.dtype = Dtype::kUint64; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].until->every = 0; }));
  EXPECT_FALSE(is_refused_plan([](Plan& p) { p.repeats[0].until.reset(); }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].until.reset(), p.repeats[0].limit_is_error = true; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.buffers[0].dtype = static_cast<Dtype>(99); }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.launches[0].arguments[0].access = static_cast<Access>(4); }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.slots[0].kind = static_cast<Plan::Slot::Kind>(9); }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.slots[0].rounds.resize(kDeepestRepeat + 1); }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.buffers[0].shape.resize(kMostRank + 1); }));
}

TEST(BoundPlan, ACopyThatPointsOutsideIsRefused) {
  const auto is_refused_copy = [](PlannedCopy copy, uint32_t index = 0) {
    return is_refused_plan([&](Plan& plan) {
      plan.copies = {copy};
      plan.steps.push_back({Kind::kCopy, index, 6, 5});
    });
  };
  EXPECT_FALSE(is_refused_copy({0, 1, 0, 0, 64}));
  EXPECT_FALSE(is_refused_copy({0, 1, 32, 60, 4}));
  EXPECT_TRUE(is_refused_copy({0, 1, 0, 0, 64}, 1)) << "there is one copy";
  EXPECT_TRUE(is_refused_copy({0, 1, 0, 0, 0})) << "of nothing";
  EXPECT_TRUE(is_refused_copy({0, 1, 1, 0, 64}));
  EXPECT_TRUE(is_refused_copy({0, 1, 0, 1, 64}));
  EXPECT_TRUE(is_refused_copy({1, 0, 0, 0, 64})) << "to an input";
  EXPECT_TRUE(is_refused_copy({1, 1, 0, 32, 32})) << "within a buffer";
  EXPECT_TRUE(is_refused_copy({3, 1, 0, 0, 64}));
  EXPECT_TRUE(is_refused_copy({0, 3, 0, 0, 64}));
}

TEST(BoundPlan, ScratchThatIsNotUsedHasNoPlaceAndNoUse) {
  const auto is_refused_scratch = [](auto change) {
    return is_refused([&](Plan& plan, PlanBinding& binding) {
      PlannedBuffer scratch = buffer_of(Role::kScratch);
      scratch.used = false;
      plan.buffers.push_back(scratch);
      binding.objects.push_back(0);
      binding.placement.places.emplace_back();
      change(plan, binding);
    });
  };
  EXPECT_FALSE(is_refused_scratch([](Plan&, PlanBinding&) {}));
  EXPECT_TRUE(is_refused_scratch([](Plan&, PlanBinding& b) { b.placement.places[3] = {0, 0}; }));
  EXPECT_TRUE(is_refused_scratch([](Plan& p, PlanBinding&) { p.launches[0].arguments[0].buffer = 3; }));
  EXPECT_TRUE(is_refused_scratch([](Plan& p, PlanBinding&) { p.fills[0].buffer = 3; }));
  EXPECT_TRUE(is_refused_scratch([](Plan& p, PlanBinding&) { p.repeats[0].swaps = {{1, 3}}; }));
  EXPECT_TRUE(is_refused_scratch([](Plan& p, PlanBinding&) { p.repeats[0].until->buffer = 3; }));
}

TEST(BoundPlan, StepsThatDoNotNestAreRefused) {
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.steps[0].end = 2; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.steps[0].end = 0; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.steps[1].end = 6; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.steps[2].kind = static_cast<Kind>(4); }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.steps[2] = {Kind::kRepeat, 0, 3, 0}; })) << "a repeat in itself";
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].rounds = 0; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].bodies = {1}; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].checks = {5}; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) { p.repeats[0].checks = {1}; }));
  EXPECT_TRUE(is_refused_plan([](Plan& p) {
    p.repeats[0].bodies = {2, 3}, p.repeats[0].checks = {3, 4};
  })) << "two variants of ten rounds";
  EXPECT_FALSE(is_refused_plan([](Plan& p) {
    p.repeats[0].rounds = 2;
    p.repeats[0].bodies = {2, 3}, p.repeats[0].checks = {3, 4};
  }));
}

TEST(BoundPlan, ALongListThatIsNotThereCostsNothing) {
  for (const uint32_t count : {uint32_t{4096}, ~uint32_t{0}}) {
    ByteWriter writer;
    writer.put(count);  // buffers, and none follows
    EXPECT_FALSE(decode_plan(writer.bytes()).ok());
  }
}

}  // namespace
}  // namespace quern::ipc
