// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "ipc/gate.h"

namespace quern::launcher {

/// What a launcher would put on the device next.
struct Ask {
  uint64_t parts = 1;  ///< that a kernel could be divided into, or what is left of it: groups, or rows of groups
  double part_ns = 0;  ///< how long one is expected to take; 0: the kernel was never seen
  bool sliceable = false;
  uint32_t in_flight = 0;     ///< launches that have not ended
  uint64_t in_flight_ns = 0;  ///< that they are expected to take together
};

/// How many parts may be launched now.
struct Permit {
  uint64_t parts = 0;  ///< 0: none; `why` says what to wait for
  enum class Why : uint8_t {
    kGo,
    kClosed,  ///< another grant
    kEarly,   ///< the grant's `from`
    kOver,    ///< another grant: it would not end by `until`
    kDepth,   ///< the end of something in flight
  } why = Why::kGo;
};

/// Decides from what it is given, and nothing else. `now_ns` matters only where the grant has a `from` or an `until`.
///
/// Never more in flight than the grant's depth, but always one launch; a kernel of more than two slices is cut, the
/// last slice before `until` to what is left, and what cannot end by then does not begin, unless the grant overdraws. A
/// kernel that was never seen shows itself in one slice of a 32nd.
Permit permit(const ipc::Grant& grant, const Ask& ask, int64_t now_ns);

}  // namespace quern::launcher
