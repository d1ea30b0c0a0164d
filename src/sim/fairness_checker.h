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
/// what tenants really got, counted by what their runs report: while the same tenants wait for their turn, none gets
/// more device time by weight than another by more than twice the bound and what was under way at both ends. Also, what
/// was charged is given back only once. Holds for `vtime`.
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
  struct Tenant {
    int64_t vtime = 0;
    uint64_t in_flight = 0;
    int64_t got_ns = 0;  ///< of device time by weight, since `next_` is what it is
    bool is_known = false;
  };
  void start_over(std::set<sched::TenantId> next);

  const sched::Config config_;
  Shadow shadow_;
  std::map<sched::TenantId, Tenant> tenants_;
  std::set<sched::TenantId> next_;  // those that wait for their turn
  int64_t longest_ns_ = 0;          // of all runs that ended
  int64_t largest_bound_ns_ = 0;    // since next_ is what it is
  uint64_t slots_ = 0;              // of all devices
};

}  // namespace quern::sim
