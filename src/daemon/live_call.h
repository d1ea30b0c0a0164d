// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "daemon/accounts.h"
#include "daemon/daemon.h"
#include "daemon/registry.h"
#include "ipc/arena.h"

namespace quern::daemon {

struct Lease;

/// Of Settings, or a ProgramSpec: in thousandths, at least one of what it is to have at all.
template <class Shares>
sched::Quota quota_of(const Shares& shares) {
  const auto thousandths = [](std::optional<double> share, uint32_t none) {
    return share ? std::clamp(static_cast<uint32_t>(*share * 1000 + 0.5), 1U, 1000U) : none;
  };
  sched::Quota quota;
  quota.request = thousandths(shares.time_request, quota.request);
  quota.limit = thousandths(shares.time_limit, quota.limit);
  quota.units = thousandths(shares.units, quota.units);
  return quota;
}

/// A call with what only the daemon knows of it.
struct LiveCall final : Call {
  uint64_t request = 0;
  const Tenant* tenant = nullptr;
  DeployedRef function;
  CachedPlanRef plan;
  std::vector<Scalar> scalars;
  /// One per input and output in the order of the plan. Shared with the run: a call may be answered (cancelled) while
  /// its kernel still reads and writes them.
  std::shared_ptr<std::vector<ipc::Block>> blocks;
  std::vector<std::shared_ptr<Lease>> kept;  ///< outputs that are to stay
  Duration timeout, device_time;
  uint8_t priority = 5;
  sched::Quota quota;
  bool profile = false;
  std::function<void(std::unique_ptr<Call>)> done;
  // Strand only: its neighbours among its tenant's calls (RequestList), and how it waits.
  LiveCall *newer = nullptr, *older = nullptr;
  CallWaits waits;
};

/// The end of a call: its caller has it again.
inline void give_back(std::unique_ptr<LiveCall> call) {
  --call->tenant->on_their_way;
  auto done = std::move(call->done);
  done(std::move(call));
}

}  // namespace quern::daemon
