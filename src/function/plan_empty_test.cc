// SPDX-License-Identifier: Apache-2.0
//
// Buffers of one element without a shape, and buffers without elements: what has nothing to do is left out.
#include <gmock/gmock.h>

#include "function/plan_builder.h"
#include "function/plan_test.h"

namespace quern {
namespace {

using testing::HasSubstr;

// Squares, and their sum.
constexpr const char* kSquares = R"(
dims: {n: {default: 64, min: 0, max: 64}}
buffers:
  x: {role: input, dtype: fp32, shape: [n]}
  squares: {role: output, dtype: fp32, shape: [n]}
  sum: {role: output, dtype: fp32, shape: [], ZERO}
kernels:
  - {entry: square, global: [n], args: [{in: x}, {out: squares}]}
  - {entry: add, global: [n], args: [{in: squares}, {inout: sum}]}
)";

std::string squares(const std::string& zero) {
  std::string text = kSquares;
  return text.replace(text.find("ZERO"), 4, zero);
}

Result<Plan> plan_squares(const std::string& text, int64_t n) {
  const Manifest manifest = manifest_with(text);
  CallSpec call;
  call.inputs = {{"x", Dtype::kFp32, {n}}};
  const auto binding = bind(manifest, call);
  if (!binding.ok()) return binding.error();
  return make_plan(manifest, *binding);
}

TEST(PlanEmpty, ABufferWithoutSizesHasOneElement) {
  const auto plan = plan_squares(squares("zero: true"), 64);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_TRUE(plan->buffers[2].shape.empty());
  EXPECT_EQ(plan->buffers[2].size_bytes, 4u);
}

TEST(PlanEmpty, LaunchesAndFillsOfNothingAreLeftOut) {
  const auto plan = plan_squares(squares("zero: true"), 0);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_TRUE(plan->launches.empty());
  ASSERT_EQ(plan->fills.size(), 1u) << "the sum of nothing";
  EXPECT_EQ(plan->fills[0].buffer, 2u);
  EXPECT_EQ(plan->buffers[1].size_bytes, 0u);
  EXPECT_EQ(plan->memory_bytes, 4u);
  EXPECT_EQ(plan->own.places[1].arena, Placement::kElsewhere) << "nothing has no place";
}

TEST(PlanEmpty, AnOutputThatNoStepWritesIsAnError) {
  const auto plan = plan_squares(squares("zero: false"), 0);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().text, "g: no step that runs for these dims writes output 'sum'; add one, or write zero: true");
}

TEST(PlanEmpty, ADimThatMayNotBeZeroIsRefused) {
  std::string text = squares("zero: true");
  text.replace(text.find("min: 0"), 6, "min: 1");
  const auto plan = plan_squares(text, 0);
  EXPECT_EQ(plan.error().text, "g: dim 'n' is 0; send 1 to 64");
}

TEST(PlanEmpty, AViewWithoutElementsIsNotTheWholeBuffer) {
  const auto plan = plan_of(R"(
dims: {m: {default: 64, min: 0, max: 128}}
buffers: {z: {role: output, dtype: fp32, shape: [128]}}
kernels:
  - entry: split
    global: [128]
    args: [{out: z, offset: 0, count: m}, {out: z, offset: m, count: 128 - m}]
)",
                            {{"m", int64_t{0}}});
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  const auto& arguments = plan->launches[0].arguments;
  EXPECT_TRUE(arguments[0].is_view);
  EXPECT_EQ(arguments[0].size_bytes, 0u);
  EXPECT_EQ(arguments[1].size_bytes, 512u);
}

TEST(PlanEmpty, LocalSizesAreThoseOfAnyCall) {
  const Manifest manifest = manifest_with(R"(
dims: {n: {default: 64, min: 0, max: 64, multiple_of: 16}}
params: {steps: {dtype: int32, default: 2, min: 1, max: 4}}
buffers: {z: {role: output, dtype: fp32, shape: [n]}}
kernels: [{entry: k, global: [n], local: [1 << steps], args: [{out: z}]}]
)");
  const auto sizes = group_sizes_of(manifest);
  for (const uint64_t size : {4, 2, 16})
    EXPECT_NE(std::find(sizes.begin(), sizes.end(), (Size3{size, 1, 1})), sizes.end()) << size;
}

}  // namespace
}  // namespace quern
