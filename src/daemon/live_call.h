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

/// A tensor of a call that the device has as an object: an input that comes as one, or an output that stays.
struct PassingTensor {
  PassingRef number;
  uint32_t block = 0;    ///< which of LiveCall::blocks
  std::string name;      ///< for showing to people
  Duration lease = {0};  ///< of an output
};

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
  std::vector<uint32_t> borrowed;            ///< which of them are objects
  std::vector<std::shared_ptr<Lease>> kept;  ///< outputs that are to stay
  /// Where a device has memory of its own: what passes to it as objects, what it is left with, and the former as the
  /// core sees it, each once.
  std::vector<PassingTensor> passes, leaves;
  std::vector<sched::ObjectNeed> passing;
  /// The next of `blocks` is an object for devices with memory of their own.
  void pass(PassingRef number, uint64_t size_bytes, std::string name);
  /// Nothing reads its inputs any more: those that are objects are let go.
  void release_objects();
  /// What a run of it takes on a device, without a context.
  uint64_t device_bytes() const {
    uint64_t bytes = plan->run_bytes + function->object_bytes();
    for (const sched::ObjectNeed& need : passing) bytes += need.bytes;
    for (const PassingTensor& tensor : leaves) bytes += (*blocks)[tensor.block].size();
    return bytes;
  }

  Duration timeout, device_time;
  uint8_t priority = 5;
  sched::Quota quota;
  bool profile = false;
  std::function<void(std::unique_ptr<Call>)> done;
  // Strand only: its neighbours among its tenant's calls (RequestList), and how it waits.
  LiveCall *newer = nullptr, *older = nullptr;
  CallWaits waits;
};

/// Which inputs (by buffer) a device with memory of its own is to have as objects.
std::vector<uint32_t> passed_inputs(const Manifest& manifest, const Plan& plan, const CallSpec& spec,
                                    const CallOptions& options);

/// The end of a call: its caller has it again.
inline void give_back(std::unique_ptr<LiveCall> call) {
  --call->tenant->on_their_way;
  auto done = std::move(call->done);
  done(std::move(call));
}

}  // namespace quern::daemon
