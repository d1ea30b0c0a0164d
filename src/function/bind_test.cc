// SPDX-License-Identifier: Apache-2.0
//
// Dims that a request binds where they do not stand alone; plan_test.cc has the rest of bind.
#include <gtest/gtest.h>

#include "function/plan_test.h"

namespace quern {
namespace {

// The dims of a call whose inputs have these shapes, or what is wrong with it.
std::string bound(const std::string& parts, const std::vector<Shape>& shapes,
                  std::map<std::string, ParameterValue> parameters = {}) {
  const Manifest manifest = manifest_with(parts + "kernels: [{entry: k, global: [1], args: [{out: z}]}]\n");
  CallSpec call;
  call.parameters = std::move(parameters);
  for (size_t i = 0, next = 0; i < manifest.buffers.size(); ++i)
    if (manifest.buffers[i].role == Role::kInput)
      call.inputs.push_back({manifest.buffers[i].name, Dtype::kFp32, shapes.at(next++)});
  const auto binding = bind(manifest, call);
  if (!binding.ok()) return binding.error().text;
  std::string text;
  for (size_t i = 0; i < manifest.dims.size(); ++i)
    text += (i ? " " : "") + manifest.dims[i].name + "=" + std::to_string(binding->dims[i]);
  return text;
}

constexpr const char* kEnds = R"(
dims: {n: {max: 100, min: 0}}
buffers:
  ends: {role: input, dtype: fp32, shape: [n + 1]}
  z: {role: output, dtype: fp32, shape: [1]}
)";

TEST(BindSolves, ADimInASum) {
  EXPECT_EQ(bound(kEnds, {{9}}), "n=8");
  EXPECT_EQ(bound(kEnds, {{1}}), "n=0");
  EXPECT_EQ(bound(kEnds, {{0}}), "g: dim 'n' is -1; send 0 to 100");
  EXPECT_EQ(bound(kEnds, {{102}}), "g: dim 'n' is 101; send 0 to 100");
  EXPECT_EQ(bound(kEnds, {{9}}, {{"n", int64_t{8}}}), "n=8") << "both may say it";
  EXPECT_EQ(bound(kEnds, {{9}}, {{"n", int64_t{7}}}),
            "g: input 'ends' has shape [9] but the function takes [n + 1], where n + 1 is 8");
}

TEST(BindSolves, ADimByWayOfAnotherInput) {
  constexpr const char* kTwo = R"(
dims: {n: {max: 100, default: 50}, m: {max: 100}, k: 4}
params: {p: {dtype: int32, default: 3, min: 1, max: 9}}
buffers:
  y: {role: input, dtype: fp32, shape: [m + 2 * n]}
  x: {role: input, dtype: fp32, shape: ["(n + p) * k"]}
  z: {role: output, dtype: fp32, shape: [1]}
)";
  EXPECT_EQ(bound(kTwo, {{30}, {40}}), "n=7 m=16 k=4") << "n is (40 / 4) - 3, and then m is 30 - 14";
  EXPECT_EQ(bound(kTwo, {{30}, {40}}, {{"p", int64_t{5}}}), "n=5 m=20 k=4");
  EXPECT_EQ(bound(kTwo, {{30}, {41}}),
            "g: input 'x' has shape [41] but the function takes [(n + p) * k]; no n makes '(n + p) * k' come to 41");
}

TEST(BindSolves, NothingElse) {
  constexpr const char* kHalf = R"(
dims: {n: {max: 100, default: 50}}
buffers:
  x: {role: input, dtype: fp32, shape: ["ceil_div(n, 2)"]}
  z: {role: output, dtype: fp32, shape: [1]}
)";
  EXPECT_EQ(bound(kHalf, {{25}}), "n=50");
EXPECT_EQ(bound(kHalf, {{20}}),
          "g: input 'x' has shape [20] but the function takes [ceil_div(n, 2)], where ceil_div(n, 2) is 25");
EXPECT_EQ(bound(kHalf, {{20}}, {{"n", int64_t{39}}}), "n=39");
}

}  // namespace
}  // namespace quern
