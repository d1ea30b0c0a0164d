// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "sched/devices.h"

namespace quern::sched {

/// On which device does a request run? A policy gets a view and chooses; it never acts and stores nothing.
class Placement {
 public:
  virtual ~Placement() = default;
  /// One of `devices.idle()` with at least the memory the request needs; nothing if there is none.
  virtual std::optional<DeviceId> choose(const Devices& devices, const Request& request) const = 0;
};

}  // namespace quern::sched
