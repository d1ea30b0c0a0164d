// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

void Scheduler::Impl::on(const LauncherUp& event) {
  const Device* device = devices_.find(event.device);
  if (!device || !device->up) return;
  dispatch_.program_up(
      {event.launcher, event.device, event.function, std::min(event.priority, kLeastUrgent), event.quota, {}}, now_);
}

// What it needs may still be on its way: until then it can put nothing on the device that anyone would wait for.
void Scheduler::Impl::begin_launching(RunRecord& run) {
  const LauncherId lane = lane_of(run.executor, run.lane);
  const Duration expected{estimates_.knows(run.function) ? estimates_.of(run.function) : 0};
  dispatch_.run_began({lane, run.device, run.function, priority_of(run.level), run.quota, expected}, run.id,
                      has_all_objects(run), now_);
}

bool Scheduler::Impl::has_all_objects(const RunRecord& run) const {
  const Ledger& ledger = devices_.find(run.device)->ledger;
  return std::all_of(run.objects.begin(), run.objects.end(), [&](const ObjectNeed& need) {
    const Ledger::Item* item = ledger.find({run.executor, need.object});
    return item && item->state == Ledger::State::kResident;
  });
}

// Grants go first: who is closed stops sooner, and a run finds its gate as it is to be.
void Scheduler::Impl::set_gates() {
  const auto changes = dispatch_.decide(now_);
  if (changes.empty()) return;
  std::vector<Action> actions;
  for (const Dispatch::Change& change : changes) actions.push_back(change.grant);
  actions_.insert(QUERN_MUTANT(45) ? actions_.end() : actions_.begin(), actions.begin(), actions.end());
}

}  // namespace quern::sched
