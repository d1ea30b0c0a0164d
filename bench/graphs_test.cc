// SPDX-License-Identifier: Apache-2.0
#include "bench/graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace quern::bench {
namespace {

Plan plan_of(const Graph& graph, int64_t n = 64) {
  auto plan = make_plan(graph, binding_of(graph, n));
  EXPECT_TRUE(plan.ok()) << plan.error().text;
  return plan.ok() ? std::move(plan).value() : Plan{};
}

size_t count_of(const Graph& graph, std::string_view entry) {
  return static_cast<size_t>(std::count_if(graph.kernels.begin(), graph.kernels.end(),
                                           [&](const KernelDecl& kernel) { return kernel.entry == entry; }));
}

size_t count_of(const Graph& graph, Role role) {
  return static_cast<size_t>(std::count_if(graph.buffers.begin(), graph.buffers.end(),
                                           [&](const BufferDecl& buffer) { return buffer.role == role; }));
}

void expect_sound(const Plan& plan) {
  const Status in_place = check_placement(plan, plan.in_place), own = check_placement(plan, plan.own);
  EXPECT_TRUE(in_place.ok()) << in_place.error().text;
  EXPECT_TRUE(own.ok()) << own.error().text;
  EXPECT_LE(plan.peak_bytes, plan.in_place.bytes());
  EXPECT_LT(plan.in_place.bytes(), tensor_bytes(plan));
}

TEST(Graphs, ResnetHasTheTensorsOfItsLayers) {
  const Graph graph = resnet50();
  EXPECT_EQ(count_of(graph, "conv"), 53u);
  EXPECT_EQ(count_of(graph, "relu"), 49u);
  EXPECT_EQ(count_of(graph, "add"), 16u);
  EXPECT_EQ(graph.kernels.size(), 53u + 49 + 16 + 3);
  EXPECT_EQ(count_of(graph, Role::kInput), 1u);
  EXPECT_EQ(count_of(graph, Role::kOutput), 1u);
  EXPECT_EQ(count_of(graph, Role::kConstant), 54u);
  const Plan plan = plan_of(graph);
  EXPECT_NEAR(static_cast<double>(tensor_bytes(plan)), 105.8e6, 0.1e6);
  uint64_t weights = 0;
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.role == Role::kConstant) weights += buffer.size_bytes;
  EXPECT_NEAR(static_cast<double>(weights) / 4, 25.5e6, 0.1e6) << "25.56 million, less biases and normalization";
  expect_sound(plan);
}

TEST(Graphs, BertHasTheTensorsOfItsLayers) {
  const Graph graph = bert_base(128);
  EXPECT_EQ(count_of(graph, "product"), 12u * 6);
  EXPECT_EQ(count_of(graph, "norm"), 1u + 12 * 2);
  EXPECT_EQ(count_of(graph, "softmax"), 12u);
  EXPECT_EQ(count_of(graph, Role::kOutput), 2u);
  const Plan plan = plan_of(graph);
  // Of a layer 14 tensors are 128 x 768 floats, 3 are 12 x 128 x 128, 2 are 128 x 3072.
  const uint64_t row = 128 * 768 * 4, scores = 12 * 128 * 128 * 4;
  EXPECT_EQ(tensor_bytes(plan), 12 * (14 * row + 3 * scores + 2 * 4 * row) + 5 * row + 128 * 4 + 3 * 768 * 4);
  expect_sound(plan);
}

TEST(Graphs, MixedIsPlannedWhole) {
  for (const size_t size : {4u, 100u, 1000u}) {
    const Graph graph = mixed_graph(size);
    EXPECT_EQ(graph.kernels.size(), size);
    std::set<std::string> names;
    for (const BufferDecl& buffer : graph.buffers) EXPECT_TRUE(names.insert(buffer.name).second) << buffer.name;
    for (const int64_t n : {1, 64, 4096}) {
      const Plan plan = plan_of(graph, n);
      ASSERT_EQ(plan.launches.size(), size);
      expect_sound(plan);
    }
  }
}

TEST(Graphs, MixedHasALittleOfAll) {
  const Graph graph = mixed_graph(1000);
  const Plan plan = plan_of(graph);
  EXPECT_GT(count_of(graph, "inplace"), 50u);
  EXPECT_GT(count_of(graph, Role::kConstant), 250u);
  EXPECT_GT(plan.fills.size(), 20u);
  EXPECT_GT(plan.slots.size(), 100u);
  std::vector<size_t> reads(graph.buffers.size());
  size_t joins = 0;
  for (const PlannedLaunch& launch : plan.launches) {
    size_t read = 0;
    for (const PlannedArgument& argument : launch.arguments)
      if (argument.kind == ArgumentDecl::Kind::kBuffer && argument.access == Access::kIn)
        ++reads[argument.buffer], ++read;
    joins += read > 2;
  }
  EXPECT_GT(joins, 50u);
  EXPECT_GT(std::count_if(reads.begin(), reads.end(), [](size_t many) { return many > 1; }), 100) << "fan-out";
  const auto end = static_cast<uint32_t>(plan.steps.size() - 1);
  EXPECT_GE(std::count_if(plan.buffers.begin(), plan.buffers.end(),
                          [&](const PlannedBuffer& buffer) {
                            return buffer.role == Role::kScratch && buffer.last == end && buffer.first < 10;
                          }),
            4)
      << "through all of the graph";
  // Levels: every launch is deeper than whoever wrote what it reads.
  std::vector<uint32_t> written(plan.buffers.size());
  for (const PlannedStep& step : plan.steps) {
    if (step.kind != PlannedStep::Kind::kLaunch) continue;
    for (const PlannedArgument& argument : plan.launches[step.index].arguments)
      if (argument.kind == ArgumentDecl::Kind::kBuffer) {
        EXPECT_GT(step.level, written[argument.buffer]);
      }
    for (const PlannedArgument& argument : plan.launches[step.index].arguments)
      if (argument.kind == ArgumentDecl::Kind::kBuffer && argument.access != Access::kIn)
        written[argument.buffer] = step.level;
  }
}

TEST(Graphs, OverlapIsSeen) {
  Plan plan = plan_of(mixed_graph(100));
  std::vector<uint32_t> placed;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.in_place.places[i].arena != Placement::kElsewhere) placed.push_back(i);
  for (const uint32_t one : placed) plan.in_place.places[one].offset = 0;
  EXPECT_FALSE(check_placement(plan, plan.in_place).ok());
  plan.in_place.places[placed[0]].offset = uint64_t{1} << 40;
  EXPECT_FALSE(check_placement(plan, plan.in_place).ok());
}

}  // namespace
}  // namespace quern::bench
