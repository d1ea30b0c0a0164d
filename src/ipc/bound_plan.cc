// SPDX-License-Identifier: Apache-2.0
#include "ipc/bound_plan.h"

#include <algorithm>

#include "ipc/fields.h"

namespace quern {

// In the namespace of their structs, by which they are found. A repeat that is written out inside another one may have
// as many variants as there are steps.
template <class V>
void fields(V& v, PlannedScalar& scalar) {
  v(scalar.slot), v(scalar.fixed.dtype), v(scalar.fixed.bits);
}
template <class V>
void fields(V& v, PlannedBuffer& buffer) {
  v(buffer.role), v(buffer.dtype);
  v.list(buffer.shape, kMostRank, [&](int64_t& size) { v(size); });
  v(buffer.size_bytes), v(buffer.first), v(buffer.last), v(buffer.used), v(buffer.passed);
}
template <class V>
void fields(V& v, PlannedLaunch& launch) {
  v(launch.kernel), v(launch.program), v(launch.entry), v(launch.dimensions), v(launch.global), v(launch.local);
  v.list(launch.arguments, kMostArguments, [&](PlannedArgument& a) {
    v(a.kind), v(a.access), v(a.is_view), v(a.buffer), v(a.offset_bytes), v(a.size_bytes), fields(v, a.scalar),
        v(a.local_bytes);
  });
  v(launch.flops), v(launch.bytes);
}
template <class V>
void fields(V& v, PlannedUntil& until) {
  v(until.buffer), v(until.dtype), v(until.offset_bytes), v(until.every), v(until.compare), fields(v, until.value);
  v(until.name);
}
template <class V>
void fields(V& v, PlannedRepeat& repeat) {
  v(repeat.repeat), v(repeat.rounds);
  v.list(repeat.bodies, kMostLaunches, [&](uint32_t& at) { v(at); });
  v.list(repeat.checks, kMostLaunches, [&](uint32_t& at) { v(at); });
  v.list(repeat.swaps, kMostSwaps, [&](auto& pair) { v(pair.first), v(pair.second); });
  v.maybe(repeat.until, [&](PlannedUntil& until) { fields(v, until); });
  v(repeat.limit_is_error), v(repeat.report);
}
template <class V>
void fields(V& v, Plan::Slot& slot) {
  v(slot.kind), v(slot.index), v(slot.argument), v(slot.dtype);
  v.list(slot.rounds, kDeepestRepeat, [&](auto& round) { v(round.first), v(round.second); });
}
template <class V>
void fields(V& v, Plan& plan) {
  v.list(plan.buffers, kMostBuffers, [&](PlannedBuffer& buffer) { fields(v, buffer); });
  v.list(plan.steps, kMostLaunches,
         [&](PlannedStep& step) { v(step.kind), v(step.index), v(step.end), v(step.level); });
  v.list(plan.launches, kMostLaunches, [&](PlannedLaunch& launch) { fields(v, launch); });
  v.list(plan.fills, kMostLaunches,
         [&](PlannedFill& fill) { v(fill.buffer), v(fill.offset_bytes), v(fill.size_bytes), fields(v, fill.value); });
  v.list(plan.copies, kMostLaunches, [&](PlannedCopy& copy) {
    v(copy.from), v(copy.to), v(copy.from_offset), v(copy.to_offset), v(copy.size_bytes);
  });
  v.list(plan.repeats, kMostLaunches, [&](PlannedRepeat& repeat) { fields(v, repeat); });
  v.list(plan.slots, kMostSlots, [&](Plan::Slot& slot) { fields(v, slot); });
  v.list(plan.reported, kMostReported, [&](uint32_t& repeat) { v(repeat); });
  v(plan.memory_bytes), v(plan.peak_bytes);
}

namespace ipc {

template <class V>
void fields(V& v, PlanBinding& binding) {
  v.list(binding.programs, kMostDriverPrograms, [&](uint64_t& program) { v(program); });
  v.list(binding.objects, kMostBuffers, [&](uint64_t& object) { v(object); });
  v.list(binding.placement.places, kMostBuffers, [&](Placement::Place& place) { v(place.arena), v(place.offset); });
  v.list(binding.placement.arenas, kMostBuffers, [&](uint64_t& bytes) { v(bytes); });
  v.list(binding.launches, kMostLaunches,
         [&](PlanBinding::Launch& launch) { v(launch.identity), v(launch.sliceable), v(launch.group_ps); });
}
template <class V>
void fields(V& v, BoundPlan& bound) {
  fields(v, bound.plan), fields(v, bound.binding);
}

namespace {

class PlanCheck {
 public:
  explicit PlanCheck(const BoundPlan& bound) : plan_(bound.plan), binding_(bound.binding) {}

  bool passes() const {
    if (binding_.objects.size() != plan_.buffers.size() || binding_.placement.places.size() != plan_.buffers.size() ||
        binding_.launches.size() != plan_.launches.size())
      return false;
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      if (!buffer(plan_.buffers[i], binding_.placement.places[i])) return false;
    const auto count = static_cast<uint32_t>(plan_.steps.size());
    return all(plan_.launches, [&](auto& one) { return launch(one); }) &&
           all(plan_.fills, [&](auto& one) { return fill(one); }) &&
           all(plan_.copies, [&](auto& one) { return copy(one); }) &&
           all(plan_.repeats, [&](auto& one) { return repeat(one); }) &&
           all(plan_.slots, [&](auto& one) { return is_known(one.dtype) && one.kind <= Plan::Slot::Kind::kUntil; }) &&
           steps(0, count, 0);
  }

 private:
  template <class T, class F>
  static bool all(const std::vector<T>& items, F holds) {
    return std::all_of(items.begin(), items.end(), holds);
  }
  static bool is_known(Dtype dtype) { return static_cast<int>(dtype) < kDtypes; }

