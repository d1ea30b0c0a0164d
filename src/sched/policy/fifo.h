// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/fairness.h"
#include "sched/policy/placement.h"

namespace quern::sched {

/// First come, first served, whoever it is.
class FifoFairness final : public Fairness {
 public:
  int64_t rank(const Flow& flow, const Request& first) const override;
};

/// The first idle device that has an executor of the request's group, else the first idle device, in the order of ids.
/// An idle device wins over room beside a run of the same group, even if an executor must be started there: two runs in
/// flight hide the gaps of one device, but do not make it two.
class FifoPlacement final : public Placement {
 public:
  std::optional<DeviceId> choose(const Devices& devices, const Request& request) const override;
};

}  // namespace quern::sched
