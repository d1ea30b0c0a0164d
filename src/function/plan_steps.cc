// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "function/plan_builder.h"

namespace quern {
namespace {

constexpr uint64_t kMostLocalBytes = uint64_t{1} << 30;

using Rounds = std::vector<std::pair<uint32_t, int64_t>>;

// The value of a scalar as its dtype has it.
Result<Scalar> value_of(const Expression& expression, Dtype dtype, const Names& names) {
  if (is_float(dtype)) {
    QUERN_TRY(const double value, expression.real(names));
    const Scalar scalar = *scalar_of(dtype, value);
    if (std::isfinite(number_of(scalar))) return scalar;
    return invalid(fmt::format("'{}' is {}, which does not fit {}", expression.text(), value, name_of(dtype)));
  }
  QUERN_TRY(const int64_t value, expression.whole(names));
  if (auto scalar = scalar_of(dtype, value)) return *scalar;
  return invalid(fmt::format("'{}' is {}, which does not fit {}", expression.text(), value, name_of(dtype)));
}

// A param that is passed on as it is keeps its bits: an expression could not hold a uint64 above 2^63.
const Scalar* param_as_it_is(const Graph& graph, const Binding& binding, const Expression& value, Dtype dtype) {
  if (!value.is_name()) return nullptr;
  for (size_t i = 0; i < graph.params.size(); ++i)
    if (graph.params[i].dtype == dtype && graph.params[i].name == value.names()[0]) return &binding.params[i];
  return nullptr;
}

// What a request may change and a plan does not depend on.
bool is_free(const Graph& graph, const Expression& expression) {
  bool any_free = false;
  each_dependency(graph, expression, [&](const std::string& name) {
    const ParamDecl* param = graph.param(name);
    any_free = any_free || (param && !param->in_size);
  });
  return any_free;
}

/// Walks the steps of a graph and unrolls repeats whose rounds differ.
class StepPlanner {
 public:
  StepPlanner(const Graph& graph, const Binding& binding, Plan& plan, PlanPlace& place)
      : graph_(graph), binding_(binding), plan_(plan), place_(place), names_(names_in(graph, binding, &rounds_)) {}

  Status run() {
    const auto zeros = zeroed_before();
    const auto count = static_cast<uint32_t>(graph_.steps.size());
    for (uint32_t at = 0; at < count; at = behind(at)) {
      for (const auto& [step, buffer] : zeros)
        if (step == at) QUERN_TRY(add_zero(buffer));
      QUERN_TRY(expand(at, behind(at)));
    }
    return left_out_ ? check_outputs() : Status();
  }

 private:
  uint32_t behind(uint32_t at) const {
    const StepDecl& step = graph_.steps[at];
    return step.kind == StepDecl::Kind::kRepeat ? graph_.repeats[step.index].end : at + 1;
  }

  // Buffers with `zero: true`, each with the outermost step that uses it first. Not at the very start: until then its
  // memory may serve others.
  std::vector<std::pair<uint32_t, uint32_t>> zeroed_before() const {
    std::vector<std::pair<uint32_t, uint32_t>> zeros;
    std::vector<char> seen(graph_.buffers.size());
    const auto count = static_cast<uint32_t>(graph_.steps.size());
    for (uint32_t top = 0; top < count; top = behind(top)) {
      const auto use = [&](uint32_t buffer) {
        if (!seen[buffer] && graph_.buffers[buffer].zero) zeros.emplace_back(top, buffer);
        seen[buffer] = true;
      };
      for (uint32_t at = top; at < behind(top); ++at) {
        const StepDecl& step = graph_.steps[at];
        if (step.kind == StepDecl::Kind::kFill) use(graph_.fills[step.index].buffer);
        if (step.kind == StepDecl::Kind::kCopy) use(graph_.copies[step.index].from), use(graph_.copies[step.index].to);
        if (step.kind == StepDecl::Kind::kKernel)
          for (const ArgumentDecl& argument : graph_.kernels[step.index].arguments)
            if (argument.kind == ArgumentDecl::Kind::kBuffer) use(argument.buffer);
        if (step.kind != StepDecl::Kind::kRepeat) continue;
        for (const auto& [one, two] : graph_.repeats[step.index].swaps) use(one), use(two);
        if (const auto& until = graph_.repeats[step.index].until) use(until->buffer);
      }
    }
    return zeros;
  }

