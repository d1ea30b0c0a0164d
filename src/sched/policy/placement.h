// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "sched/devices.h"

namespace quern::sched {

/// On which device does a request run? A policy gets a view and chooses; it never acts and stores nothing.
class Placement {
 public:
  virtual ~Placement() = default;
  /// One of `devices.idle()` with at least the memory the request needs; nothing if there is none, or if it is to wait
  /// for another all the same.
  virtual std::optional<DeviceId> choose(const Devices& devices, const Request& request) const = 0;
  /// Whether an idle device that fits is always taken.
  virtual bool is_work_conserving() const { return true; }
  /// Whether other executors on the device are ended first.
  virtual bool wants_device_alone() const { return false; }
};

}  // namespace quern::sched
