// SPDX-License-Identifier: Apache-2.0
//
// Which buffers are needed when, and where they lie: the largest first, each at the lowest offset that is free for as
// long as it lives. Within a percent or two of the best on real graphs, and cheap: only those that live at the same
// time are looked at.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "function/plan_builder.h"

namespace quern {
namespace {

/// How one step uses one buffer.
struct Use {
  uint32_t buffer = 0;
  bool reads = false, writes = false;
  bool whole = true;  ///< not a view
};

template <class F>
void each_use(const Plan& plan, uint32_t step_index, F&& use) {
  const PlannedStep& step = plan.steps[step_index];
  switch (step.kind) {
    case PlannedStep::Kind::kLaunch:
      for (const PlannedArgument& argument : plan.launches[step.index].arguments)
        if (argument.kind == ArgumentDecl::Kind::kBuffer)
          // What a partial access leaves alone is needed afterwards, as if it were read.
          use(Use{argument.buffer, argument.access != Access::kOut, argument.access != Access::kIn, !argument.is_view});
      break;
    case PlannedStep::Kind::kFill: {
      const PlannedFill& fill = plan.fills[step.index];
      use(Use{fill.buffer, false, true, fill.size_bytes == plan.buffers[fill.buffer].size_bytes});
      break;
    }
    case PlannedStep::Kind::kCopy: {
      const PlannedCopy& copy = plan.copies[step.index];
      use(Use{copy.from, true, false, copy.size_bytes == plan.buffers[copy.from].size_bytes});
      use(Use{copy.to, false, true, copy.size_bytes == plan.buffers[copy.to].size_bytes});
      break;
    }
    case PlannedStep::Kind::kRepeat:
      break;
  }
}

// Buffers that exchange names are one as far as their life goes: whoever needs one may find it in the memory of
// another.
class Groups {
 public:
  explicit Groups(const Plan& plan) : leaders_(plan.buffers.size()) {
    std::iota(leaders_.begin(), leaders_.end(), 0U);
    for (const PlannedRepeat& repeat : plan.repeats)
      for (const auto& [one, two] : repeat.swaps) leaders_[of(one)] = of(two);
  }
  uint32_t of(uint32_t buffer) {
    while (leaders_[buffer] != buffer) buffer = leaders_[buffer] = leaders_[leaders_[buffer]];
    return buffer;
  }

 private:
  std::vector<uint32_t> leaders_;
};

constexpr uint32_t kNever = UINT32_MAX;

struct Life {
  uint32_t first = kNever, last = 0;
  bool begins_with_write = false;  ///< of every element: nothing from before is needed
};

// Of each group.
std::vector<Life> lives_of(const Plan& plan, Groups& groups) {
  std::vector<Life> lives(plan.buffers.size());
  const auto count = static_cast<uint32_t>(plan.steps.size());
  const auto touch = [&](uint32_t buffer, uint32_t step, bool begins_with_write) {
    Life& life = lives[groups.of(buffer)];
    if (life.first == kNever) life.first = step, life.begins_with_write = begins_with_write;
    life.last = step;
  };
  for (uint32_t at = 0; at < count; ++at)
    each_use(plan, at, [&](const Use& use) { touch(use.buffer, at, !use.reads && use.whole); });
  // What a repeat takes from one round to the next, or brings in or out, lives through all of it. Steps stand behind
  // their repeat, so going backwards takes the inner ones first.
  for (uint32_t at = count; at-- > 0;) {
    const PlannedStep& step = plan.steps[at];
    if (step.kind != PlannedStep::Kind::kRepeat) continue;
    const PlannedRepeat& repeat = plan.repeats[step.index];
    const auto hold = [&](Life& life) {
      life.first = std::min(life.first, at);
      life.last = std::max(life.last, step.end - 1);
    };
    for (const auto& [one, two] : repeat.swaps)
      for (const uint32_t buffer : {one, two}) {
        Life& life = lives[groups.of(buffer)];
        life.begins_with_write = false;
        hold(life);
      }
    if (repeat.until) hold(lives[groups.of(repeat.until->buffer)]);
    if (repeat.bodies.size() > 1) continue;  // written out: no step comes twice
    for (uint32_t inner = at + 1; inner < step.end; ++inner)
      each_use(plan, inner, [&](const Use& use) {
        Life& life = lives[groups.of(use.buffer)];
        const bool is_inside = life.first > at && life.last < step.end;
        if (!is_inside || !life.begins_with_write) hold(life);
      });
  }
  return lives;
}

// How deep in the graph each step is: one more than the deepest that it depends on.
void set_levels(Plan& plan, Groups& groups) {
  struct Seen {
    uint32_t written = 0, read = 0;  ///< levels, from 1
  };
  std::vector<Seen> seen(plan.buffers.size());
  for (uint32_t at = 0; at < plan.steps.size(); ++at) {
    uint32_t level = 1;
    each_use(plan, at, [&](const Use& use) {
      const Seen& of = seen[groups.of(use.buffer)];
      level = std::max(level, of.written + 1);
      if (use.writes) level = std::max(level, of.read + 1);
    });
    each_use(plan, at, [&](const Use& use) {
      Seen& of = seen[groups.of(use.buffer)];
      if (use.writes) of.written = std::max(of.written, level);
      if (use.reads) of.read = std::max(of.read, level);
    });
    plan.steps[at].level = level;
  }
}

/// Buffers that have their place, found by the steps they live through.
class Placed {
 public:
  Placed(const Plan& plan, const std::vector<uint64_t>& sizes)
      : plan_(plan), sizes_(sizes), slices_(plan.steps.size() / kSlice + 1), marks_(plan.buffers.size()) {}

