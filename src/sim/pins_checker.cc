// SPDX-License-Identifier: Apache-2.0
#include "sim/pins_checker.h"

#include <algorithm>

namespace quern::sim {

namespace {
constexpr uint64_t kAllEvery = 64;  // steps: to look at every device and request costs as much as there are
}

void PinsChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                          const sched::Scheduler& core) {
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) {
    if (const auto* kill = std::get_if<sched::KillExecutor>(&action)) check(now, *kill);
    if (const auto* unload = std::get_if<sched::Unload>(&action)) check(now, *unload);
    shadow_.carry_out(now, action);
  }

  const bool all = ++steps_ % kAllEvery == 0;
  std::vector<sched::Scheduler::Books> every;
  for (const auto& [id, device] : shadow_.devices()) {
    if (!device.is_up || !(all || shadow_.touched().contains(id))) continue;
    auto books = core.books(id);
    if (!books) continue;
    compare(now, id, *books);
    every.push_back(std::move(*books));
  }
  if (!all) return;
  std::vector<sched::RequestId> placed;
  for (const auto& [id, request] : shadow_.requests())
    if (core.stage(id) == sched::Scheduler::Stage::kPlaced && !shadow_.run_of(request)) placed.push_back(id);
  compare_all(now, every, placed);
}

void PinsChecker::on_restart(Time) { shadow_.restart(); }

void PinsChecker::check(Time now, const sched::KillExecutor& action) {
  if (!action.because) {
    for (const auto& [id, run] : shadow_.runs())
      expect(run.executor != action.executor, now, "e{} is killed under run{}, which did nothing",
             action.executor.value, id.value);
    return;
  }
  const Shadow::Run* run = shadow_.find(*action.because);
  expect(run && run->executor == action.executor && run->stopped < now, now,
         "e{} is killed because of run{}, which was not told to stop there", action.executor.value,
         action.because->value);
}

void PinsChecker::check(Time now, const sched::Unload& action) {
  for (const auto& [id, run] : shadow_.runs()) {
    if (run.executor != action.executor) continue;
    expect(!Shadow::needs(*run.submit, action.object), now, "o{} is unloaded from e{}, where run{} needs it",
           action.object.value, action.executor.value, id.value);
  }
}

void PinsChecker::compare(Time now, sched::DeviceId device, const sched::Scheduler::Books& books) {
  std::map<Shadow::ObjectKey, uint32_t> needed;
  for (const auto& [id, run] : shadow_.runs()) {
    if (run.device != device) continue;
    for (const sched::ObjectNeed& need : run.submit->objects) ++needed[{run.executor, need.object}];
  }
  for (const sched::Scheduler::Entry& entry : books.entries) {
    const auto found = needed.find({entry.executor, entry.object});
    const uint32_t runs = found == needed.end() ? 0 : found->second;
    expect(entry.pins >= runs, now, "d{}: {} runs need o{} on e{}, its books say {}", device.value, runs,
           entry.object.value, entry.executor.value, entry.pins);
    if (found != needed.end()) needed.erase(found);
  }
  expect(needed.empty(), now, "d{}: o{} on e{} is needed by a run and not in its books", device.value,
         needed.empty() ? 0 : needed.begin()->first.second.value,
         needed.empty() ? 0 : needed.begin()->first.first.value);
}

void PinsChecker::compare_all(Time now, const std::vector<sched::Scheduler::Books>& books,
                              const std::vector<sched::RequestId>& placed) {
  std::map<sched::ObjectId, uint32_t> needed, pinned;
  for (const auto& [id, run] : shadow_.runs())
    for (const sched::ObjectNeed& need : run.submit->objects) ++needed[need.object];
  for (const sched::RequestId id : placed)
    for (const sched::ObjectNeed& need : shadow_.find(id)->submit->objects) ++needed[need.object];
  for (const sched::Scheduler::Books& book : books)
    for (const sched::Scheduler::Entry& entry : book.entries)
      if (entry.pins > 0) pinned[entry.object] += entry.pins;
  for (const auto& [object, runs] : needed)
    expect(pinned[object] == runs, now, "{} runs need o{}, the books say {}", runs, object.value, pinned[object]);
  for (const auto& [object, pins] : pinned)
    expect(pins == 0 || needed.contains(object), now, "o{} is pinned {} times, and no run needs it", object.value,
           pins);
}

}  // namespace quern::sim
