// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "function/plan.h"

namespace quern {

/// What the dims and params of one binding stand for. The three must outlive what evaluates with it.
std::optional<Number> value_in(const Manifest& manifest, const Binding& binding, std::string_view name);

/// Which part of a manifest an error is about: a message of a deploy has a line for each.
struct PlanPlace {
  const BufferDecl* buffer = nullptr;
  const KernelDecl* kernel = nullptr;
};

/// make_plan and scalars_of that also say where; `place` is set on errors only.
Result<Plan> build_plan(const Manifest& manifest, const Binding& binding, PlanPlace& place);
Result<std::vector<Scalar>> build_scalars(const Manifest& manifest, const Binding& binding, PlanPlace& place);

/// One value of every dim and param within its bounds.
enum class Corner : uint8_t { kSmallest, kDefault, kLargest };
/// `kDefault` takes the smallest value where there is no default; a param without bounds has its default or 0.
Binding corner_of(const Manifest& manifest, Corner corner);

}  // namespace quern
