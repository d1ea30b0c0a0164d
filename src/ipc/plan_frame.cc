// SPDX-License-Identifier: Apache-2.0
#include "ipc/plan_frame.h"

#include <algorithm>

#include "ipc/fields.h"

namespace quern::ipc {
namespace {

// Those of function/plan.h, and some room.
constexpr uint32_t kMostBuffers = 16384, kMostSteps = 65536, kMostArguments = 64, kMostRepeats = 65536;
constexpr uint32_t kMostSlots = 4096, kMostSwaps = 8, kMostReports = 16;
constexpr int kDeepest = 8;

}  // namespace

// Not in the namespace above: they are found by the namespace of their structs.
template <class V>
void fields(V& v, PlanFrame::Value& value) {
  v(value.slot), v(value.dtype), v(value.bits);
}
template <class V>
void fields(V& v, PlanFrame::Launch& launch) {
  v(launch.kernel), v(launch.entry), v(launch.dimensions), v(launch.global), v(launch.local);
  v(launch.identity), v(launch.sliceable), v(launch.group_ps);
  v.list(launch.arguments, kMostArguments, [&](PlanFrame::Argument& a) {
    v(a.kind), v(a.buffer), v(a.offset), v(a.size_bytes), fields(v, a.value), v(a.local_bytes);
  });
}
template <class V>
void fields(V& v, PlanFrame::Repeat& repeat) {
  v(repeat.rounds);
  v.list(repeat.bodies, kMostSteps, [&](uint32_t& at) { v(at); });
  v.list(repeat.checks, kMostSteps, [&](uint32_t& at) { v(at); });
  v.list(repeat.swaps, kMostSwaps, [&](auto& pair) { v(pair.first), v(pair.second); });
  PlanFrame::Until& until = repeat.until;
  v(until.compare), v(until.buffer), v(until.dtype), v(until.offset), v(until.every), fields(v, until.value);
  v(until.name), v(repeat.limit_is_error), v(repeat.report);
}
template <class V>
void fields(V& v, PlanFrame& p) {
  v(p.program), v(p.slots), v(p.reports);
  v.list(p.buffers, kMostBuffers, [&](auto& b) { v(b.role), v(b.size_bytes), v(b.object), v(b.arena), v(b.offset); });
  v.list(p.arenas, kMostBuffers, [&](uint64_t& bytes) { v(bytes); });
  v.list(p.launches, kMostSteps, [&](PlanFrame::Launch& launch) { fields(v, launch); });
  v.list(p.fills, kMostSteps, [&](auto& f) { v(f.buffer), v(f.offset), v(f.size_bytes), fields(v, f.value); });
  v.list(p.repeats, kMostRepeats, [&](PlanFrame::Repeat& repeat) { fields(v, repeat); });
  v.list(p.steps, kMostSteps, [&](auto& s) { v(s.kind), v(s.index), v(s.end); });
}

namespace {

class PlanCheck {
 public:
  explicit PlanCheck(const PlanFrame& plan) : plan_(plan) {}

  bool passes() const {
    const auto count = static_cast<uint32_t>(plan_.steps.size());
    return plan_.slots <= kMostSlots && plan_.reports <= kMostReports &&
           std::all_of(plan_.buffers.begin(), plan_.buffers.end(), [&](auto& one) { return buffer(one); }) &&
           std::all_of(plan_.launches.begin(), plan_.launches.end(), [&](auto& one) { return launch(one); }) &&
           std::all_of(plan_.fills.begin(), plan_.fills.end(), [&](auto& one) { return fill(one); }) &&
           std::all_of(plan_.repeats.begin(), plan_.repeats.end(), [&](auto& one) { return repeat(one); }) &&
           steps(0, count, 0);
  }

