// SPDX-License-Identifier: Apache-2.0
#include "function/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "function/plan_builder.h"

namespace quern {
namespace {

constexpr uint64_t kLargestLocal = uint64_t{1} << 16;
constexpr uint64_t kPickedLocal = 64;

std::string kernel_text(const Graph& graph, const KernelDecl& kernel) {
  return fmt::format("{}: kernel '{}'", graph.name, kernel.entry);
}

// The names of `expression` are the same for every request.
bool is_fixed(const Graph& graph, const Expression& expression) {
  bool all_fixed = true;
  each_dependency(graph, expression, [&](const std::string& name) {
    const DimDecl* dim = graph.dim(name);
    all_fixed = all_fixed && dim && dim->fixed;
  });
  return all_fixed;
}

}  // namespace

Result<PlannedBuffer> plan_buffer(const Graph& graph, const BufferDecl& decl, const Names& names) {
  PlannedBuffer buffer;
  buffer.role = decl.role;
  buffer.dtype = decl.dtype;
  buffer.size_bytes = size_of(decl.dtype);
  buffer.shape.reserve(decl.shape.size());
  auto problem = [&](std::string_view what) {
    return invalid(fmt::format("{}: {} '{}': {}", graph.name, name_of(decl.role), decl.name, what));
  };
  for (const Expression& expression : decl.shape) {
    auto size = expression.whole(names);
    if (!size.ok()) return problem(size.error().text);
    if (*size < 0)
      return problem(fmt::format("its shape has {} for '{}'; sizes are not negative", *size, expression.text()));
    buffer.shape.push_back(*size);
    if (__builtin_mul_overflow(buffer.size_bytes, static_cast<uint64_t>(*size), &buffer.size_bytes) ||
        buffer.size_bytes > kMostBufferBytes)
      return problem(fmt::format("it is larger than {} bytes; make a dim smaller", kMostBufferBytes));
  }
  return buffer;
}

Status plan_sizes(const Graph& graph, const KernelDecl& kernel, const Names& names, PlannedLaunch& launch) {
  launch.dimensions = static_cast<uint32_t>(kernel.global.size());
  auto problem = [&](std::string_view what) {
    return invalid(fmt::format("{}: {}", kernel_text(graph, kernel), what));
  };
  if (kernel.global.empty() || kernel.global.size() > 3 ||
      (!kernel.local.empty() && kernel.local.size() != kernel.global.size()))
    return problem("global has 1 to 3 sizes, and local as many");
  uint64_t items = 1;
  for (size_t i = 0; i < kernel.global.size(); ++i) {
    auto size = kernel.global[i].whole(names);
    if (!size.ok()) return problem(size.error().text);
    if (*size < 0)
      return problem(
          fmt::format("its global size '{}' is {}; it must not be negative", kernel.global[i].text(), *size));
    launch.global[i] = static_cast<uint64_t>(*size);
    if (launch.global[i] != 0 && (__builtin_mul_overflow(items, launch.global[i], &items) || items >> 62 != 0))
      return problem("its global size does not fit 62 bits");
  }
  if (kernel.local.empty()) {
    // Left out: Quern picks where that is one size for all requests, so that it can be compiled ahead; else the
    // driver does, with code for any size.
    if (is_fixed(graph, kernel.global[0]))
      launch.local = {std::min(kPickedLocal, launch.global[0] & (~launch.global[0] + 1)), 1, 1};
    return {};
  }
  launch.local = {1, 1, 1};
  for (size_t i = 0; i < kernel.local.size(); ++i) {
    auto size = kernel.local[i].whole(names);
    if (!size.ok()) return problem(size.error().text);
    if (*size < 1 || static_cast<uint64_t>(*size) > kLargestLocal)
      return problem(
          fmt::format("its local size '{}' is {}; it must be 1 to {}", kernel.local[i].text(), *size, kLargestLocal));
    launch.local[i] = static_cast<uint64_t>(*size);
    if (launch.global[i] % launch.local[i] != 0)
      return problem(
          fmt::format("its local size {} does not divide its global size {}; write global: "
                      "[\"round_up({}, {})\"] and test the id in the kernel",
                      launch.local[i], launch.global[i], kernel.global[i].text(), kernel.local[i].text()));
  }
  return {};
}

bool has_work(const PlannedLaunch& launch) {
  return std::find(launch.global.begin(), launch.global.end(), 0U) == launch.global.end();
}

std::optional<Number> value_in(const Graph& graph, const Binding& binding, std::string_view name) {
  for (size_t i = 0; i < graph.dims.size(); ++i)
    if (graph.dims[i].name == name) return Number(binding.dims[i]);
  for (size_t i = 0; i < graph.params.size(); ++i) {
    if (graph.params[i].name != name) continue;
    const Scalar value = binding.params[i];
    if (is_float(value.dtype)) return Number(number_of(value));
    switch (value.dtype) {
      case Dtype::kInt8:
        return Number(int64_t{static_cast<int8_t>(value.bits)});
      case Dtype::kInt16:
        return Number(int64_t{static_cast<int16_t>(value.bits)});
      case Dtype::kInt32:
        return Number(int64_t{static_cast<int32_t>(value.bits)});
      default:
        break;
    }
    if (value.dtype == Dtype::kUint64 && value.bits >> 63 != 0) return Number(value.bits);  // whole() refuses it
    return Number(static_cast<int64_t>(value.bits));
  }
  for (size_t i = 0; i < binding.lets.size() && i < graph.lets.size(); ++i)
    if (graph.lets[i].name == name) return binding.lets[i];
  return std::nullopt;
}

Status compute_lets(const Graph& graph, Binding& binding) {
  binding.lets.clear();
  for (const LetDecl& let : graph.lets) {
    const Names names = names_in(graph, binding);
    const auto add = [&](const auto& value) -> Status {
      if (!value.ok()) return invalid(fmt::format("{}: let '{}': {}", graph.name, let.name, value.error().text));
      binding.lets.emplace_back(*value);
      return {};
    };
    QUERN_TRY(let.is_real ? add(let.value.real(names)) : add(let.value.whole(names)));
  }
  return {};
}

std::string show_shape(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

Names names_in(const Graph& graph, const Binding& binding, const std::vector<std::pair<uint32_t, int64_t>>* rounds) {
  return [&graph, &binding, rounds](std::string_view name) -> std::optional<Number> {
    if (rounds)
      for (const auto& [repeat, round] : *rounds)
        if (graph.repeats[repeat].index == name) return Number(round);
    return value_in(graph, binding, name);
  };
}

Result<Plan> build_plan(const Graph& graph, const Binding& binding, const PlanLimits& limits, PlanPlace& place) {
  if (binding.dims.size() != graph.dims.size() || binding.params.size() != graph.params.size())
    return internal(fmt::format("{}: the binding is of another graph", graph.name));
  if (binding.lets.size() < graph.lets.size()) {
    Binding whole = binding;
    const Status computed = compute_lets(graph, whole);
    if (computed.ok()) return build_plan(graph, whole, limits, place);
    place = {.let = &graph.lets[whole.lets.size()]};
    return computed.error();
  }
  const Names names = names_in(graph, binding);
  Plan plan;
  plan.buffers.reserve(graph.buffers.size());
  for (const BufferDecl& decl : graph.buffers) {
    place = {.buffer = &decl};
    QUERN_TRY(PlannedBuffer buffer, plan_buffer(graph, decl, names));
    plan.buffers.push_back(std::move(buffer));
  }
  QUERN_TRY(plan_steps(graph, binding, plan, place));
  place = {};
  QUERN_TRY(plan_memory(graph, limits, plan, place));
  return plan;
}

Result<Plan> make_plan(const Graph& graph, const Binding& binding, const PlanLimits& limits) {
  PlanPlace place;
  return build_plan(graph, binding, limits, place);
}

Result<std::vector<Scalar>> scalars_of(const Graph& graph, const Plan& plan, const Binding& binding) {
  PlanPlace place;
  return build_scalars(graph, plan, binding, place);
}

std::string plan_key(const Graph& graph, const Binding& binding) {
  // Dims and params stand in the order of the graph and are 8 bytes each: no separators are needed.
  std::string key;
  key.reserve(8 * (binding.dims.size() + binding.params.size()));
  auto put = [&key](auto value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (size_t i = 0; i < binding.dims.size() && i < graph.dims.size(); ++i)
    if (!graph.dims[i].fixed) put(binding.dims[i]);
  for (size_t i = 0; i < binding.params.size() && i < graph.params.size(); ++i)
    if (graph.params[i].in_size) put(binding.params[i].bits);
  return key;
}

Binding corner_of(const Graph& graph, Corner corner) {
  Binding binding;
  for (const DimDecl& dim : graph.dims) {
    const int64_t step = dim.multiple_of;
    const int64_t smallest = (dim.min + step - 1) / step * step, largest = dim.max / step * step;
    if (dim.fixed)
      binding.dims.push_back(dim.value.value_or(1));
    else if (corner == Corner::kLargest)
      binding.dims.push_back(largest);
    else
      binding.dims.push_back(corner == Corner::kDefault ? dim.value.value_or(smallest) : smallest);
  }
  for (const ParamDecl& param : graph.params) {
    const auto& bound = corner == Corner::kLargest ? param.max : param.min;
    std::optional<Scalar> value = param.value;
    if (bound && (corner != Corner::kDefault || !value))
      value = std::visit([&](auto number) { return scalar_of(param.dtype, number); }, *bound);
    binding.params.push_back(value.value_or(Scalar{param.dtype, 0}));
  }
  (void)compute_lets(graph, binding);  // whoever plans it is told what has no value
  return binding;
}

std::vector<Size3> group_sizes_of(const Graph& graph, uint32_t program) {
  constexpr size_t kMostGroupSizes = 16;  // each is compiled for every kernel: about 100 ms apiece
  std::vector<Size3> sizes;
  for (Corner corner : {Corner::kDefault, Corner::kSmallest, Corner::kLargest}) {
    const Binding binding = corner_of(graph, corner);
    const Names names = names_in(graph, binding);
    for (const KernelDecl& kernel : graph.kernels) {
      if (kernel.program != program) continue;
      PlannedLaunch launch;
      // What this corner cannot launch, it need not compile.
      if (!plan_sizes(graph, kernel, names, launch).ok() || launch.local[0] == 0) continue;
      if (sizes.size() < kMostGroupSizes && std::find(sizes.begin(), sizes.end(), launch.local) == sizes.end())
        sizes.push_back(launch.local);
    }
  }
  return sizes;
}

uint64_t most_groups(const PlannedLaunch& launch) {
  uint64_t most = 1;
  for (size_t i = 0; i < 3; ++i)
    if (launch.local[i] != 0) most = std::max(most, launch.global[i] / launch.local[i]);
  return most;
}

uint64_t footprint_of(const Plan& plan) {
  const auto room = [](const auto& items) { return uint64_t{items.capacity()} * sizeof(items[0]); };
  uint64_t bytes = sizeof plan + room(plan.buffers) + room(plan.steps) + room(plan.launches) + room(plan.fills) +
                   room(plan.copies) + room(plan.repeats) + room(plan.slots) + room(plan.reported);
  for (const PlannedBuffer& buffer : plan.buffers) bytes += room(buffer.shape);
  for (const PlannedLaunch& launch : plan.launches) bytes += room(launch.arguments) + launch.entry.capacity();
  for (const PlannedRepeat& repeat : plan.repeats) bytes += room(repeat.bodies) + room(repeat.checks);
  for (const Plan::Slot& slot : plan.slots) bytes += room(slot.rounds);
  for (const Placement* placement : {&plan.in_place, &plan.own}) bytes += room(placement->places);
  return bytes;
}

Shape open_shape(const Graph& graph, const BufferDecl& buffer) {
  const Binding binding = corner_of(graph, Corner::kDefault);
  const Names names = names_in(graph, binding);
  Shape shape;
  for (const Expression& expression : buffer.shape) {
    auto size = is_fixed(graph, expression) ? expression.whole(names) : Result<int64_t>(int64_t{-1});
    shape.push_back(size.ok() ? *size : -1);
  }
  return shape;
}

}  // namespace quern