  Error problem(std::string_view what) const {
    std::string where = graph_.name;
    if (place_.kernel) where += fmt::format(": kernel '{}'", place_.kernel->entry);
    if (place_.fill) where += fmt::format(": fill of '{}'", graph_.buffers[place_.fill->buffer].name);
    if (place_.copy) where += fmt::format(": copy to '{}'", graph_.buffers[place_.copy->to].name);
    if (place_.repeat)
      where += place_.repeat->name.empty() ? ": repeat" : fmt::format(": repeat '{}'", place_.repeat->name);
    return invalid(fmt::format("{}: {}", where, what));
  }

  Result<int64_t> whole(const Expression& expression) const {
    auto value = expression.whole(names_);
    if (!value.ok()) return problem(value.error().text);
    return value;
  }

  Status add_step(PlannedStep::Kind kind, size_t index) {
    if (plan_.steps.size() == kMostLaunches) return too_many();
    const auto at = static_cast<uint32_t>(plan_.steps.size());
    plan_.steps.push_back({kind, static_cast<uint32_t>(index), at + 1, 0});
    return {};
  }

  Error too_many() const {
    return problem(
        fmt::format("more than {} kernels or rounds when its rounds are written out; rounds that use their index are "
                    "planned one by one, so do less of them",
                    kMostLaunches));
  }

  // What was left out may have been all that writes an output.
  Status check_outputs() {
    std::vector<char> is_written(plan_.buffers.size());
    for (const PlannedFill& fill : plan_.fills) is_written[fill.buffer] = true;
    for (const PlannedCopy& copy : plan_.copies) is_written[copy.to] = true;
    for (const PlannedLaunch& launch : plan_.launches)
      for (const PlannedArgument& argument : launch.arguments)
        if (argument.kind == ArgumentDecl::Kind::kBuffer && argument.access != Access::kIn)
          is_written[argument.buffer] = true;
    for (const PlannedRepeat& repeat : plan_.repeats)
      for (const auto& [one, two] : repeat.swaps) is_written[one] = is_written[two] = is_written[one] | is_written[two];
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const BufferDecl& buffer = graph_.buffers[i];
      if (buffer.role != Role::kOutput || plan_.buffers[i].size_bytes == 0 || is_written[i]) continue;
      place_ = {.buffer = &buffer};
      return problem(fmt::format("no step that runs for these dims writes output '{}'; add one, or write zero: true",
                                 buffer.name));
    }
    return {};
  }

  Status add_zero(uint32_t buffer) {
    if (plan_.buffers[buffer].size_bytes == 0) return {};
    place_ = {.buffer = &graph_.buffers[buffer]};
    PlannedFill fill;
    fill.buffer = buffer;
    fill.size_bytes = plan_.buffers[buffer].size_bytes;
    fill.value.fixed = {plan_.buffers[buffer].dtype, 0};
    QUERN_TRY(add_step(PlannedStep::Kind::kFill, plan_.fills.size()));
    plan_.fills.push_back(fill);
    return {};
  }

  Status expand(uint32_t begin, uint32_t end) {
    for (uint32_t at = begin; at < end; at = behind(at)) {
      const StepDecl& step = graph_.steps[at];
      if (step.when) {
        place_ = place_of(step);
        QUERN_TRY(const int64_t is_wanted, whole(*step.when));
        if (is_wanted == 0) {
          left_out_ = true;
          continue;
        }
      }
      switch (step.kind) {
        case StepDecl::Kind::kKernel:
          QUERN_TRY(add_launch(step.index));
          break;
        case StepDecl::Kind::kFill:
          QUERN_TRY(add_fill(step.index));
          break;
        case StepDecl::Kind::kCopy:
          QUERN_TRY(add_copy(step.index));
          break;
        case StepDecl::Kind::kRepeat:
          QUERN_TRY(add_repeat(at));
          break;
      }
    }
    return {};
  }

