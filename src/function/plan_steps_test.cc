// SPDX-License-Identifier: Apache-2.0
//
// Repeats, fills and views: how they are planned, and which memory they get.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "function/plan_builder.h"
#include "function/plan_test.h"

namespace quern {
namespace {

using testing::HasSubstr;
using Kind = PlannedStep::Kind;

std::vector<int64_t> scalars_at(const Plan& plan, size_t argument) {
  std::vector<int64_t> values;
  for (const PlannedLaunch& launch : plan.launches)
    values.push_back(static_cast<int32_t>(launch.arguments[argument].scalar.fixed.bits));
  return values;
}

constexpr const char* kBuffers = R"(
buffers:
  x: {role: output, dtype: fp32, shape: [64]}
  y: {role: scratch, dtype: fp32, shape: [64]}
  e: {role: scratch, dtype: fp32, shape: [1]}
)";

TEST(PlanSteps, RoundsThatAreAlikeStandOnce) {
  const auto plan = plan_of(std::string(kBuffers) + R"(
kernels:
  - {fill: x, value: 1}
  - repeat: {times: 1000000, swap: [x, y]}
    kernels: [{entry: k, global: [64], args: [{in: x}, {out: y}]}]
)");
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  ASSERT_EQ(plan->steps.size(), 3u);
  EXPECT_EQ(plan->steps[1].kind, Kind::kRepeat);
  EXPECT_EQ(plan->steps[1].end, 3u);
  EXPECT_EQ(plan->repeats[0].rounds, 1000000u);
  EXPECT_EQ(plan->repeats[0].bodies, (std::vector<uint32_t>{2}));
  EXPECT_EQ(plan->repeats[0].swaps, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 1}}));
  EXPECT_EQ(plan->launches.size(), 1u);
}

TEST(PlanSteps, RoundsThatUseTheirIndexAreWrittenOut) {
  const auto plan = plan_of(std::string(kBuffers) + R"(
kernels:
  - repeat: {times: 3, index: i}
    kernels:
      - repeat: {times: i + 1, index: j}
        kernels: [{entry: k, global: [64 >> i], args: [{out: x}, {int32: 10 * i + j}]}]
)");
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(scalars_at(*plan, 1), (std::vector<int64_t>{0, 10, 11, 20, 21, 22}));
  EXPECT_EQ(plan->launches[5].global[0], 16u);
  EXPECT_EQ(plan->repeats[0].bodies.size(), 3u);
}

TEST(PlanSteps, TooManyDifferentRoundsAreRefused) {
  const std::string text = std::string(kBuffers) + R"(
params: {many: {dtype: int32, default: 2, min: 0, max: 100000}}
kernels:
  - {fill: x, value: 0}
  - repeat: {times: many, index: i}
    kernels: [{entry: k, global: [64], args: [{inout: x}, {int32: i}]}]
)";
  EXPECT_TRUE(plan_of(text).ok());
  EXPECT_THAT(plan_of(text, {{"many", int64_t{70000}}}).error().text, HasSubstr("more than 65536 kernels"));
  const auto none = plan_of(text, {{"many", int64_t{0}}});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->launches.empty());
}

TEST(PlanSteps, ScalarsOfParamsAreSlotsAndOthersAreFixed) {
  const std::string text = std::string(kBuffers) + R"(
params: {a: {dtype: fp32, default: 2}}
kernels:
  - repeat: {times: 2, index: i}
    kernels: [{entry: k, global: [64], args: [{out: x}, {fp32: a * (i + 1)}, {int32: i}]}]
)";
  const Manifest manifest = manifest_with(text);
  const Binding binding = corner_of(manifest, Corner::kDefault);
  const auto plan = make_plan(manifest, binding);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->slots.size(), 2u);
  const auto scalars = scalars_of(manifest, *plan, binding);
  ASSERT_TRUE(scalars.ok());
  EXPECT_EQ(number_of((*scalars)[0]), 2);
  EXPECT_EQ(number_of((*scalars)[1]), 4);
  EXPECT_EQ(scalars_at(*plan, 2), (std::vector<int64_t>{0, 1}));
}

