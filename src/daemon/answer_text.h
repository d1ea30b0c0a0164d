// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/result.h"
#include "daemon/live_call.h"
#include "sched/types.h"

namespace quern::daemon {

/// What is known of the run that a request ended with.
struct RunReport {
  std::string kernel;          ///< the one it was at; "" if unknown
  std::optional<Error> error;  ///< of its own
  uint32_t signal = 0;         ///< of a fault
  uint64_t address = 0;
  uint64_t host_bytes = 0;  ///< that the host may hold
  std::string load_error;   ///< of a constant that could not be brought to a device; "" if none
};

/// The error a caller sees: names the function and, where there is one, the kernel.
Error answer_error(sched::End end, const LiveCall& call, const RunReport& run);

}  // namespace quern::daemon
