// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/kaas.h"

#include "sched/devices.h"
#include "sched/tenants.h"

namespace quern::sched {
namespace {

constexpr int64_t kAwayFromHome = 10;

}  // namespace

int64_t KaasFairness::rank(const Flow& flow, const Request&) const { return flow.vtime; }

Request* KaasFairness::instead(const Tenants& tenants, const Devices&, const Device& device, const Request& first,
                               const Config&) const {
  const Tenant& lowest = *tenants.find(first.submit.tenant);
  if (lowest.home == device.id) return nullptr;
  Request* request = tenants.first_at_home(device.id, device.usable_bytes());
  if (!request) return nullptr;
  const int64_t penalty = kAwayFromHome * first.estimate_ns / lowest.weight;
  return tenants.flow_of(*request).vtime <= tenants.flow_of(first).vtime + penalty ? request : nullptr;
}

}  // namespace quern::sched
