// SPDX-License-Identifier: Apache-2.0
#include "sim/liveness_checker.h"

namespace quern::sim {

void LivenessChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                              const sched::Scheduler& /*core*/) {
  steps_ = now == moment_ ? steps_ + 1 : 1;
  moment_ = now;
  expect(steps_ <= kMostSteps, now, "{} steps at one moment", steps_);
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) {
    if (const auto* wake = std::get_if<sched::WakeAt>(&action))
      expect(wake->time > now, now, "the core wants to be woken at {}ns, which was", wake->time.ns);
    shadow_.carry_out(now, action);
  }
}

void LivenessChecker::on_end(Time now, bool drained, const sched::Scheduler& core) {
  expect(shadow_.requests().empty(), now, "{} requests were never answered, the first is r{}",
         shadow_.requests().size(), shadow_.requests().empty() ? 0 : shadow_.requests().begin()->first.value);
  const auto counts = core.counts();
  expect(counts.queued == 0 && counts.running == 0, now, "all is over, and the core has {} queued and {} running",
         counts.queued, counts.running);
  expect(shadow_.runs().empty(), now, "{} runs never ended, the first is run{}", shadow_.runs().size(),
         shadow_.runs().empty() ? 0 : shadow_.runs().begin()->first.value);
  expect(drained, now, "work was left when time ran out");
}

}  // namespace quern::sim
