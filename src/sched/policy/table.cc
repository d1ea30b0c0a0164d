// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/table.h"

#include "sched/policy/fifo.h"

namespace quern::sched {
namespace {

template <class T>
std::unique_ptr<Placement> make() {
  return std::make_unique<T>();
}

constexpr PlacementRow kPlacements[] = {
    {"fifo", "supported", make<FifoPlacement>},
};

}  // namespace

std::span<const PlacementRow> placements() { return kPlacements; }

std::unique_ptr<Placement> make_placement(std::string_view name) {
  for (const PlacementRow& row : kPlacements)
    if (row.name == name) return row.make();
  return nullptr;
}

}  // namespace quern::sched
