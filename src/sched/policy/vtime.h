// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/fairness.h"

namespace quern::sched {

/// The tenant with the lowest virtual time; a device may prefer one whose function it ran lately and still has, while
/// that tenant is at most Config::locality ahead of the lowest.
class VtimeFairness final : public Fairness {
 public:
  int64_t rank(const Flow& flow, const Request& first) const override;
  Request* instead(const Tenants& tenants, const Devices& devices, const Device& device, const Request& first,
                   const Config& config) const override;
  bool has_levels() const override { return true; }
};

}  // namespace quern::sched
