// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/table.h"

#include <algorithm>

#include "sched/policy/cost.h"
#include "sched/policy/exclusive.h"
#include "sched/policy/fifo.h"
#include "sched/policy/kaas.h"
#include "sched/policy/lru.h"
#include "sched/policy/sticky.h"
#include "sched/policy/two_lists.h"
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
    {"cost", "supported", make<Eviction, CostEviction>},
    {"lru", "supported", make<Eviction, LruEviction>},
    {"two-lists", "experimental", make<Eviction, TwoListsEviction>},
};

template <Setup::Share share, bool overlap, bool prefetch>
std::unique_ptr<Setup> make_setup_of() {
  return std::make_unique<Setup>(Setup{share, overlap, prefetch});
}
constexpr PolicyRow<Setup> kSetups[] = {
    {"parallel", "supported", make_setup_of<Setup::Share::kDomain, true, true>},
    {"in-turn", "supported", make_setup_of<Setup::Share::kDomain, false, false>},
    {"unshared", "experimental", make_setup_of<Setup::Share::kNobody, true, false>},
    {"sage", "experimental", make_setup_of<Setup::Share::kFunction, true, false>},
    {"serial", "experimental", make_setup_of<Setup::Share::kNobody, false, false>},
};

constexpr PolicyRow<Exit> kExits[] = {
    {"staged", "supported", make<Exit, StagedExit>},
    {"fixed", "supported", make<Exit, FixedExit>},
    {"never", "supported", make<Exit, NeverExit>},
    {"at-once", "experimental", make<Exit, AtOnceExit>},
};

template <bool closes, bool fills, bool slices, bool varies>
std::unique_ptr<Arbitration> make_arbitration() {
  return std::make_unique<Arbitration>(Arbitration{closes, fills, slices, varies});
}
constexpr PolicyRow<Arbitration> kDispatches[] = {
    {"fill", "supported", make_arbitration<true, true, true, true>},
    {"strict", "supported", make_arbitration<true, false, true, false>},
    {"fikit", "experimental", make_arbitration<true, true, false, false>},
    {"none", "supported", make_arbitration<false, false, false, false>},
};

struct Preset {
  std::string_view name, fairness, placement, eviction, setup, exit, dispatch;
};
constexpr Preset kPresets[] = {
    {"quern", "vtime", "sticky", "cost", "parallel", "staged", "fill"},
    {"fifo", "fifo", "fifo", "lru", "in-turn", "never", "none"},
    {"exclusive", "fifo", "exclusive", "lru", "in-turn", "never", "none"},
    {"kaas", "kaas", "fifo", "two-lists", "in-turn", "never", "none"},
    {"serial", "fifo", "fifo", "lru", "serial", "at-once", "none"},
    {"sage", "fifo", "sticky", "lru", "sage", "fixed", "none"},
    {"fikit", "vtime", "sticky", "cost", "parallel", "staged", "fikit"},
    {"fast", "vtime", "fifo", "lru", "in-turn", "never", "strict"},
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
std::span<const PolicyRow<Setup>> setups() { return kSetups; }
std::span<const PolicyRow<Exit>> exits() { return kExits; }
std::span<const PolicyRow<Arbitration>> dispatches() { return kDispatches; }

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
std::unique_ptr<Setup> make_setup(std::string_view name) {
  const auto* row = find(setups(), name);
  return row ? row->make() : nullptr;
}
std::unique_ptr<Exit> make_exit(std::string_view name) {
  const auto* row = find(exits(), name);
  return row ? row->make() : nullptr;
}
std::unique_ptr<Arbitration> make_dispatch(std::string_view name) {
  const auto* row = find(dispatches(), name);
  return row ? row->make() : nullptr;
}
bool has_fairness(std::string_view name) { return find(fairnesses(), name) != nullptr; }
bool has_placement(std::string_view name) { return find(placements(), name) != nullptr; }
bool has_eviction(std::string_view name) { return find(evictions(), name) != nullptr; }
bool has_setup(std::string_view name) { return find(setups(), name) != nullptr; }
bool has_exit(std::string_view name) { return find(exits(), name) != nullptr; }
bool has_dispatch(std::string_view name) { return find(dispatches(), name) != nullptr; }

std::optional<Policy> preset(std::string_view name) {
  for (const Preset& one : kPresets)
    if (one.name == name)
      return Policy{std::string(one.fairness), std::string(one.placement), std::string(one.eviction),
                    std::string(one.setup),    std::string(one.exit),      std::string(one.dispatch)};
  return std::nullopt;
}

std::vector<std::string_view> presets() {
  std::vector<std::string_view> names;
  for (const Preset& one : kPresets) names.push_back(one.name);
  return names;
}

}  // namespace quern::sched
