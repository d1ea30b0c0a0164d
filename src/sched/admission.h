// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "sched/blame.h"
#include "sched/devices.h"
#include "sched/estimates.h"
#include "sched/request.h"
#include "sched/tenants.h"

namespace quern::sched {

/// What admission looks at.
struct Door {
  const Config& config;
  const Blame& blame;
  const Devices& devices;
  const Tenants& tenants;
  const Estimates& estimates;
  bool fits_host = true;  ///< its objects, all at once
};

/// May this request enter, and can it still make its deadline? Nothing: yes. `bytes` is all that a run of it needs.
std::optional<Answer> refuse(const Door& door, const Submit& submit, uint64_t bytes, Time now);

}  // namespace quern::sched
