// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/fifo.h"

namespace quern::sched {

int64_t FifoFairness::rank(const Flow&, const Request& first) const { return static_cast<int64_t>(first.arrival); }

std::optional<DeviceId> FifoPlacement::choose(const Devices& devices, const Request& request) const {
  if (const auto ready = devices.idle_with(request.group).first(request.bytes)) return ready;
  return devices.idle().first(request.bytes);
}

}  // namespace quern::sched
