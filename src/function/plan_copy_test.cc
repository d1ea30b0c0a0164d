// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "function/plan_test.h"

namespace quern {
namespace {

constexpr const char* kCopies = R"(
dims: {n: {default: 64, min: 0, max: 64}}
buffers:
  x: {role: output, dtype: fp32, shape: [64]}
  one: {role: scratch, dtype: fp32, shape: [64]}
  two: {role: scratch, dtype: fp32, shape: [64]}
  z: {role: output, dtype: fp32, shape: [128]}
kernels:
  - {fill: x, value: 1}
  - {copy: x, to: one}
  - {copy: one, to: z, count: n}
  - {copy: one, to: two}
  - {copy: two, to: z, offset: 64 - n, at: 64, count: n}
)";

TEST(PlanCopy, IsAStepWithItsPlaceInBytes) {
  const auto plan = plan_of(kCopies, {{"n", int64_t{48}}});
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  ASSERT_EQ(plan->copies.size(), 4u);
  EXPECT_EQ(plan->steps[1].kind, PlannedStep::Kind::kCopy);
  EXPECT_EQ(plan->copies[0].size_bytes, 256u);
  EXPECT_EQ(plan->copies[3].from, 2u);
  EXPECT_EQ(plan->copies[3].to, 3u);
  EXPECT_EQ(plan->copies[3].from_offset, 64u);
  EXPECT_EQ(plan->copies[3].to_offset, 256u);
  EXPECT_EQ(plan->copies[3].size_bytes, 192u);
}

TEST(PlanCopy, OrdersStepsAndMemoryAsAKernelDoes) {
  const auto plan = plan_of(kCopies);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  std::vector<uint32_t> levels;
  for (const PlannedStep& step : plan->steps) levels.push_back(step.level);
  EXPECT_EQ(levels, (std::vector<uint32_t>{1, 2, 3, 3, 4}));
  EXPECT_EQ(plan->buffers[1].first, 1u);
  EXPECT_EQ(plan->buffers[1].last, 3u);
  EXPECT_EQ(plan->buffers[2].first, 3u) << "all of it is written before it is read";
}

TEST(PlanCopy, OfNothingIsLeftOut) {
  const auto plan = plan_of(kCopies, {{"n", int64_t{0}}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().text, "g: no step that runs for these dims writes output 'z'; add one, or write zero: true");
}

TEST(PlanCopy, ARangeThatIsNotThereIsAnError) {
  constexpr const char* kRange = R"(
dims: {from: {default: 0, min: 0, max: 1000}, n: {default: 64, max: 1000}}
buffers: {x: {role: input, dtype: fp32, shape: [64]}, z: {role: output, dtype: fp32, shape: [64], zero: true}}
kernels: [{copy: x, to: z, offset: from, count: n}]
)";
  EXPECT_TRUE(plan_of(kRange).ok());
  EXPECT_EQ(plan_of(kRange, {{"from", int64_t{1}}}).error().text,
            "g: copy to 'z': 64 elements from 1 on of 'x', which has 64, do not go to 0 of 'z', which has 64");
  EXPECT_FALSE(plan_of(kRange, {{"from", int64_t{65}}, {"n", int64_t{1}}}).ok());
}

TEST(PlanCopy, BelongsToTheVersion) {
  std::string text = kCopies;
  const std::string version = version_of(manifest_with(text), {});
  text.replace(text.find("at: 64"), 6, "at: 63");
  EXPECT_NE(version_of(manifest_with(text), {}), version);
}

}  // namespace
}  // namespace quern
