// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/table.h"

#include <algorithm>

#include "sched/policy/exclusive.h"
#include "sched/policy/fifo.h"
#include "sched/policy/kaas.h"
#include "sched/policy/lru.h"
#include "sched/policy/sticky.h"
#include "sched/policy/vtime.h"

namespace quern::sched {
namespace {

template <class P, class T>
std::unique_ptr<P> make() {
  return std::make_unique<T>();
}

constexpr PolicyRow<Fairness> kFairnesses[] = {
    {"vtime", "supported", make<Fairness, VtimeFairness>},
    {"fifo", "supported", make<Fairness, FifoFairness>},
    {"kaas", "experimental", make<Fairness, KaasFairness>},
};

constexpr PolicyRow<Placement> kPlacements[] = {
    {"sticky", "supported", make<Placement, StickyPlacement>},
    {"fifo", "supported", make<Placement, FifoPlacement>},
    {"exclusive", "experimental", make<Placement, ExclusivePlacement>},
};

constexpr PolicyRow<Eviction> kEvictions[] = {
    {"lru", "supported", make<Eviction, LruEviction>},
};

struct Preset {
  std::string_view name, fairness, placement, eviction;
};
constexpr Preset kPresets[] = {
    {"quern", "vtime", "sticky", "lru"},
    {"fifo", "fifo", "fifo", "lru"},
    {"exclusive", "fifo", "exclusive", "lru"},
    {"kaas", "kaas", "fifo", "lru"},
};

template <class P>
const PolicyRow<P>* find(std::span<const PolicyRow<P>> rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace

std::span<const PolicyRow<Fairness>> fairnesses() { return kFairnesses; }
std::span<const PolicyRow<Placement>> placements() { return kPlacements; }
std::span<const PolicyRow<Eviction>> evictions() { return kEvictions; }

std::unique_ptr<Fairness> make_fairness(std::string_view name) {
  const auto* row = find(fairnesses(), name);
  return row ? row->make() : nullptr;
}
std::unique_ptr<Placement> make_placement(std::string_view name) {
  const auto* row = find(placements(), name);
  return row ? row->make() : nullptr;
}
std::unique_ptr<Eviction> make_eviction(std::string_view name) {
  const auto* row = find(evictions(), name);
  return row ? row->make() : nullptr;
}
bool has_fairness(std::string_view name) { return find(fairnesses(), name) != nullptr; }
bool has_placement(std::string_view name) { return find(placements(), name) != nullptr; }
bool has_eviction(std::string_view name) { return find(evictions(), name) != nullptr; }

std::optional<Policy> preset(std::string_view name) {
  for (const Preset& one : kPresets)
    if (one.name == name)
      return Policy{std::string(one.fairness), std::string(one.placement), std::string(one.eviction)};
  return std::nullopt;
}

std::vector<std::string_view> presets() {
  std::vector<std::string_view> names;
  for (const Preset& one : kPresets) names.push_back(one.name);
  return names;
}

}  // namespace quern::sched
