// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "sched/blame.h"
#include "sched/devices.h"
#include "sched/queue.h"

namespace quern::sched {

/// May this request enter? The refusal if not: what can never succeed first, then what may later, with Retry-After.
std::optional<Answer> refuse(const Config& config, const Submit& submit, Time now, const Blame& blame,
                             const Devices& devices, const Queue& queue);

}  // namespace quern::sched
