// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Every limit of Config and of a tenant holds: requests and memory in flight, requests that wait, how urgent they may
/// be, levels of a device, runs of a level and of an executor, attempts, and that no run is told to stop before it had
/// its time on the device. What runs alone has the device alone. Who is refused because of a limit has reached it. A
/// run that was announced is sent as it was.
class LimitsChecker final : public Checker {
 public:
  explicit LimitsChecker(const sched::Config& config);

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

  /// What the core says of its tenants against the shadow.
  void compare(Time now, const std::vector<sched::Scheduler::Standing>& standings);

 private:
  struct Use {
    uint64_t runs = 0, bytes = 0;
  };
  using Progress = sched::Scheduler::Progress;

  sched::Limits limits_of(sched::TenantId tenant) const;
  uint64_t most_queued_of(sched::TenantId tenant) const;
  uint64_t queued_of(sched::FunctionId function, const sched::Scheduler& core) const;
  void check(Time now, const sched::Prepare& action);
  void check(Time now, const sched::Run& action);
  void check_beside(Time now, const sched::Run& action, const Shadow::Executor& executor,
                    const Shadow::Request& request);
  void check(Time now, const sched::StopRun& action);
  void check_times(Time now);
  void check_door(Time now, const sched::Submit& submit, std::span<const sched::Action> actions,
                  const sched::Scheduler& core);
  void check_all(Time now, const sched::Scheduler& core, const std::vector<sched::Scheduler::Standing>& standings);

  const sched::Config config_;
  const bool has_levels_, shares_nothing_;  // what the policies say
  Shadow shadow_;
  // Runs that were announced and not sent: of which request, and where. Some are never heard of again.
  std::map<sched::RunId, sched::Prepare> prepared_;
  uint64_t queued_ = 0;                                   // before this step
  std::map<sched::TenantId, uint64_t> queued_of_tenant_;  // before this step
  uint64_t steps_ = 0;
};

}  // namespace quern::sim
