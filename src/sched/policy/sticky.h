// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/placement.h"

namespace quern::sched {

/// Where the wait is shortest: of the idle devices one that still has all that the function needs, else one that has a
/// context for it, else one with nothing on it, else any. Nothing waits for a busy device while another is idle.
class StickyPlacement final : public Placement {
 public:
  std::optional<DeviceId> choose(const Devices& devices, const Request& request) const override;
};

}  // namespace quern::sched
