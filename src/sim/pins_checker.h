// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// What a run needs stays until it ended: no object of it leaves, nor the memory of its lane, its executor is killed
/// only because a run of it passed its limit and was told to stop before, and the pins in the core's books are the runs
/// that need the entry. What is kept for a function stays where it ran, unless its room is needed.
class PinsChecker final : public Checker {
 public:
  explicit PinsChecker(const sched::Config& config)
      : Checker("pins"), config_(config), shadow_(config.granularity_bytes) {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

  /// Pins of one device: at least the runs that were sent there.
  void compare(Time now, sched::DeviceId device, const sched::Scheduler::Books& books);
  /// Pins of all devices: exactly the runs that were sent, and `placed`, the requests that have a slot and wait there.
  void compare_all(Time now, const std::vector<sched::Scheduler::Books>& books,
                   const std::vector<sched::RequestId>& placed);

 private:
  using Kind = sched::Scheduler::Entry::Kind;
  /// Of an executor: an object, or its context.
  using Kept = std::pair<sched::ExecutorId, std::optional<sched::ObjectId>>;

  void note(Time now, const sched::Event& event);
  void check(Time now, const sched::KillExecutor& action);
  void check(Time now, const sched::Unload& action);
  void check(Time now, const sched::Trim& action);
  /// A run of the executor was told to stop, did not, and has nothing on the device.
  bool is_stuck(Time now, sched::ExecutorId executor) const;
  /// It leaves, and nothing left for want of room.
  void check_kept(Time now, const Kept& what);

  const sched::Config config_;
  Shadow shadow_;
  // Functions that ran there while they were kept, and are since then.
  std::map<Kept, std::set<sched::FunctionId>> kept_;
  uint64_t evictions_ = 0;  // before this step
  uint64_t steps_ = 0;
};

}  // namespace quern::sim
