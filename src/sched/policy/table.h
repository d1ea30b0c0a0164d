// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "sched/policy/placement.h"

namespace quern::sched {

struct PlacementRow {
  std::string_view name;
  std::string_view status;  ///< experimental or supported
  std::unique_ptr<Placement> (*make)();
};

/// Every placement there is.
std::span<const PlacementRow> placements();

/// Null if there is none of that name.
std::unique_ptr<Placement> make_placement(std::string_view name);

}  // namespace quern::sched