  PlanPlace place_of(const StepDecl& step) const {
    switch (step.kind) {
      case StepDecl::Kind::kKernel:
        return {.kernel = &graph_.kernels[step.index]};
      case StepDecl::Kind::kFill:
        return {.fill = &graph_.fills[step.index]};
      case StepDecl::Kind::kCopy:
        return {.copy = &graph_.copies[step.index]};
      case StepDecl::Kind::kRepeat:
        break;
    }
    return {.repeat = &graph_.repeats[step.index]};
  }

  Status add_launch(uint32_t kernel_index) {
    const KernelDecl& kernel = graph_.kernels[kernel_index];
    place_ = {.kernel = &kernel};
    PlannedLaunch launch;
    launch.kernel = kernel_index;
    launch.program = kernel.program;
    launch.entry = kernel.entry;
    QUERN_TRY(plan_sizes(graph_, kernel, names_, launch));
    if (!has_work(launch)) return left_out_ = true, Status();
    launch.arguments.reserve(kernel.arguments.size());
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      QUERN_TRY(const PlannedArgument argument, plan_argument(kernel.arguments[i], kernel_index, i));
      QUERN_TRY(check_overlap(launch, argument));
      launch.arguments.push_back(argument);
    }
    for (const auto& [expression, into] :
         {std::pair{&kernel.flops, &launch.flops}, std::pair{&kernel.bytes, &launch.bytes}}) {
      if (!*expression || is_free(graph_, **expression)) continue;
      QUERN_TRY(const int64_t value, whole(**expression));
      *into = static_cast<uint64_t>(std::max<int64_t>(0, value));
    }
    QUERN_TRY(add_step(PlannedStep::Kind::kLaunch, plan_.launches.size()));
    plan_.launches.push_back(std::move(launch));
    return {};
  }

  Result<PlannedArgument> plan_argument(const ArgumentDecl& decl, uint32_t kernel, size_t index) {
    PlannedArgument argument;
    argument.kind = decl.kind;
    argument.access = decl.access;
    switch (decl.kind) {
      case ArgumentDecl::Kind::kBuffer: {
        argument.buffer = decl.buffer;
        if (!decl.offset) break;
        QUERN_TRY(const auto view, plan_view(decl.buffer, *decl.offset, *decl.count));
        argument.is_view = true;
        argument.offset_bytes = view.first;
        argument.size_bytes = view.second;
        break;
      }
      case ArgumentDecl::Kind::kScalar: {
        const Plan::Slot slot{Plan::Slot::Kind::kArgument, kernel, static_cast<uint32_t>(index), decl.dtype, {}};
        QUERN_TRY(argument.scalar, plan_scalar(*decl.value, slot));
        break;
      }
      case ArgumentDecl::Kind::kLocal: {
        QUERN_TRY(const int64_t bytes, whole(*decl.value));
        if (bytes < 1 || static_cast<uint64_t>(bytes) > kMostLocalBytes)
          return problem(fmt::format("its local memory '{}' is {} bytes; it must be 1 to {}", decl.value->text(), bytes,
                                     kMostLocalBytes));
        argument.local_bytes = static_cast<uint64_t>(bytes);
      }
    }
    return argument;
  }

  // Offset and size in bytes.
  Result<std::pair<uint64_t, uint64_t>> plan_view(uint32_t buffer, const Expression& offset, const Expression& count) {
    QUERN_TRY(const int64_t from, whole(offset));
    QUERN_TRY(const int64_t many, whole(count));
    const PlannedBuffer& of = plan_.buffers[buffer];
    const uint64_t element = size_of(of.dtype);
    const uint64_t elements = of.size_bytes / element;
    const std::string& name = graph_.buffers[buffer].name;
    if (from < 0 || many < 0 || static_cast<uint64_t>(from) > elements ||
        static_cast<uint64_t>(many) > elements - static_cast<uint64_t>(from))
      return problem(fmt::format("its view of '{}' has offset {} and count {}, and the buffer has {} elements", name,
                                 from, many, elements));
    const uint64_t offset_bytes = static_cast<uint64_t>(from) * element;
    if (offset_bytes % kViewAlignment != 0)
      return problem(fmt::format("its view of '{}' starts at byte {}; views start at multiples of {} bytes", name,
                                 offset_bytes, kViewAlignment));
    return std::pair{offset_bytes, static_cast<uint64_t>(many) * element};
  }

