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
  levels_.clear();
  slots_ = 0;
}

void FairnessChecker::follow(Time now, const sched::Event& event, std::span<const sched::Action> actions) {
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) shadow_.carry_out(now, action);
  slots_ = 0;
  for (const auto& [id, device] : shadow_.devices()) slots_ += device.is_up ? config_.runs_in_flight : 0;

  if (std::holds_alternative<sched::TenantSet>(event)) {
    // Also where the others start that have nothing to do follows from it.
    for (auto& [number, level] : levels_)
      for (auto& [id, flow] : level.flows) flow.is_known = false;
    start_over();
  }
  const auto* finished = std::get_if<sched::Finished>(&event);
  for (const auto& [id, run] : shadow_.ended()) {
    if (!finished) {
      // What a lost run used is nobody's report; whoever it is charged to, counting starts over.
      start_over();
      break;
    }
    const auto tenant = shadow_.tenants().find(run.submit->tenant);
    const int64_t weight = tenant == shadow_.tenants().end() ? 1 : std::max<int64_t>(1, tenant->second.weight);
    longest_ns_ = std::max(longest_ns_, finished->device_time.ns);
    levels_[run.level].flows[run.submit->tenant].got_ns += finished->device_time.ns / weight;
  }
}

void FairnessChecker::start_over(Level& level, std::set<sched::TenantId> next) {
  level.next = std::move(next);
  level.largest_bound_ns = 0;
  for (auto& [id, flow] : level.flows) flow.got_ns = 0;
}

void FairnessChecker::start_over() {
  for (auto& [number, level] : levels_) start_over(level, {});
}

void FairnessChecker::compare(Time now, const std::vector<sched::Scheduler::Standing>& standings,
                              sched::Scheduler::Lag lag) {
  expect(lag.lag <= lag.bound, now, "a tenant is {}ns behind, {}ns are allowed", lag.lag, lag.bound);
  std::map<sched::LevelNo, Waiting> waiting;
  for (const auto& standing : standings) compare(now, standing, waiting);
  for (auto& [number, level] : levels_) {
    Waiting& those = waiting[number];
    if (!those.next.empty())
      expect(those.highest - those.lowest <= lag.bound, now,
             "of those who wait at level {}, the first is at {}ns and the last at {}ns; {}ns are allowed", number,
             those.highest, those.lowest, lag.bound);
    level.largest_bound_ns = std::max(level.largest_bound_ns, lag.bound);
    if (those.next != level.next)
      start_over(level, std::move(those.next));
    else if (level.next.size() > 1)
      compare(now, level);
  }
}

void FairnessChecker::compare(Time now, const sched::Scheduler::Standing& standing,
                              std::map<sched::LevelNo, Waiting>& waiting) {
  // One run may give back as much as was ever expected of one, and that is never more than one ever took.
  const int64_t refund = std::max(longest_ns_, config_.first_estimate.ns);
  for (const auto& now_at : standing.flows) {
    Flow& flow = levels_[now_at.level].flows[standing.tenant];
    const int64_t least = flow.vtime - static_cast<int64_t>(flow.in_flight) * (refund / standing.weight + 1);
    expect(!flow.is_known || now_at.vtime >= least, now,
           "t{} fell from {}ns to {}ns at level {} with {} runs in flight", standing.tenant.value, flow.vtime,
           now_at.vtime, now_at.level, flow.in_flight);
    expect(now_at.vtime <= standing.vtime, now, "t{} is at {}ns, and at {}ns at level {}", standing.tenant.value,
           standing.vtime, now_at.vtime, now_at.level);
    flow.vtime = now_at.vtime;
    flow.in_flight = standing.in_flight;
    flow.is_known = true;
    if (!now_at.is_next) continue;
    Waiting& those = waiting[now_at.level];
    those.next.insert(standing.tenant);
    those.lowest = std::min(those.lowest, now_at.vtime);
    those.highest = std::max(those.highest, now_at.vtime);
  }
}

void FairnessChecker::compare(Time now, Level& level) {
  int64_t least = INT64_MAX, most = 0;
  sched::TenantId first, last;
  for (const sched::TenantId id : level.next) {
    const int64_t got = level.flows.at(id).got_ns;
    if (got < least) least = got, last = id;
    if (got >= most) most = got, first = id;
  }
  const int64_t under_way = 2 * static_cast<int64_t>(slots_) * std::max(longest_ns_, config_.first_estimate.ns);
  expect(most - least <= 2 * level.largest_bound_ns + under_way, now,
         "while the same wait, t{} got {}ns by weight and t{} {}ns; {}ns apart are allowed", first.value, most,
         last.value, least, 2 * level.largest_bound_ns + under_way);
}

}  // namespace quern::sim
