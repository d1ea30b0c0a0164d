// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// The memory of devices and of the host: what is asked for fits at that moment, is asked for once, of an executor that
/// is up, and of the host only where it is; a run is sent only where all it needs is or was asked for; what is on the
/// host stays while someone reads it there; what nobody needs leaves when its time is over; and the core's ledgers are
/// what a shell would count. After memory was lost more may be held than there is, but nothing is added.
class LedgerChecker final : public Checker {
 public:
  explicit LedgerChecker(const sched::Config& config);

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

  /// The core's books of a device against the shadow.
  void compare(Time now, sched::DeviceId device, const sched::Scheduler::Books& books);
  /// The same of the host. When it is to leave is the core's affair until it does.
  void compare_host(Time now, const sched::Scheduler::Books& books);

 private:
  using Entry = sched::Scheduler::Entry;

  void check(Time now, const sched::Event& event);
  void check(Time now, const sched::StartExecutor& action);
  void check(Time now, const sched::KillExecutor& action);
  void check(Time now, const sched::Fetch& action);
  void check(Time now, const sched::Forget& action);
  void check(Time now, const sched::Load& action);
  void check(Time now, const sched::Unload& action);
  void check(Time now, const sched::Trim& action);
  void check(Time now, const sched::Run& action);
  void check(Time /*now*/, const sched::Prepare& /*action*/) {}
  void check(Time /*now*/, const sched::Grant& /*action*/) {}
  void check(Time /*now*/, const sched::StopRun& /*action*/) {}
  void check(Time /*now*/, const sched::AskFlight& /*action*/) {}
  void check(Time /*now*/, const sched::Answer& /*action*/) {}
  void check(Time /*now*/, const sched::WakeAt& /*action*/) {}
  void check_room(Time now, const char* what, sched::DeviceId device, uint64_t bytes);
  const Shadow::Executor* check_up(Time now, const char* what, sched::ExecutorId executor);
  /// Whether the entry is there as the shadow has it; what is only promised is not there yet.
  bool compare(Time now, sched::DeviceId device, const Entry& entry);
  /// What may leave leaves in time, and the core is woken for it.
  void check_stay(Time now, const Entry& entry);

  const sched::Config config_;
  const bool overlaps_;  // runs are sent before all their loads ended
  Shadow shadow_;
  std::optional<sched::ObjectId> unread_;  // by this event: a fetch of it failed
  uint64_t steps_ = 0;
};

}  // namespace quern::sim