  void add(uint32_t buffer) {
    each_slice(buffer, [&](std::vector<uint32_t>& slice) { slice.push_back(buffer); });
  }

  /// The lowest offset in `arena` where `buffer` meets nobody.
  uint64_t lowest(uint32_t buffer, uint32_t arena, const std::vector<Placement::Place>& places, uint64_t end) {
    // Thousands of buffers that all live at the same time could take minutes: from some point on they are stacked.
    if (looked_at_ > kMostLooks) return end;
    taken_.clear();
    ++mark_;
    const PlannedBuffer& life = plan_.buffers[buffer];
    each_slice(buffer, [&](std::vector<uint32_t>& slice) {
      looked_at_ += slice.size();
      for (const uint32_t other : slice) {
        if (marks_[other] == mark_ || places[other].arena != arena) continue;
        marks_[other] = mark_;
        if (plan_.buffers[other].first <= life.last && life.first <= plan_.buffers[other].last)
          taken_.emplace_back(places[other].offset, places[other].offset + sizes_[other]);
      }
    });
    std::sort(taken_.begin(), taken_.end());
    uint64_t offset = 0;
    for (const auto& [begin, end] : taken_) {
      if (begin >= offset && begin - offset >= sizes_[buffer]) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

 private:
  static constexpr size_t kSlice = 16;  // steps
  static constexpr uint64_t kMostLooks = 20'000'000;

  template <class F>
  void each_slice(uint32_t buffer, F&& work) {
    for (size_t i = plan_.buffers[buffer].first / kSlice; i <= plan_.buffers[buffer].last / kSlice; ++i)
      work(slices_[i]);
  }

  const Plan& plan_;
  const std::vector<uint64_t>& sizes_;
  std::vector<std::vector<uint32_t>> slices_;
  std::vector<uint64_t> marks_;
  uint64_t mark_ = 0, looked_at_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> taken_;
};

// Buffers that are `wanted`. Every size is below 2^40 and there are at most 2^14: nothing overflows.
template <class F>
Placement place(const Plan& plan, const PlanLimits& limits, F&& wanted) {
  Placement placement;
  placement.places.resize(plan.buffers.size());
  std::vector<uint64_t> sizes(plan.buffers.size());
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].size_bytes == 0 || !wanted(plan.buffers[i])) continue;
    order.push_back(i);
    sizes[i] =
        (plan.buffers[i].size_bytes + limits.alignment_bytes - 1) / limits.alignment_bytes * limits.alignment_bytes;
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sizes[a] > sizes[b]; });
  Placed placed(plan, sizes);
  for (const uint32_t buffer : order) {
    Placement::Place& at = placement.places[buffer];
    for (at.arena = 0;; ++at.arena) {
      if (at.arena == placement.arenas.size()) placement.arenas.push_back(0);
      at.offset = placed.lowest(buffer, at.arena, placement.places, placement.arenas[at.arena]);
      // One that is too large for any arena has one of its own: the device refuses it, with the numbers.
      if (at.offset + sizes[buffer] <= limits.max_allocation_bytes || placement.arenas[at.arena] == 0) break;
    }
    placement.arenas[at.arena] = std::max(placement.arenas[at.arena], at.offset + sizes[buffer]);
    placed.add(buffer);
  }
  return placement;
}

