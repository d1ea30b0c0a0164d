// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/vtime.h"

#include "sched/devices.h"
#include "sched/mutant.h"
#include "sched/tenants.h"

namespace quern::sched {

int64_t VtimeFairness::rank(const Flow& flow, const Request&) const {
  if (QUERN_MUTANT(14)) return -flow.vtime;
  return flow.vtime;
}

Request* VtimeFairness::instead(const Tenants& tenants, const Devices& devices, const Device& device,
                                const Request& first, const Config& config) const {
  if (devices.has_all(device, first)) return nullptr;
  const int64_t most = tenants.flow_of(first).vtime + config.locality.ns * (QUERN_MUTANT(15) ? 100000 : 1);
  Request* best = nullptr;
  int64_t best_vtime = 0;
  for (const FunctionId function : device.recent) {
    Request* request = tenants.first_of(function);
    if (!request || request->level != first.level || request->bytes > device.usable_bytes() || request->attempt > 1)
      continue;
    const int64_t vtime = tenants.flow_of(*request).vtime;
    if (vtime > most || (best && vtime >= best_vtime)) continue;
    if (!tenants.may_go(*request) || !devices.has_all(device, *request)) continue;
    best = request;
    best_vtime = vtime;
  }
  return best;
}

}  // namespace quern::sched
