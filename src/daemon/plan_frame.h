// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "daemon/registry.h"
#include "ipc/plan_frame.h"

namespace quern::daemon {

/// A plan as an executor gets it, with the function's `binary` for its device: `program` and the constants by the ids
/// that it knows them by. `in_place`: inputs and outputs are used where they lie.
ipc::PlanFrame plan_frame(const DeployedFunction& function, const Plan& plan, const Binary& binary, bool in_place,
                          uint64_t program, const std::map<std::string, uint64_t>& object_ids);

}  // namespace quern::daemon
