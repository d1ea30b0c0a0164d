// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "function/plan_builder.h"
#include "function/plan_test.h"

namespace quern {
namespace {

using testing::HasSubstr;

constexpr const char* kLets = R"(
dims: {n: {default: 100, max: 1000}}
params:
  alpha: {dtype: fp32, default: 3}
  most: {dtype: int32, default: 2, min: 1, max: 4}
let:
  blocks: "ceil_div(n, 64)"
  padded: blocks * 64
  rounds: most - 1
  scale: 1 / sqrt(n)
  twice: scale * alpha
  half: n / 2
buffers:
  z: {role: output, dtype: fp32, shape: [padded]}
kernels:
  - repeat: {times: rounds, index: i}
    kernels:
      - {entry: k, global: [padded], args: [{inout: z}, {int32: blocks + i}, {fp32: twice}, {fp32: half}]}
)";

TEST(PlanLets, AreComputedOnceForAllThatNamesThem) {
  const auto plan = plan_of(kLets);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->buffers[0].shape, (Shape{128}));
  ASSERT_EQ(plan->launches.size(), 1u) << "rounds is most - 1";
  EXPECT_EQ(plan->launches[0].global[0], 128u);
  EXPECT_EQ(number_of(plan->launches[0].arguments[1].scalar.fixed), 2.0);
  EXPECT_EQ(number_of(plan->launches[0].arguments[3].scalar.fixed), 50.0) << "a let is whole if it can be";
}

TEST(PlanLets, OfParamsAreComputedForEachCall) {
  const Manifest manifest = manifest_with(kLets);
  CallSpec call;
  call.parameters = {{"n", int64_t{25}}, {"alpha", 10.0}};
  const auto binding = bind(manifest, call);
  ASSERT_TRUE(binding.ok()) << binding.error().text;
  const auto plan = make_plan(manifest, *binding);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->launches[0].arguments[2].scalar.slot, 0u);
  const auto scalars = scalars_of(manifest, *plan, *binding);
  ASSERT_EQ(scalars->size(), 1u);
  EXPECT_EQ(number_of(scalars->at(0)), 2.0) << "10 / sqrt(25)";
}

TEST(PlanLets, PutTheirParamsIntoTheKey) {
  const Manifest manifest = manifest_with(kLets);
  EXPECT_TRUE(manifest.param("most")->in_size);
  EXPECT_FALSE(manifest.param("alpha")->in_size);
  CallSpec call;
  const std::string key = plan_key(manifest, *bind(manifest, call));
  call.parameters = {{"alpha", 10.0}};
  EXPECT_EQ(plan_key(manifest, *bind(manifest, call)), key);
  call.parameters = {{"most", int64_t{3}}};
  EXPECT_NE(plan_key(manifest, *bind(manifest, call)), key);
}

TEST(PlanLets, ThatABindingLacksAreComputedByPlanning) {
  const Manifest manifest = manifest_with(kLets);
  Binding binding;
  binding.dims = {100};
  binding.params = {Scalar{Dtype::kFp32, 0}, Scalar{Dtype::kInt32, 3}};
  const auto plan = make_plan(manifest, binding);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->buffers[0].shape, (Shape{128}));
  EXPECT_TRUE(scalars_of(manifest, *plan, binding).ok());
}

TEST(PlanLets, WithoutAValueRefuseTheCallAndSayWhich) {
  const auto plan = plan_of(R"(
dims: {n: {default: 100, max: 1000}}
let: {m: n - 8, q: 64 / m}
buffers: {z: {role: output, dtype: fp32, shape: [n]}}
kernels: [{entry: k, global: [n], args: [{out: z}, {int32: q}]}]
)",
                            {{"n", int64_t{8}}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().text, "g: let 'q': '64 / m': divides by zero");
}

TEST(PlanLets, BelongToTheVersion) {
  const std::string parts = R"(
let: {m: 8}
buffers: {z: {role: output, dtype: fp32, shape: [m]}}
kernels: [{entry: k, global: [m], args: [{out: z}]}]
)";
  std::string other = parts;
  other.replace(other.find("8"), 1, "9");
  EXPECT_NE(version_of(manifest_with(parts), {}), version_of(manifest_with(other), {}));
}

}  // namespace
}  // namespace quern
