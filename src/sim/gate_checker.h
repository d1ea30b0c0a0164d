// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sched/policy/arbitration.h"
#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Gates are as dispatch promises. A grant makes sense by itself: who gets it exists, it differs from the one before,
/// comes before other actions, and if it is open it lets something through. And after every step, on every device:
///
/// 1. While a run has work and is let through, every less urgent launcher is closed, but for its turn: what it was owed
///    of its least share while it was closed, a millisecond or little more.
/// 2. The runs that have work and are more urgent than all others are let through without end, unless someone more
///    urgent may be back at any moment: a program, a function that paused for 50 ms at the most, or whose call came in
///    the last 2 ms. So a device that someone could use does not idle.
/// 3. Where there is a least share, who has work is closed no longer than it takes to be owed a turn, and 50 ms.
///
/// A dispatch that closes nothing closes nothing. Budgets within a grant are the launchers' affair.
class GateChecker final : public Checker {
 public:
  explicit GateChecker(const sched::Config& config);

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

 private:
  /// What is known of the gate of a lane that has a run, since it has it, or of a program.
  struct Gate {
    Time counted;                      ///< what it is owed is known up to then
    bool was_open = true;              ///< since then
    double owed_ns = 0;                ///< at the most
    Time turn_until = {0};             ///< it may be open so long, whoever is more urgent
    Time waits_since = Time::never();  ///< it has work and is closed
  };
  /// Who is on a device, after a step.
  struct Launcher {
    sched::LauncherId id;
    uint8_t level = 0;
    bool is_run = false;
    bool has_work = false;  ///< for certain
    bool may_have = false;  ///< work, or may have it without saying so
    sched::Grant grant;
    bool lets(Time now) const { return grant.open && (now < grant.until || grant.beyond.ns > 0); }
  };
  using Launchers = std::vector<Launcher>;
  /// When who may be back was last seen, by level.
  struct Place {
    std::array<Time, sched::kLeastUrgent + 1> paused, called;
    Place();
  };

  void note(Time now, const sched::Event& event);
  void check(Time now, const sched::Grant& grant);
  Launcher look_at(const Shadow::Run& run) const;
  Launcher look_at(sched::LauncherId id, const Shadow::Program& program) const;
  void check(Time now, sched::DeviceId device, const Launchers& launchers);
  void check_turn(Time now, const Launcher& launcher, bool is_conflict);
  void check_wait(Time now, const Launcher& launcher);
  /// Whether someone more urgent than this, who has no work, may be back at any moment.
  bool may_return(Time now, sched::DeviceId device, uint8_t level) const;

  const sched::Config config_;
  const sched::Arbitration arbitration_;
  const double share_;
  Shadow shadow_;
  std::map<sched::LauncherId, Gate> gates_;
  std::map<sched::DeviceId, Place> places_;
  std::map<std::pair<sched::DeviceId, sched::FunctionId>, uint8_t> levels_;  // at which a function ran there last
};

}  // namespace quern::sim
