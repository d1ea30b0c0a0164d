// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sched/policy/arbitration.h"
#include "sim/budgets.h"
#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Quotas are kept, of time and of units. After every step:
///
/// 1. What functions have of a device in any case lies within it, does not overlap, and is what they ask for. A call
///    that was let in has it, and is run there if that device can hold it.
/// 2. Who had its limit of a window is closed, and nobody else is closed for its quota. Who has a limit is open no
///    longer than it takes to have had it, and is asked what it used. When the next window begins someone wakes the
///    core for those that wait for it.
/// 3. Runs that have more than their limit have what was in flight on top, no more: of each the two largest pieces that
///    its function ever told of, and what the depth of a grant comes to where profiles are wrong by ten.
/// 4. Those that have work and are open use no more units than the device has; lanes of one function share theirs, and
///    those of one priority that use all of them count once. Nobody waits for units that are free. A run has the units
///    that its quota comes to.
/// 5. Who waits for units has them after two turns of everyone else, if nobody is more urgent: those that use many are
///    not kept away by those that use few.
class QuotaChecker final : public Checker {
 public:
  explicit QuotaChecker(const sched::Config& config);

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

 private:
  struct Launcher {
    sched::LauncherId id;
    sched::FunctionId function;
    sched::Quota quota;
    bool is_run = false, has_quota = false, is_spent = false;
    bool has_work = false;  ///< for certain
    bool may_have = false;  ///< work, or may have it without saying so
    uint32_t units = 1;     ///< that it uses
    uint8_t rank = 0;       ///< as GateChecker has it
    sched::Grant grant;
  };
  using Launchers = std::vector<Launcher>;
  using Place = std::pair<sched::FunctionId, sched::DeviceId>;
  struct Wait {
    Time since;
    size_t most_launchers = 0;  ///< on the device since then
  };

  void check_shares(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                    const sched::Scheduler& core);
  void check_overdraft(Time now, const sched::Event& event);
  void excuse(Time now, sched::FunctionId function);
  Launcher look_at(Time now, const Shadow::Run& run);
  Launcher look_at(Time now, sched::LauncherId id, const Shadow::Program& program);
  void look_at_quota(Time now, sched::DeviceId device, Launcher& launcher);
  void check_time(Time now, sched::DeviceId device, const Launcher& launcher);
  void check_units(Time now, sched::DeviceId device, const Launchers& launchers);
  void check_waits(Time now, sched::DeviceId device, const Launchers& launchers);

  const sched::Config config_;
  const sched::Arbitration arbitration_;
  Shadow shadow_;
  Budgets budgets_;
  std::map<sched::FunctionId, Duration> largest_;  // piece that a launcher told of at once
  std::map<sched::LauncherId, Time> closed_;       // since when, or since it last told what it used
  std::map<Place, Duration> excused_;              // that was too much because less was allowed afterwards
  std::map<sched::RunId, Duration> told_;
  std::set<sched::RunId> placed_;
  std::map<sched::LauncherId, Wait> waits_;
};

}  // namespace quern::sim
