// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/fifo.h"

namespace quern::sched {

std::optional<DeviceId> FifoPlacement::choose(const Devices& devices, const Request& request) const {
  const uint64_t need = request.submit.memory_bytes;
  if (const auto ready = devices.idle_with(request.group).first(need)) return ready;
  return devices.idle().first(need);
}

}  // namespace quern::sched
