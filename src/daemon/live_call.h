// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "daemon/daemon.h"
#include "daemon/registry.h"
#include "ipc/arena.h"

namespace quern::daemon {

struct Lease;

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
  bool profile = false;
  std::function<void(std::unique_ptr<Call>)> done;
  // Strand only: its neighbours among its tenant's calls (RequestList).
  LiveCall *newer = nullptr, *older = nullptr;
};

/// The end of a call: its caller has it again.
inline void give_back(std::unique_ptr<LiveCall> call) {
  --call->tenant->on_their_way;
  auto done = std::move(call->done);
  done(std::move(call));
}

}  // namespace quern::daemon