  // Views of one buffer may meet in one kernel if they are apart, or only read.
  Status check_overlap(const PlannedLaunch& launch, const PlannedArgument& argument) const {
    if (argument.kind != ArgumentDecl::Kind::kBuffer || !argument.is_view || argument.size_bytes == 0) return {};
    for (const PlannedArgument& other : launch.arguments) {
      if (other.kind != ArgumentDecl::Kind::kBuffer || other.buffer != argument.buffer) continue;
      if (other.access == Access::kIn && argument.access == Access::kIn) continue;
      if (other.is_view && other.size_bytes == 0) continue;
      const uint64_t other_end = other.is_view ? other.offset_bytes + other.size_bytes : UINT64_MAX;
      if (argument.offset_bytes < other_end && other.offset_bytes < argument.offset_bytes + argument.size_bytes)
        return problem(fmt::format("two of its views of '{}' overlap, and it writes one; make them apart",
                                   graph_.buffers[argument.buffer].name));
    }
    return {};
  }

  Result<PlannedScalar> plan_scalar(const Expression& value, Plan::Slot slot) {
    PlannedScalar scalar;
    if (is_free(graph_, value)) {
      if (plan_.slots.size() == kMostSlots)
        return problem(
            fmt::format("more than {} scalars that depend on params when its rounds are written out", kMostSlots));
      scalar.slot = static_cast<uint32_t>(plan_.slots.size());
      scalar.fixed.dtype = slot.dtype;
      slot.rounds = rounds_;
      plan_.slots.push_back(std::move(slot));
      return scalar;
    }
    if (const Scalar* param = param_as_it_is(graph_, binding_, value, slot.dtype)) {
      scalar.fixed = *param;
      return scalar;
    }
    auto fixed = value_of(value, slot.dtype, names_);
    if (!fixed.ok()) return problem(fixed.error().text);
    scalar.fixed = *fixed;
    return scalar;
  }

  Status add_fill(uint32_t index) {
    const FillDecl& decl = graph_.fills[index];
    place_ = {.fill = &decl};
    PlannedFill fill;
    fill.buffer = decl.buffer;
    fill.size_bytes = plan_.buffers[decl.buffer].size_bytes;
    if (decl.offset) {
      QUERN_TRY(const auto view, plan_view(decl.buffer, *decl.offset, *decl.count));
      fill.offset_bytes = view.first;
      fill.size_bytes = view.second;
    }
    if (fill.size_bytes == 0) return left_out_ = true, Status();
    const Plan::Slot slot{Plan::Slot::Kind::kFill, index, 0, plan_.buffers[decl.buffer].dtype, {}};
    QUERN_TRY(fill.value, plan_scalar(*decl.value, slot));
    QUERN_TRY(add_step(PlannedStep::Kind::kFill, plan_.fills.size()));
    plan_.fills.push_back(fill);
    return {};
  }

