// SPDX-License-Identifier: Apache-2.0
#include "sim/fairness_checker.h"

#include <algorithm>
#include <utility>

namespace quern::sim {

void FairnessChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                              const sched::Scheduler& core) {
  if (config_.policy.fairness != "vtime") return;
  follow(now, event, actions);
  compare(now, core.standings(), core.lag());
}

void FairnessChecker::on_restart(Time) {
  shadow_.restart();
  tenants_.clear();
  next_.clear();
  slots_ = 0;
}

void FairnessChecker::follow(Time now, const sched::Event& event, std::span<const sched::Action> actions) {
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) shadow_.carry_out(now, action);
  slots_ = 0;
  for (const auto& [id, device] : shadow_.devices()) slots_ += device.is_up ? config_.runs_in_flight : 0;

  if (std::holds_alternative<sched::TenantSet>(event)) {
    // Also where the others start that have nothing to do follows from it.
    for (auto& [id, tenant] : tenants_) tenant.is_known = false;
    start_over({});
  }
  const auto* finished = std::get_if<sched::Finished>(&event);
  for (const auto& [id, run] : shadow_.ended()) {
    if (!finished) {
      // What a lost run used is nobody's report; whoever it is charged to, counting starts over.
      start_over({});
      break;
    }
    const auto tenant = shadow_.tenants().find(run.submit->tenant);
    const int64_t weight = tenant == shadow_.tenants().end() ? 1 : std::max<int64_t>(1, tenant->second.weight);
    longest_ns_ = std::max(longest_ns_, finished->device_time.ns);
    tenants_[run.submit->tenant].got_ns += finished->device_time.ns / weight;
  }
}

void FairnessChecker::start_over(std::set<sched::TenantId> next) {
  next_ = std::move(next);
  largest_bound_ns_ = 0;
  for (auto& [id, tenant] : tenants_) tenant.got_ns = 0;
}

void FairnessChecker::compare(Time now, const std::vector<sched::Scheduler::Standing>& standings,
                              sched::Scheduler::Lag lag) {
  expect(lag.lag <= lag.bound, now, "a tenant is {}ns behind, {}ns are allowed", lag.lag, lag.bound);

  std::set<sched::TenantId> next;
  int64_t lowest = INT64_MAX, highest = INT64_MIN;
  // One run may give back as much as was ever expected of one, and that is never more than one ever took.
  const int64_t refund = std::max(longest_ns_, config_.first_estimate.ns);
  for (const auto& standing : standings) {
    Tenant& tenant = tenants_[standing.tenant];
    const int64_t least = tenant.vtime - static_cast<int64_t>(tenant.in_flight) * (refund / standing.weight + 1);
    expect(!tenant.is_known || standing.vtime >= least, now, "t{} fell from {}ns to {}ns with {} runs in flight",
           standing.tenant.value, tenant.vtime, standing.vtime, tenant.in_flight);
    tenant.vtime = standing.vtime;
    tenant.in_flight = standing.in_flight;
    tenant.is_known = true;
    if (!standing.is_next) continue;
    next.insert(standing.tenant);
    lowest = std::min(lowest, standing.vtime);
    highest = std::max(highest, standing.vtime);
  }
  if (!next.empty())
    expect(highest - lowest <= lag.bound, now,
           "of those who wait, the first is at {}ns and the last at {}ns; {}ns are "
           "allowed",
           highest, lowest, lag.bound);

  largest_bound_ns_ = std::max(largest_bound_ns_, lag.bound);
  if (next != next_) {
    start_over(std::move(next));
    return;
  }
  if (next_.size() < 2) return;
  int64_t least = INT64_MAX, most = 0;
  sched::TenantId first, last;
  for (const sched::TenantId id : next_) {
    const int64_t got = tenants_.at(id).got_ns;
    if (got < least) least = got, last = id;
    if (got >= most) most = got, first = id;
  }
  const int64_t under_way = 2 * static_cast<int64_t>(slots_) * std::max(longest_ns_, config_.first_estimate.ns);
  expect(most - least <= 2 * largest_bound_ns_ + under_way, now,
         "while the same wait, t{} got {}ns by weight and t{} {}ns; {}ns apart are allowed", first.value, most,
         last.value, least, 2 * largest_bound_ns_ + under_way);
}

}  // namespace quern::sim
