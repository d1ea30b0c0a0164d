// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// No tenant falls behind further than is promised: the lag the core states is within the bound it states, and so is
/// what tenants really got, counted by what their runs report: while the same tenants wait for their turn at a level,
/// none gets more device time by weight there than another by more than twice the bound and what was under way at both
/// ends. Also, what was charged is given back only once, and no level of a tenant is above where it says it stands.
/// Holds for `vtime`.
class FairnessChecker final : public Checker {
 public:
  explicit FairnessChecker(const sched::Config& config) : Checker("fairness"), config_(config) {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

  /// Events and actions of a step, into the books of what each tenant got.
  void follow(Time now, const sched::Event& event, std::span<const sched::Action> actions);
  /// The core's view after it, against them.
  void compare(Time now, const std::vector<sched::Scheduler::Standing>& standings, sched::Scheduler::Lag lag);

 private:
  /// A tenant at a level.
  struct Flow {
    int64_t vtime = 0;
    uint64_t in_flight = 0;  ///< of its tenant, at all levels
    int64_t got_ns = 0;      ///< of device time by weight, since those that wait are the same
    bool is_known = false;
  };
  struct Level {
    std::set<sched::TenantId> next;  ///< those that wait for their turn
    int64_t largest_bound_ns = 0;    ///< since they are the same
    std::map<sched::TenantId, Flow> flows;
  };
  /// Of those that wait at a level.
  struct Waiting {
    std::set<sched::TenantId> next;
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
  };
  static void start_over(Level& level, std::set<sched::TenantId> next);
  void start_over();
  void compare(Time now, const sched::Scheduler::Standing& standing, std::map<sched::LevelNo, Waiting>& waiting);
  void compare(Time now, Level& level);

  const sched::Config config_;
  Shadow shadow_;
  std::map<sched::LevelNo, Level> levels_;
  int64_t longest_ns_ = 0;  // of all runs that ended
  uint64_t slots_ = 0;      // of all devices, at one level
};

}  // namespace quern::sim
