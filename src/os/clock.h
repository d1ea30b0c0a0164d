// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/time.h"

namespace quern::os {

/// The steady clock (CLOCK_MONOTONIC): for decisions, deadlines and measurements.
Time now();

/// CLOCK_MONOTONIC minus CLOCK_MONOTONIC_RAW right now: what turns a vendor's raw timestamps into `now()`.
Duration monotonic_minus_raw();

/// Wall time for people: "2026-11-16T10:00:00Z". Never decides anything.
std::string wall_time();
/// The same in seconds since 1970: for ages of what outlives the process.
int64_t wall_seconds();

/// CPU time of one thread of this process, by thread id, 0 being the calling one; 0 if it is gone.
Duration cpu_time_of_thread(int tid);
/// The same of all threads of a process, also of those that ended; 0 is this process.
Duration cpu_time_of_process(int pid);

}  // namespace quern::os
