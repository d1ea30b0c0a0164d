// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/sticky.h"

namespace quern::sched {

std::optional<DeviceId> StickyPlacement::choose(const Devices& devices, const Request& request) const {
  // Of several that ran it lately the first is looked at: it is the one that was taken first last time too, so that
  // what is not needed can leave the others.
  if (const auto home = devices.idle_home(request.submit.function, request.bytes))
    if (devices.has_all(*devices.find(*home), request)) return home;
  if (const auto ready = devices.idle_with(request.group).first(request.bytes)) return ready;
  if (const auto blank = devices.idle_blank().first(request.bytes)) return blank;
  return devices.idle().first(request.bytes);
}

}  // namespace quern::sched
