// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace quern::bench {

/// The executors of daemons in this process, by their process ids, ascending.
std::vector<int> executors_of_this_process();

/// The CPU time of the threads of an executor that execute kernels, as the operating system has it: what accounts are
/// held against. Exact while they sleep; of one that is on a core, as of the last tick. kUnavailable if the executor is
/// gone or has no such threads, for its device is no CPU.
Result<Duration> worker_time_of(int executor);

/// Of a /proc/PID/stat: the process that made it. Negative if that cannot be read.
int parent_in(std::string_view stat);

}  // namespace quern::bench
