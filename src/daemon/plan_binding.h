// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/registry.h"
#include "ipc/bound_plan.h"

namespace quern::daemon {

/// What a plan of `function` is bound to in an executor that knows the programs of the function's `binary` and the
/// constants by these ids. `in_place`: inputs and outputs are used where they lie. Nothing is said of times.
ipc::PlanBinding bind_plan(const DeployedFunction& function, const Plan& plan, const Binary& binary, bool in_place,
                           std::vector<uint64_t> programs, const std::map<std::string, uint64_t>& object_ids);

}  // namespace quern::daemon
