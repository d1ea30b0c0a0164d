// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "function/plan.h"

namespace quern::ipc {

/// What a plan is bound to in one executor: the programs, objects and memory that it uses there, and what is known of
/// its launches on that device.
struct PlanBinding {
  struct Launch {
    uint64_t identity = 0;   ///< of the kernel: the same program, entry, sizes and shapes have the same
    bool sliceable = false;  ///< launches over parts of the range do what one over all of it does
    uint64_t group_ps = 0;   ///< what a group of it took before, in picoseconds; 0: it was never seen
  };
  std::vector<uint64_t> programs;  ///< ids, by PlannedLaunch::program
  std::vector<uint64_t> objects;   ///< per buffer: the id of a constant; 0 if it is none
  Placement placement;             ///< one of the plan's two: where buffers lie in memory of the lane
  std::vector<Launch> launches;    ///< per launch of the plan
};

/// A plan as an executor gets it. Both placements of `plan` are empty: `binding` has the one that holds.
struct BoundPlan {
  Plan plan;
  PlanBinding binding;
};

Bytes encode(const Plan& plan, const PlanBinding& binding);
/// Also checks that every index and range is inside what it points into, and that steps nest as they should: who walks
/// a plan that was decoded needs no checks of its own.
Result<BoundPlan> decode_plan(std::span<const std::byte> bytes);

}  // namespace quern::ipc