TEST(PlanSteps, UntilKnowsItsElement) {
  const std::string text = std::string(kBuffers) + R"(
params: {eps: {dtype: fp32, default: 0.5}}
kernels:
  - repeat:
      at_most: 100
      name: outer
      until:
        {every: 5, check: [{entry: norm, global: [1], args: [{in: x}, {out: e}]}], buffer: y, element: 3, above: eps}
    kernels: [{entry: k, global: [64], args: [{out: x}, {out: y}]}]
)";
  const auto plan = plan_of(text);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  const PlannedRepeat& repeat = plan->repeats[0];
  ASSERT_TRUE(repeat.until.has_value());
  EXPECT_EQ(repeat.until->offset_bytes, 12u);
  EXPECT_EQ(repeat.until->every, 5u);
  EXPECT_EQ(repeat.until->compare, UntilDecl::Compare::kAbove);
  EXPECT_EQ(repeat.checks[0] - repeat.bodies[0], 1u);
  EXPECT_EQ(plan->reported, (std::vector<uint32_t>{0}));
  EXPECT_EQ(plan->slots[0].dtype, Dtype::kFp64);
}

// The bound of an `until` that looks at whole numbers is a whole number where that gives the same number as fp64 does.
TEST(PlanSteps, ABoundOfWholeElementsIsWhole) {
  const auto bound = [](const std::string& element, const std::string& value) {
    const std::string text = R"(
dims: {n: {default: 65, min: 1, max: 1000}}
params: {eps: {dtype: fp32, default: 0.5, min: 0.5, max: 0.5}, u: {dtype: uint64, default: 9223372036854775809}}
buffers: {x: {role: output, dtype: )" +
                             element +
                             R"(, shape: [4], zero: true}, y: {role: output, dtype: fp32, shape: [n]}}
kernels:
  - repeat: {at_most: 9, until: {buffer: x, above: )" +
                             value + R"(}}
    kernels: [{entry: k, global: [1], args: [{inout: x}, {out: y}, {fp32: eps}, {uint64: u}]}]
)";
    const Manifest manifest = manifest_with(text);
    const Binding binding = corner_of(manifest, Corner::kDefault);
    const auto plan = make_plan(manifest, binding);
    if (!plan.ok()) return plan.error().text;
    const PlannedScalar& planned = plan->repeats[0].until->value;
    if (planned.slot == PlannedScalar::kFixed)
      return fmt::format("{} {}", name_of(planned.fixed.dtype), text_of(planned.fixed));
    const auto scalars = scalars_of(manifest, *plan, binding);
    if (!scalars.ok()) return scalars.error().text;
    const Scalar scalar = (*scalars)[planned.slot];
    return fmt::format("{} {}", name_of(scalar.dtype), text_of(scalar));
  };
  EXPECT_EQ(bound("int64", "9007199254740993"), "int64 9007199254740993");
  EXPECT_EQ(bound("uint8", "n * 2"), "int64 130");
  EXPECT_EQ(bound("uint64", "u"), "uint64 9223372036854775809");
  EXPECT_EQ(bound("int64", "n / 2"), "fp64 32.5") << "a division was always a true one";
  EXPECT_EQ(bound("int64", "2.5"), "fp64 2.5");
  EXPECT_EQ(bound("int64", "eps"), "fp64 0.5");
  EXPECT_EQ(bound("fp32", "n"), "fp64 65");
}

TEST(PlanSteps, ViewsMustFitAndBeApart) {
  const auto problem = [&](const std::string& args, int64_t at) {
    const std::string text = R"(
buffers: {x: {role: output, dtype: fp32, shape: [256]}, b: {role: input, dtype: fp32, shape: [64]}}
params: {at: {dtype: int32, default: 64, min: 0, max: 1000}}
kernels: [{entry: k, global: [1], args: )" +
                             args + "}]\n";
    const auto plan = plan_of(text, {{"at", at}});
    return plan.ok() ? "" : plan.error().text;
  };
  EXPECT_EQ(problem("[{out: x, offset: at, count: 64}]", 192), "");
  EXPECT_THAT(problem("[{out: x, offset: at, count: 64}]", 65), HasSubstr("multiples of 256 bytes"));
  EXPECT_THAT(problem("[{out: x, offset: at, count: 64}]", 256), HasSubstr("the buffer has 256 elements"));
  EXPECT_THAT(problem("[{out: x, offset: 0, count: at}]", 0), HasSubstr("count 0"));
  const std::string two = "[{out: x, offset: 0, count: at}, {in: x, offset: 64, count: 64}]";
  EXPECT_EQ(problem(two, 64), "");
  EXPECT_THAT(problem(two, 65), HasSubstr("overlap"));
  EXPECT_EQ(
      problem("[{in: x, offset: 0, count: at}, {in: x, offset: 64, count: 64}, {out: x, offset: 192, count: 64}]", 65),
      "");
}

TEST(PlanMemory, ScratchThatIsNeverLiveTogetherShares) {
  std::string text = "buffers:\n  z: {role: output, dtype: uint8, shape: [1000]}\n";
  for (int i = 0; i < 20; ++i) text += "  s" + std::to_string(i) + ": {role: scratch, dtype: uint8, shape: [1000]}\n";
  text += "kernels:\n  - {entry: k, global: [1], args: [{out: s0}]}\n";
  for (int i = 1; i < 20; ++i)
    text += "  - {entry: k, global: [1], args: [{in: s" + std::to_string(i - 1) + "}, {out: s" + std::to_string(i) +
            "}]}\n";
  text += "  - {entry: k, global: [1], args: [{in: s19}, {out: z}]}\n";
  const auto plan = plan_of(text);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->in_place.bytes(), 2048u);
  EXPECT_EQ(plan->peak_bytes, 2000u);
  EXPECT_EQ(plan->memory_bytes, 3048u);
  EXPECT_EQ(plan->own.bytes(), 2048u) << "the output takes the place of one that is over";
  EXPECT_EQ(plan->steps.back().level, 21u);
}

TEST(PlanMemory, ArenasObeyTheLargestAllocation) {
  const Manifest manifest = manifest_with(R"(
buffers:
  z: {role: output, dtype: uint8, shape: [1]}
  a: {role: scratch, dtype: uint8, shape: [1000]}
  b: {role: scratch, dtype: uint8, shape: [1000]}
  c: {role: scratch, dtype: uint8, shape: [1000]}
kernels:
  - {entry: k, global: [1], args: [{out: a}, {out: b}, {out: c}, {out: z}]}
)");
  const auto plan = make_plan(manifest, corner_of(manifest, Corner::kDefault),
                              {.alignment_bytes = 4096, .max_allocation_bytes = 8192});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->in_place.arenas, (std::vector<uint64_t>{8192, 4096}));
  EXPECT_EQ(plan->in_place.places[2].offset, 4096u);
}

