// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/exclusive.h"

namespace quern::sched {

std::optional<DeviceId> ExclusivePlacement::choose(const Devices& devices, const Request& request) const {
  if (const auto own = devices.idle_with(request.group).first(request.bytes)) return own;
  if (const auto blank = devices.idle_blank().first(request.bytes)) return blank;
  if (devices.has_with(request.group, request.bytes)) return std::nullopt;
  return devices.idle().first(request.bytes);
}

}  // namespace quern::sched
