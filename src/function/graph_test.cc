// SPDX-License-Identifier: Apache-2.0
#include "function/graph.h"

#include <gtest/gtest.h>

#include "function/plan.h"
#include "function/signature.h"

namespace quern {
namespace {

// What a front end other than the reader of function.yaml makes: y = 2 x, then z = y in place.
Graph doubled() {
  const auto buffer = [](std::string name, Role role) {
    BufferDecl decl;
    decl.name = std::move(name);
    decl.role = role;
    decl.shape = {Expression::parse("n").value(), Expression::constant(4)};
    return decl;
  };
  const auto argument = [](uint32_t buffer, Access access) {
    ArgumentDecl decl;
    decl.buffer = buffer;
    decl.access = access;
    return decl;
  };
  const auto kernel = [](std::string entry, std::vector<ArgumentDecl> arguments) {
    KernelDecl decl;
    decl.entry = std::move(entry);
    decl.global = {Expression::parse("4 * n").value()};
    decl.arguments = std::move(arguments);
    return decl;
  };
  Graph graph;
  graph.name = "doubled";
  graph.dims.push_back({.name = "n", .fixed = false, .value = 2, .min = 1, .max = 8});
  graph.buffers = {buffer("x", Role::kInput), buffer("z", Role::kOutput)};
  graph.kernels = {kernel("twice", {argument(0, Access::kIn), argument(1, Access::kOut)}),
                   kernel("keep", {argument(1, Access::kInout)})};
  graph.steps = {{StepDecl::Kind::kKernel, 0}, {StepDecl::Kind::kKernel, 1}};
  return graph;
}

TEST(Graph, IsBoundAndPlannedWithoutAManifest) {
  const Graph graph = doubled();
  CallSpec call;
  call.inputs = {{"x", Dtype::kFp32, {3, 4}}};
  const auto binding = bind(graph, call);
  ASSERT_TRUE(binding.ok()) << binding.error().text;
  const auto plan = make_plan(graph, *binding);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  ASSERT_EQ(plan->launches.size(), 2u);
  EXPECT_EQ(plan->launches[0].global[0], 12u);
  EXPECT_EQ(plan->buffers[1].size_bytes, 48u);
  EXPECT_EQ(plan->steps[1].level, 2u) << "the second kernel reads what the first one wrote";
}

TEST(Graph, ProblemsOfItsKernelsNameThemByIndex) {
  const std::vector<ProgramSignatures> signatures = {
      {{"twice", {{"x", "float*", 'g', true}, {"z", "float*", 'g', false}}}}};
  const auto problems = check_signatures(doubled(), signatures);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kernel, 1u);
  EXPECT_FALSE(problems[0].is_warning);
  EXPECT_EQ(problems[0].text, "kernel 'keep' is not in the program; it has twice");
}

}  // namespace
}  // namespace quern