  Status add_copy(uint32_t index) {
    const CopyDecl& decl = graph_.copies[index];
    place_ = {.copy = &decl};
    const PlannedBuffer &from = plan_.buffers[decl.from], &to = plan_.buffers[decl.to];
    const uint64_t element = size_of(from.dtype);
    const auto from_elements = static_cast<int64_t>(from.size_bytes / element);
    const auto to_elements = static_cast<int64_t>(to.size_bytes / element);
    int64_t offset = 0, at = 0;
    if (decl.offset) QUERN_TRY(offset, whole(*decl.offset));
    if (decl.at) QUERN_TRY(at, whole(*decl.at));
    int64_t count = from_elements - offset;
    if (decl.count) QUERN_TRY(count, whole(*decl.count));
    const bool is_all = !decl.offset && !decl.at && !decl.count;
    if (is_all && from_elements != to_elements)
      return problem(fmt::format("'{}' has {} elements and '{}' {}; write count, or make them alike",
                                 graph_.buffers[decl.from].name, from_elements, graph_.buffers[decl.to].name,
                                 to_elements));
    // Elements are at most 2^40: no sum overflows once each part is in range.
    const bool is_inside = offset >= 0 && offset <= from_elements && at >= 0 && at <= to_elements && count >= 0 &&
                           count <= from_elements - offset && count <= to_elements - at;
    if (!is_inside)
      return problem(fmt::format("{} elements from {} on of '{}', which has {}, do not go to {} of '{}', which has {}",
                                 count, offset, graph_.buffers[decl.from].name, from_elements, at,
                                 graph_.buffers[decl.to].name, to_elements));
    if (count == 0) return left_out_ = true, Status();
    QUERN_TRY(add_step(PlannedStep::Kind::kCopy, plan_.copies.size()));
    plan_.copies.push_back({decl.from, decl.to, static_cast<uint64_t>(offset) * element,
                            static_cast<uint64_t>(at) * element, static_cast<uint64_t>(count) * element});
    return {};
  }

  Status add_repeat(uint32_t at) {
    const uint32_t decl_index = graph_.steps[at].index;
    const RepeatDecl& decl = graph_.repeats[decl_index];
    place_ = {.repeat = &decl};
    QUERN_TRY(const int64_t rounds, whole(*decl.rounds));
    if (rounds < 0 || rounds > kMostRounds)
      return problem(fmt::format("'{}' is {} rounds; it must be 0 to {}", decl.rounds->text(), rounds, kMostRounds));
    if (rounds == 0) return {};
    PlannedRepeat repeat;
    repeat.repeat = decl_index;
    repeat.rounds = static_cast<uint64_t>(rounds);
    repeat.swaps = decl.swaps;
    repeat.limit_is_error = decl.limit_is_error;
    if (decl.until) {
      QUERN_TRY(repeat.until, plan_until(decl_index, *decl.until));
      repeat.report = report_of(decl_index);
    }
    const uint32_t step = static_cast<uint32_t>(plan_.steps.size());
    const size_t index = plan_.repeats.size();
    QUERN_TRY(add_step(PlannedStep::Kind::kRepeat, index));
    plan_.repeats.emplace_back();
    const int64_t variants = decl.uses_index ? rounds : 1;
    // Rounds without a step cost time too.
    written_out_ += static_cast<uint64_t>(variants);
    if (written_out_ > kMostLaunches) return too_many();
    for (int64_t round = 0; round < variants; ++round) {
      rounds_.emplace_back(decl_index, round);
      repeat.bodies.push_back(static_cast<uint32_t>(plan_.steps.size()));
      QUERN_TRY(expand(at + 1, decl.check));
      repeat.checks.push_back(static_cast<uint32_t>(plan_.steps.size()));
      const bool is_checked =
          variants == 1 || (repeat.until && static_cast<uint64_t>(round + 1) % repeat.until->every == 0);
      if (is_checked) QUERN_TRY(expand(decl.check, decl.end));
      rounds_.pop_back();
    }
    plan_.steps[step].end = static_cast<uint32_t>(plan_.steps.size());
    plan_.repeats[index] = std::move(repeat);
    return {};
  }

  uint32_t report_of(uint32_t decl_index) {
    const auto known = std::find(plan_.reported.begin(), plan_.reported.end(), decl_index);
    if (known != plan_.reported.end()) return static_cast<uint32_t>(known - plan_.reported.begin());
    if (plan_.reported.size() == kMostReported) return PlannedRepeat::kNoReport;
    plan_.reported.push_back(decl_index);
    return static_cast<uint32_t>(plan_.reported.size() - 1);
  }