// What a round leaves for the next must not be overwritten by what lives only within a round.
TEST(PlanMemory, WhatGoesFromRoundToRoundLivesThroughAll) {
  const auto plan = plan_of(R"(
buffers:
  z: {role: output, dtype: uint8, shape: [1000]}
  kept: {role: scratch, dtype: uint8, shape: [1000]}
  brief: {role: scratch, dtype: uint8, shape: [1000]}
  late: {role: scratch, dtype: uint8, shape: [1000]}
kernels:
  - {fill: kept, value: 0}
  - repeat: {times: 5}
    kernels:
      - {entry: a, global: [1], args: [{inout: kept}]}
      - {entry: b, global: [1], args: [{out: brief}]}
      - {entry: c, global: [1], args: [{in: brief}, {out: late}]}
      - {entry: d, global: [1], args: [{in: late}, {inout: kept}]}
  - {entry: e, global: [1], args: [{in: kept}, {out: z}]}
)");
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->buffers[1].first, 0u);
  EXPECT_GE(plan->buffers[1].last, 5u);
  EXPECT_EQ(plan->in_place.bytes(), 3 * 1024u);
  EXPECT_NE(plan->in_place.places[1].offset, plan->in_place.places[2].offset);
  EXPECT_NE(plan->in_place.places[1].offset, plan->in_place.places[3].offset);
}

// An output that was swapped may lie in its partner's memory at the end: nobody else may have that.
TEST(PlanMemory, ThePartnerOfASwappedOutputLivesToTheEnd) {
  const auto plan = plan_of(R"(
buffers:
  x: {role: output, dtype: uint8, shape: [1000]}
  y: {role: scratch, dtype: uint8, shape: [1000]}
  t: {role: scratch, dtype: uint8, shape: [1000]}
  z: {role: output, dtype: uint8, shape: [1000]}
kernels:
  - {fill: x, value: 0}
  - repeat: {times: 3, swap: [x, y]}
    kernels: [{entry: a, global: [1], args: [{in: x}, {out: y}]}]
  - {entry: b, global: [1], args: [{out: t}]}
  - {entry: c, global: [1], args: [{in: t}, {out: z}]}
)");
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->in_place.bytes(), 2 * 1024u);
  EXPECT_NE(plan->in_place.places[1].offset, plan->in_place.places[2].offset);
}

}  // namespace
}  // namespace quern