  bool buffer(const PlannedBuffer& one, const Placement::Place& place) const {
    if (one.role > Role::kScratch || !is_known(one.dtype)) return false;
    if (one.size_bytes == 0 || (one.role == Role::kScratch && !one.used)) return place.arena == Placement::kElsewhere;
    if (place.arena == Placement::kElsewhere) return one.role != Role::kScratch;
    const auto& arenas = binding_.placement.arenas;
    return place.arena < arenas.size() && place.offset <= arenas[place.arena] &&
           one.size_bytes <= arenas[place.arena] - place.offset;
  }
  bool range(uint32_t index, uint64_t offset, uint64_t size) const {
    return index < plan_.buffers.size() && plan_.buffers[index].used && offset <= plan_.buffers[index].size_bytes &&
           size <= plan_.buffers[index].size_bytes - offset;
  }
  bool value(const PlannedScalar& one) const {
    return is_known(one.fixed.dtype) && (one.slot == PlannedScalar::kFixed || one.slot < plan_.slots.size());
  }
  static bool is_bound(Dtype dtype) {
    return dtype == Dtype::kFp64 || dtype == Dtype::kInt64 || dtype == Dtype::kUint64;
  }
  bool writable(uint32_t index) const {
    return index < plan_.buffers.size() && plan_.buffers[index].used && plan_.buffers[index].role >= Role::kOutput;
  }
  bool argument(const PlannedArgument& one) const {
    if (one.kind > ArgumentDecl::Kind::kLocal || one.access > Access::kPartial || !value(one.scalar)) return false;
    return one.kind != ArgumentDecl::Kind::kBuffer || range(one.buffer, one.offset_bytes, one.size_bytes);
  }
  bool launch(const PlannedLaunch& one) const {
    return one.program < binding_.programs.size() && one.dimensions >= 1 && one.dimensions <= 3 &&
           all(one.arguments, [&](auto& a) { return argument(a); });
  }
  bool fill(const PlannedFill& one) const {
    const Dtype dtype = one.value.fixed.dtype;
    return writable(one.buffer) && one.size_bytes > 0 && range(one.buffer, one.offset_bytes, one.size_bytes) &&
           value(one.value) && one.size_bytes % size_of(dtype) == 0 && one.offset_bytes % size_of(dtype) == 0;
  }
  bool copy(const PlannedCopy& one) const {
    return one.from != one.to && writable(one.to) && one.size_bytes > 0 &&
           range(one.from, one.from_offset, one.size_bytes) && range(one.to, one.to_offset, one.size_bytes);
  }
  bool until(const PlannedUntil& one) const {
    return one.every > 0 && value(one.value) && is_bound(one.value.fixed.dtype) && is_known(one.dtype) &&
           one.compare <= UntilDecl::Compare::kEquals && range(one.buffer, one.offset_bytes, size_of(one.dtype));
  }
  bool repeat(const PlannedRepeat& one) const {
    if (one.rounds == 0 || one.bodies.empty() || one.bodies.size() != one.checks.size()) return false;
    if (one.bodies.size() > 1 && one.bodies.size() != one.rounds) return false;
    for (const auto& [a, b] : one.swaps)
      if (!writable(a) || !writable(b) || plan_.buffers[a].size_bytes != plan_.buffers[b].size_bytes) return false;
    if (one.report != PlannedRepeat::kNoReport && one.report >= plan_.reported.size()) return false;
    return one.until ? until(*one.until) : !one.limit_is_error;
  }
  // [begin, end) is a row of whole steps.
  bool steps(uint32_t begin, uint32_t end, size_t depth) const {
    if (depth > kDeepestRepeat || begin > end || end > plan_.steps.size()) return false;
    while (begin < end) {
      const PlannedStep& step = plan_.steps[begin];
      if (step.end <= begin || step.end > end) return false;
      switch (step.kind) {
        case PlannedStep::Kind::kLaunch:
          if (step.index >= plan_.launches.size() || step.end != begin + 1) return false;
          break;
        case PlannedStep::Kind::kFill:
          if (step.index >= plan_.fills.size() || step.end != begin + 1) return false;
          break;
        case PlannedStep::Kind::kCopy:
          if (step.index >= plan_.copies.size() || step.end != begin + 1) return false;
          break;
        case PlannedStep::Kind::kRepeat:
          if (step.index >= plan_.repeats.size() || !rounds(plan_.repeats[step.index], begin + 1, step.end, depth))
            return false;
          break;
        default:
          return false;
      }
      begin = step.end;
    }
    return true;
  }
  bool rounds(const PlannedRepeat& repeat, uint32_t begin, uint32_t end, size_t depth) const {
    for (size_t i = 0; i < repeat.bodies.size(); ++i) {
      const uint32_t next = i + 1 < repeat.bodies.size() ? repeat.bodies[i + 1] : end;
      if (repeat.bodies[i] != begin || !steps(begin, repeat.checks[i], depth + 1) ||
          !steps(repeat.checks[i], next, depth + 1))
        return false;
      begin = next;
    }
    return begin == end;
  }

  const Plan& plan_;
  const PlanBinding& binding_;
};

}  // namespace

Bytes encode(const Plan& plan, const PlanBinding& binding) {
  ByteWriter writer;
  write(plan, writer);
  write(binding, writer);
  return writer.take();
}

Result<BoundPlan> decode_plan(std::span<const std::byte> bytes) {
  QUERN_TRY(BoundPlan bound, read_whole<BoundPlan>(bytes, "plan"));
  if (!PlanCheck(bound).passes()) return invalid("plan: points outside itself");
  return bound;
}

}  // namespace ipc
}  // namespace quern