bool is_scratch(const PlannedBuffer& buffer) { return buffer.role == Role::kScratch && buffer.used; }

Placement place_own(const Plan& plan, const PlanLimits& limits) {
  return place(plan, limits, [](const PlannedBuffer& buffer) {
    if (buffer.role == Role::kScratch) return is_scratch(buffer);
    return buffer.role != Role::kConstant && !buffer.passed;
  });
}

uint64_t peak_of_scratch(const Plan& plan) {
  std::vector<int64_t> change(plan.steps.size() + 2);
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (!is_scratch(buffer)) continue;
    change[buffer.first] += static_cast<int64_t>(buffer.size_bytes);
    change[buffer.last + 1] -= static_cast<int64_t>(buffer.size_bytes);
  }
  int64_t live = 0, peak = 0;
  for (const int64_t one : change) peak = std::max(peak, live += one);
  return static_cast<uint64_t>(peak);
}

}  // namespace

uint64_t Placement::bytes() const { return std::accumulate(arenas.begin(), arenas.end(), uint64_t{0}); }

Status plan_memory(const Graph& graph, const PlanLimits& limits, Plan& plan, PlanPlace& place_of_error) {
  for (const PlannedRepeat& repeat : plan.repeats)
    for (const auto& [one, two] : repeat.swaps)
      if (place_of_error = {.repeat = &graph.repeats[repeat.repeat]};
          plan.buffers[one].size_bytes != plan.buffers[two].size_bytes)
        return invalid(fmt::format("{}: swap of '{}' and '{}', which have {} and {} bytes; make them alike", graph.name,
                                   graph.buffers[one].name, graph.buffers[two].name, plan.buffers[one].size_bytes,
                                   plan.buffers[two].size_bytes));
  Groups groups(plan);
  set_levels(plan, groups);
  std::vector<Life> lives = lives_of(plan, groups);
  const uint32_t end = plan.steps.empty() ? 0 : static_cast<uint32_t>(plan.steps.size() - 1);
  // An output that was swapped may end up in the memory of any of its group.
  for (uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == Role::kOutput) lives[groups.of(i)].last = end;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    PlannedBuffer& buffer = plan.buffers[i];
    const Life& life = lives[groups.of(i)];
    buffer.used = life.first != kNever;
    buffer.first = buffer.used ? life.first : 0;
    buffer.last = life.last;
    if (buffer.role == Role::kConstant || buffer.role == Role::kInput) buffer.first = 0;
    if (buffer.role == Role::kConstant || buffer.role == Role::kOutput) buffer.last = end;
    if (buffer.role != Role::kScratch) plan.memory_bytes += buffer.size_bytes;
  }
  plan.in_place = place(plan, limits, is_scratch);
  plan.own = place_own(plan, limits);
  plan.memory_bytes += plan.in_place.bytes();
  plan.peak_bytes = peak_of_scratch(plan);
  return {};
}

void pass_inputs(Plan& plan, const PlanLimits& limits, std::span<const uint32_t> inputs) {
  for (const uint32_t input : inputs) {
    PlannedBuffer& buffer = plan.buffers[input];
    if (buffer.role != Role::kInput || std::exchange(buffer.passed, true)) continue;
    plan.memory_bytes -= buffer.size_bytes;
  }
  plan.own = place_own(plan, limits);
}

}  // namespace quern
