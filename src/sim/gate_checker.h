// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sched/policy/arbitration.h"
#include "sim/budgets.h"
#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Gates are as dispatch promises. A grant makes sense by itself: who gets it exists, it differs from the one before,
/// comes before other actions, and if it is open it lets something through. And after every step, on every device:
///
/// 1. While a run has work and is let through, every less urgent launcher is closed, but for its turn: what it was owed
///    of its least share while it was closed, a millisecond or little more; and for the last moments of a run of its
///    own executor, once, where the gap after it is granted ahead.
/// 2. The runs that have work and are more urgent than all others are let through without end, unless someone more
///    urgent may be back at any moment: a program, a function that paused for 50 ms at the most, or whose call came in
///    the last 2 ms. So a device that someone could use does not idle.
/// 3. Where there is a least share, who has work is closed no longer than it takes to be owed a turn, and 50 ms.
///
/// Of one priority those are more urgent that had less of this window than they are to have in any case. Who had its
/// limit is in nobody's way, and waits for no gate. Where launchers use parts of the units, 1 and 2 are QuotaChecker's.
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
    double share = 0;                  ///< of the time that it is owed, as it was then
    Time turn_until = {0};             ///< it may be open so long, whoever is more urgent
    bool is_new = false;               ///< that turn begins with this step
    Time waits_since = Time::never();  ///< it has work and is closed
    sched::RunId ahead_of = {0};       ///< the run at whose end it was let through last
    Time ahead_until = {0};
  };
  /// Who is on a device, after a step.
  struct Launcher {
    sched::LauncherId id;
    uint8_t rank = 0;  ///< two for each priority: the first for who had less than it is to have
    bool is_run = false;
    sched::RunId run = {0};
    sched::Quota quota = {};
    bool is_spent = false;
    bool is_paced = false;  ///< a window's request is worth several turns
    Duration behind = {0};  ///< its request, as far as the window is over
    bool has_work = false;  ///< for certain
    bool may_have = false;  ///< work, or may have it without saying so
    bool yields = false;    ///< its executor gives way by itself to those more urgent
    sched::Grant grant;
    bool lets(Time now) const { return grant.open && now >= grant.from && (now < grant.until || grant.beyond.ns > 0); }
  };
  using Launchers = std::vector<Launcher>;
  /// When who may be back was last seen, by level.
  struct Place {
    std::array<Time, sched::kLeastUrgent + 1> paused, called;
    Place();
  };

  void note(Time now, const sched::Event& event);
  void note_yields(sched::DeviceId device, Launchers& launchers) const;
  void check(Time now, const sched::Grant& grant);
  Launcher look_at(Time now, sched::RunId id, const Shadow::Run& run);
  Launcher look_at(Time now, sched::LauncherId id, const Shadow::Program& program);
  void look_at_quota(Time now, sched::FunctionId function, sched::DeviceId device, Launcher& launcher);
  void check(Time now, sched::DeviceId device, const Launchers& launchers);
  /// What it is owed grows while it is closed; when it opens, that may be its turn.
  void note_turn(Time now, const Launcher& launcher, bool has_parts);
  /// `through`: the most urgent run that is let through.
  void check_turn(Time now, const Launcher& launcher, const Launcher* through);
  void check_wait(Time now, const Launcher& launcher, size_t launchers);
  /// Whether someone more urgent than this, who has no work, may be back at any moment.
  bool may_return(Time now, sched::DeviceId device, uint8_t rank) const;

  const sched::Config config_;
  const sched::Arbitration arbitration_;
  const double share_;
  Shadow shadow_;
  Budgets budgets_;
  std::map<sched::LauncherId, Gate> gates_;
  std::map<sched::DeviceId, Place> places_;
  std::map<std::pair<sched::DeviceId, sched::FunctionId>, uint8_t> levels_;  // at which a function ran there last
};

}  // namespace quern::sim
