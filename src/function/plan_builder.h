// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "function/plan.h"

namespace quern {

/// What the dims and params of one binding stand for. The three must outlive what evaluates with it.
std::optional<Number> value_in(const Graph& graph, const Binding& binding, std::string_view name);

/// Computes the lets of a binding whose dims and params are there, or were changed. kInvalid names the let; those
/// before it are computed.
Status compute_lets(const Graph& graph, Binding& binding);

/// Which part of a graph an error is about: a message of a deploy has a line for each.
struct PlanPlace {
  const LetDecl* let = nullptr;
  const BufferDecl* buffer = nullptr;
  const KernelDecl* kernel = nullptr;
  const FillDecl* fill = nullptr;
  const CopyDecl* copy = nullptr;
  const RepeatDecl* repeat = nullptr;
};

/// make_plan and scalars_of that also say where; `place` is set on errors only.
Result<Plan> build_plan(const Graph& graph, const Binding& binding, const PlanLimits& limits, PlanPlace& place);
Result<std::vector<Scalar>> build_scalars(const Graph& graph, const Plan& plan, const Binding& binding,
                                          PlanPlace& place);

/// The steps of plan.cc, each in a file of its own.
Result<PlannedBuffer> plan_buffer(const Graph& graph, const BufferDecl& decl, const Names& names);
Status plan_sizes(const Graph& graph, const KernelDecl& kernel, const Names& names, PlannedLaunch& launch);
/// Whether a launch of these sizes executes anything.
bool has_work(const PlannedLaunch& launch);
/// Launches, fills and repeats of all steps, in order.
Status plan_steps(const Graph& graph, const Binding& binding, Plan& plan, PlanPlace& place);
/// Levels, lifetimes and places.
Status plan_memory(const Graph& graph, const PlanLimits& limits, Plan& plan, PlanPlace& place);

/// Names that stand for dims, params and the numbers of the rounds around a step.
Names names_in(const Graph& graph, const Binding& binding,
               const std::vector<std::pair<uint32_t, int64_t>>* rounds = nullptr);

/// One value of every dim and param within its bounds.
enum class Corner : uint8_t { kSmallest, kDefault, kLargest };
/// `kDefault` takes the smallest value where there is no default; a param without bounds has its default or 0. Lets are
/// there as far as they have a value.
Binding corner_of(const Graph& graph, Corner corner);

}  // namespace quern
