// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// What a run needs stays until it ended: no object of it leaves, its executor is killed only because a run of it
/// passed its limit and was told to stop before, and the pins in the core's books are the runs that need the entry.
class PinsChecker final : public Checker {
 public:
  PinsChecker() : Checker("pins") {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

  /// Pins of one device: at least the runs that were sent there.
  void compare(Time now, sched::DeviceId device, const sched::Scheduler::Books& books);
  /// Pins of all devices: exactly the runs that were sent, and `placed`, the requests that have a slot and wait there.
  void compare_all(Time now, const std::vector<sched::Scheduler::Books>& books,
                   const std::vector<sched::RequestId>& placed);

 private:
  void check(Time now, const sched::KillExecutor& action);
  void check(Time now, const sched::Unload& action);

  Shadow shadow_;
  uint64_t steps_ = 0;
};

}  // namespace quern::sim
