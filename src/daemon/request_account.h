// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace quern::daemon {

/// What one request used, by all its runs. Account has the same by function; what left memory is there on the account
/// of who had brought it, and here of who needed the room.
struct RequestAccount {
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t runs = 0, device_time_ns = 0;      ///< that ended or were lost so far; unit-nanoseconds
  uint64_t loads = 0, loaded_bytes = 0;       ///< of objects to a device, which nobody had needed before
  uint64_t evictions = 0, evicted_bytes = 0;  ///< objects, lanes' memory and contexts that left to make room for it
};

}  // namespace quern::daemon