  Result<PlannedUntil> plan_until(uint32_t repeat, const UntilDecl& decl) {
    PlannedUntil until;
    const PlannedBuffer& buffer = plan_.buffers[decl.buffer];
    until.buffer = decl.buffer;
    until.name = graph_.buffers[decl.buffer].name;
    until.dtype = buffer.dtype;
    until.compare = decl.compare;
    QUERN_TRY(const int64_t every, whole(*decl.every));
    if (every < 1) return problem(fmt::format("every '{}' is {}; it must be at least 1", decl.every->text(), every));
    until.every = static_cast<uint64_t>(every);
    QUERN_TRY(const int64_t element, whole(*decl.element));
    const uint64_t elements = buffer.size_bytes / size_of(buffer.dtype);
    if (element < 0 || static_cast<uint64_t>(element) >= elements)
      return problem(fmt::format("element {} of '{}' is looked at, which has {} elements", element,
                                 graph_.buffers[decl.buffer].name, elements));
    until.offset_bytes = static_cast<uint64_t>(element) * size_of(buffer.dtype);
    const Dtype bound = bound_dtype(buffer.dtype, *decl.value);
    QUERN_TRY(until.value, plan_scalar(*decl.value, {Plan::Slot::Kind::kUntil, repeat, 0, bound, {}}));
    return until;
  }

  // The dtype of the number that an `until` compares an element with. A whole number that is compared with whole
  // elements stays whole, because fp64 rounds from 2^53 on.
  Dtype bound_dtype(Dtype element, const Expression& bound) const {
    if (is_float(element) || !bound.is_whole()) return Dtype::kFp64;
    for (const std::string& name : bound.names()) {
      if (const LetDecl* let = graph_.let(name); let && let->is_real) return Dtype::kFp64;
      const ParamDecl* param = graph_.param(name);
      if (!param) continue;  // a dim, a whole let or the index of a repeat
      if (is_float(param->dtype)) return Dtype::kFp64;
      if (param->dtype == Dtype::kUint64 && bound.is_name()) return Dtype::kUint64;
    }
    return Dtype::kInt64;
  }

  const Graph& graph_;
  const Binding& binding_;
  Plan& plan_;
  PlanPlace& place_;
  Rounds rounds_;
  Names names_;
  uint64_t written_out_ = 0;
  bool left_out_ = false;  ///< a step that has nothing to do, or whose `when` is 0
};

const Expression& expression_of(const Graph& graph, const Plan::Slot& slot, PlanPlace& place) {
  switch (slot.kind) {
    case Plan::Slot::Kind::kFill:
      place = {.fill = &graph.fills[slot.index]};
      return *place.fill->value;
    case Plan::Slot::Kind::kUntil:
      place = {.repeat = &graph.repeats[slot.index]};
      return *place.repeat->until->value;
    case Plan::Slot::Kind::kArgument:
      break;
  }
  place = {.kernel = &graph.kernels[slot.index]};
  return *place.kernel->arguments[slot.argument].value;
}

}  // namespace

Status plan_steps(const Graph& graph, const Binding& binding, Plan& plan, PlanPlace& place) {
  return StepPlanner(graph, binding, plan, place).run();
}

Result<std::vector<Scalar>> build_scalars(const Graph& graph, const Plan& plan, const Binding& binding,
                                          PlanPlace& place) {
  std::vector<Scalar> scalars;
  if (plan.slots.empty()) return scalars;
  if (binding.dims.size() != graph.dims.size() || binding.params.size() != graph.params.size())
    return internal(fmt::format("{}: the binding is of another graph", graph.name));
  if (binding.lets.size() < graph.lets.size()) {
    Binding whole = binding;
    QUERN_TRY(compute_lets(graph, whole));
    return build_scalars(graph, plan, whole, place);
  }
  scalars.reserve(plan.slots.size());
  for (const Plan::Slot& slot : plan.slots) {
    const Expression& expression = expression_of(graph, slot, place);
    if (const Scalar* param = param_as_it_is(graph, binding, expression, slot.dtype)) {
      scalars.push_back(*param);
      continue;
    }
    auto value = value_of(expression, slot.dtype, names_in(graph, binding, &slot.rounds));
    if (!value.ok()) {
      const std::string what = place.kernel ? fmt::format("kernel '{}': ", place.kernel->entry) : "";
      return invalid(fmt::format("{}: {}{}", graph.name, what, value.error().text));
    }
    scalars.push_back(*value);
  }
  return scalars;
}

}  // namespace quern
