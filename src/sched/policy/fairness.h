// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "sched/request.h"
#include "sched/scheduler.h"

namespace quern::sched {

struct Flow;
struct Device;
class Tenants;
class Devices;

/// Whose turn is it? A policy gets a view and chooses; it never acts and stores nothing.
class Fairness {
 public:
  virtual ~Fairness() = default;
  /// Where a tenant stands among those that wait at one level; the lowest is next, ties go to the lower id. `first` is
  /// its oldest request of some size class.
  virtual int64_t rank(const Flow& flow, const Request& first) const = 0;
  /// Who goes on this device instead of `first`, because the device has what it needs; null: nobody does. Of the same
  /// level.
  virtual Request* instead(const Tenants& /*tenants*/, const Devices& /*devices*/, const Device& /*device*/,
                           const Request& /*first*/, const Config& /*config*/) const {
    return nullptr;
  }
  /// Whether more urgent requests go first; else all are of level 0.
  virtual bool has_levels() const { return false; }
  /// Whether a tenant belongs to a device. Not together with levels.
  virtual bool gives_homes() const { return false; }
};

}  // namespace quern::sched