 private:
  bool buffer(const PlanFrame::Buffer& one) const {
    if (one.role > PlanFrame::Role::kScratch || one.size_bytes == 0) return false;
    if (one.arena == PlanFrame::kNone) return one.role != PlanFrame::Role::kScratch;
    return one.arena < plan_.arenas.size() && one.offset <= plan_.arenas[one.arena] &&
           one.size_bytes <= plan_.arenas[one.arena] - one.offset;
  }
  bool range(uint32_t index, uint64_t offset, uint64_t size) const {
    return index < plan_.buffers.size() && offset <= plan_.buffers[index].size_bytes &&
           size <= plan_.buffers[index].size_bytes - offset;
  }
  bool value(const PlanFrame::Value& one) const {
    return static_cast<int>(one.dtype) < kDtypes && (one.slot == PlanFrame::kNone || one.slot < plan_.slots);
  }
  static bool is_bound(Dtype dtype) {
    return dtype == Dtype::kFp64 || dtype == Dtype::kInt64 || dtype == Dtype::kUint64;
  }
  bool writable(uint32_t index) const {
    return index < plan_.buffers.size() && plan_.buffers[index].role >= PlanFrame::Role::kOutput;
  }
  bool launch(const PlanFrame::Launch& one) const {
    return one.dimensions >= 1 && one.dimensions <= 3 &&
           std::all_of(one.arguments.begin(), one.arguments.end(), [&](const PlanFrame::Argument& argument) {
             return argument.kind <= PlanFrame::Argument::Kind::kLocal && value(argument.value) &&
                    (argument.kind != PlanFrame::Argument::Kind::kBuffer ||
                     range(argument.buffer, argument.offset, argument.size_bytes));
           });
  }
  bool fill(const PlanFrame::Fill& one) const {
    return writable(one.buffer) && one.size_bytes > 0 && range(one.buffer, one.offset, one.size_bytes) &&
           value(one.value) && one.size_bytes % size_of(one.value.dtype) == 0 &&
           one.offset % size_of(one.value.dtype) == 0;
  }
  bool repeat(const PlanFrame::Repeat& one) const {
    if (one.rounds == 0 || one.bodies.empty() || one.bodies.size() != one.checks.size()) return false;
    if (one.bodies.size() > 1 && one.bodies.size() != one.rounds) return false;
    for (const auto& [a, b] : one.swaps)
      if (!writable(a) || !writable(b) || plan_.buffers[a].size_bytes != plan_.buffers[b].size_bytes) return false;
    if (one.report != PlanFrame::kNone && one.report >= plan_.reports) return false;
    const PlanFrame::Until& until = one.until;
    return until.every == 0 ||
           (value(until.value) && is_bound(until.value.dtype) && static_cast<int>(until.dtype) < kDtypes &&
            until.compare <= PlanFrame::Until::Compare::kEquals &&
            range(until.buffer, until.offset, size_of(until.dtype)));
  }
  // [begin, end) is a row of whole steps.
  bool steps(uint32_t begin, uint32_t end, int depth) const {
    if (depth > kDeepest || begin > end || end > plan_.steps.size()) return false;
    while (begin < end) {
      const PlanFrame::Step& step = plan_.steps[begin];
      if (step.end <= begin || step.end > end) return false;
      switch (step.kind) {
        case PlanFrame::Step::Kind::kLaunch:
          if (step.index >= plan_.launches.size() || step.end != begin + 1) return false;
          break;
        case PlanFrame::Step::Kind::kFill:
          if (step.index >= plan_.fills.size() || step.end != begin + 1) return false;
          break;
        case PlanFrame::Step::Kind::kRepeat:
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
  bool rounds(const PlanFrame::Repeat& repeat, uint32_t begin, uint32_t end, int depth) const {
    for (size_t i = 0; i < repeat.bodies.size(); ++i) {
      const uint32_t next = i + 1 < repeat.bodies.size() ? repeat.bodies[i + 1] : end;
      if (repeat.bodies[i] != begin || !steps(begin, repeat.checks[i], depth + 1) ||
          !steps(repeat.checks[i], next, depth + 1))
        return false;
      begin = next;
    }
    return begin == end;
  }

  const PlanFrame& plan_;
};

}  // namespace

Bytes encode(const PlanFrame& plan) { return written(plan); }

Result<PlanFrame> decode_plan(std::span<const std::byte> bytes) {
  QUERN_TRY(PlanFrame plan, read_whole<PlanFrame>(bytes, "plan"));
  if (!PlanCheck(plan).passes()) return invalid("plan: points outside itself");
  return plan;
}

}  // namespace quern::ipc
