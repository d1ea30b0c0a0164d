// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/placement.h"

namespace quern::sched {

/// A device belongs to one group at a time, as with a container that has a GPU (the eTask of KaaS): a group gets a
/// device nobody has, else, if it has none that is large enough, one that is taken from another, whose executor is
/// ended for it. What finds neither waits.
class ExclusivePlacement final : public Placement {
 public:
  std::optional<DeviceId> choose(const Devices& devices, const Request& request) const override;
  bool is_work_conserving() const override { return false; }
  bool wants_device_alone() const override { return true; }
};

}  // namespace quern::sched
