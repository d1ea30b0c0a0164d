// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "function/plan_builder.h"
#include "function/plan_test.h"

namespace quern {
namespace {

using Entries = std::vector<std::string>;

Entries entries_of(const Result<Plan>& plan) {
  if (!plan.ok()) return {plan.error().text};
  Entries entries;
  for (const PlannedLaunch& launch : plan->launches) entries.push_back(launch.entry);
  return entries;
}

constexpr const char* kTiles = R"(
dims: {m: {default: 8, max: 64}}
buffers:
  s: {role: scratch, dtype: fp32, shape: [m]}
  z: {role: output, dtype: fp32, shape: [m]}
kernels:
  - {entry: prepare, when: m >= 6, global: [m], args: [{out: s}]}
  - {entry: tall, when: m >= 6, global: [m], args: [{in: s}, {out: z}]}
  - {entry: flat, when: m < 6, global: [m], args: [{out: z}]}
)";

TEST(PlanWhen, ChoosesStepsByDims) {
  const auto tall = plan_of(kTiles);
  EXPECT_EQ(entries_of(tall), (Entries{"prepare", "tall"}));
  EXPECT_EQ(tall->in_place.bytes(), 256u);
  const auto flat = plan_of(kTiles, {{"m", int64_t{5}}});
  EXPECT_EQ(entries_of(flat), (Entries{"flat"}));
  EXPECT_EQ(flat->in_place.bytes(), 0u) << "scratch that no step uses needs no memory";
  EXPECT_EQ(flat->own.bytes(), 256u) << "the output alone";
  EXPECT_EQ(flat->peak_bytes, 0u);
}

TEST(PlanWhen, LeavesOutAllOfARepeat) {
  constexpr const char* kRepeat = R"(
dims: {m: {default: 8, max: 64}}
buffers: {z: {role: output, dtype: fp32, shape: [m]}}
kernels:
  - {entry: first, global: [m], args: [{out: z}]}
  - when: m > 8
    repeat: {times: 2}
    kernels: [{entry: round, global: [m], args: [{inout: z}]}, {fill: z, value: 1}]
  - {entry: last, global: [m], args: [{inout: z}]}
)";
  EXPECT_EQ(entries_of(plan_of(kRepeat)), (Entries{"first", "last"}));
  EXPECT_EQ(plan_of(kRepeat)->steps.size(), 2u);
  EXPECT_EQ(entries_of(plan_of(kRepeat, {{"m", int64_t{9}}})), (Entries{"first", "round", "last"}));
}

TEST(PlanWhen, MayDependOnTheRound) {
  const auto plan = plan_of(R"(
buffers: {z: {role: output, dtype: fp32, shape: [8], zero: true}}
kernels:
  - repeat: {times: 4, index: i}
    kernels:
      - {entry: even, when: i % 2 == 0, global: [8], args: [{inout: z}]}
      - {entry: odd, when: i % 2, global: [8], args: [{inout: z}]}
)");
  EXPECT_EQ(entries_of(plan), (Entries{"even", "odd", "even", "odd"}));
}

TEST(PlanWhen, ByAParamIsAnotherPlan) {
  constexpr const char* kSwitch = R"(
params: {is_last: {dtype: bool, default: false}}
buffers: {z: {role: output, dtype: fp32, shape: [8]}}
kernels:
  - {entry: k, global: [8], args: [{out: z}]}
  - {entry: end, when: is_last, global: [8], args: [{inout: z}]}
)";
  EXPECT_EQ(entries_of(plan_of(kSwitch)), (Entries{"k"}));
  EXPECT_EQ(entries_of(plan_of(kSwitch, {{"is_last", true}})), (Entries{"k", "end"}));
  EXPECT_TRUE(manifest_with(kSwitch).param("is_last")->in_size) << "the key of a plan has it";
}

TEST(PlanWhen, AnOutputThatNothingWritesIsAnError) {
  constexpr const char* kHole = R"(
dims: {m: {default: 8, max: 64}}
buffers: {z: {role: output, dtype: fp32, shape: [m]}, y: {role: scratch, dtype: fp32, shape: [m]}}
kernels:
  - {entry: k, when: m < 9, global: [m], args: [{out: z}]}
  - repeat: {times: 1, swap: [z, y]}
    kernels: [{entry: copy, when: m != 10, global: [m], args: [{in: z}, {out: y}]}]
)";
  EXPECT_EQ(entries_of(plan_of(kHole)), (Entries{"k", "copy"}));
  EXPECT_EQ(entries_of(plan_of(kHole, {{"m", int64_t{9}}})), (Entries{"copy"})) << "it is written as y";
  EXPECT_EQ(entries_of(plan_of(kHole, {{"m", int64_t{10}}})),
            (Entries{"g: no step that runs for these dims writes output 'z'; add one, or write zero: true"}));
}

TEST(PlanWhen, BelongsToTheVersion) {
  std::string text = kTiles;
  const std::string version = version_of(manifest_with(text), {});
  text.replace(text.find("m < 6"), 5, "m < 7");
  EXPECT_NE(version_of(manifest_with(text), {}), version);
}

}  // namespace
}  // namespace quern
