// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/fairness.h"

namespace quern::sched {

/// The affinity policy of KaaS: every tenant is at home on one device, and a device takes the tenant with the lowest
/// virtual time, where being away from home counts as ten requests.
class KaasFairness final : public Fairness {
 public:
  int64_t rank(const Flow& flow, const Request& first) const override;
  Request* instead(const Tenants& tenants, const Devices& devices, const Device& device, const Request& first,
                   const Config& config) const override;
  bool gives_homes() const override { return true; }
};

}  // namespace quern::sched
