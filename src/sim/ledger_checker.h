// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Device memory: what is asked for fits at that moment, is asked for once, of an executor that is up; a run starts
/// only where all it needs is; and the core's ledger is what a shell would count. After memory was lost more may be
/// held than there is, but nothing is added.
class LedgerChecker final : public Checker {
 public:
  LedgerChecker() : Checker("ledger") {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

  /// The core's books of a device against the shadow.
  void compare(Time now, sched::DeviceId device, const sched::Scheduler::Books& books);

 private:
  void check(Time now, const sched::StartExecutor& action);
  void check(Time now, const sched::KillExecutor& action);
  void check(Time now, const sched::Load& action);
  void check(Time now, const sched::Unload& action);
  void check(Time now, const sched::Run& action);
  void check(Time /*now*/, const sched::StopRun& /*action*/) {}
  void check(Time /*now*/, const sched::Answer& /*action*/) {}
  void check(Time /*now*/, const sched::WakeAt& /*action*/) {}
  void check_room(Time now, const char* what, sched::DeviceId device, uint64_t bytes);
  const Shadow::Executor* check_up(Time now, const char* what, sched::ExecutorId executor);

  Shadow shadow_;
  uint64_t steps_ = 0;
};

}  // namespace quern::sim
