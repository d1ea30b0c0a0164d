// SPDX-License-Identifier: Apache-2.0
#include "sim/pins_checker.h"

#include <algorithm>
#include <utility>

namespace quern::sim {

void PinsChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                          const sched::Scheduler& core) {
  shadow_.happened(now, event);
  note(now, event);
  const bool room_was_short = std::exchange(evictions_, core.counts().evictions) != evictions_;
  for (const sched::Action& action : actions) {
    if (const auto* kill = std::get_if<sched::KillExecutor>(&action)) {
      check(now, *kill);
      const bool is_choice = !kill->because && !is_stuck(now, kill->executor);
      if (!room_was_short && is_choice) check_kept(now, {kill->executor, std::nullopt});
    } else if (const auto* unload = std::get_if<sched::Unload>(&action)) {
      check(now, *unload);
      if (!room_was_short) check_kept(now, {unload->executor, unload->object});
      kept_.erase({unload->executor, unload->object});
    } else if (const auto* trim = std::get_if<sched::Trim>(&action)) {
      check(now, *trim);
    }
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
    if (core.progress(id) == sched::Scheduler::Progress::kPlaced && !shadow_.run_of(request)) placed.push_back(id);
  compare_all(now, every, placed);
}

void PinsChecker::on_restart(Time) {
  shadow_.restart();
  kept_.clear();
  evictions_ = 0;
}

// After the shadow took it in. What the core does about a Keep where the function is not running is its own affair; a
// run that ends while its function is kept leaves all it had there, for as long as nobody says otherwise.
void PinsChecker::note(Time now, const sched::Event& event) {
  const auto forget = [&](sched::FunctionId function) {
    for (auto& [what, functions] : kept_) functions.erase(function);
  };
  if (const auto* keep = std::get_if<sched::Keep>(&event);
      keep && (keep->until == Time::never() || keep->stage == sched::Stage::kNothing))
    forget(keep->function);
  if (const auto* gone = std::get_if<sched::FunctionGone>(&event)) forget(gone->function);
  if (!shadow_.ended().empty())
    std::erase_if(kept_, [&](const auto& entry) { return !shadow_.find(entry.first.first); });
  if (!std::holds_alternative<sched::Finished>(event)) return;
  for (const auto& [id, run] : shadow_.ended()) {
    const sched::FunctionId function = run.submit->function;
    const auto is_kept = [&](sched::Stage stage) { return shadow_.kept_until(function, stage) > now; };
    if (!is_kept(sched::Stage::kContext) || shadow_.find(run.executor)->own_function || run.is_doomed) continue;
    kept_[{run.executor, std::nullopt}].insert(function);
    if (!is_kept(sched::Stage::kHot)) continue;
    for (const sched::ObjectNeed& need : run.submit->objects)
      if (!need.passing && !run.lost.contains(need.object)) kept_[{run.executor, need.object}].insert(function);
  }
}

void PinsChecker::check_kept(Time now, const Kept& what) {
  // A device that belongs to one domain at a time is another's now, whoever wants what to be kept.
  const auto kept = kept_.find(what);
  if (kept == kept_.end() || config_.policy.placement == "exclusive") return;
  for (const sched::FunctionId function : kept->second) {
    const sched::Stage stage = what.second ? sched::Stage::kHot : sched::Stage::kContext;
    const Time until = shadow_.kept_until(function, stage);
    expect(until <= now, now, "{} leaves e{}, where f{} is to be kept {} until {}ns, and nobody needs the room",
           what.second ? fmt::format("o{}", what.second->value) : "the context", what.first.value, function.value,
           sched::name_of(stage), until.ns);
  }
}

void PinsChecker::check(Time now, const sched::Trim& action) {
  for (const auto& [id, run] : shadow_.runs())
    expect(run.executor != action.executor || run.lane != action.lane, now, "lane {} of e{} is trimmed under run{}",
           action.lane, action.executor.value, id.value);
}

// A run that was told to stop, and has had no launch on the device since, is stuck elsewhere in its executor.
bool PinsChecker::is_stuck(Time now, sched::ExecutorId executor) const {
  return std::any_of(shadow_.runs().begin(), shadow_.runs().end(), [&](const auto& entry) {
    const Shadow::Run& run = entry.second;
    return run.executor == executor && run.stopped <= now && now - run.stopped >= config_.prepare_grace;
  });
}

void PinsChecker::check(Time now, const sched::KillExecutor& action) {
  if (!action.because) {
    if (is_stuck(now, action.executor)) return;
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
    if (run.executor != action.executor || run.lost.contains(action.object)) continue;
    expect(!Shadow::needs(*run.submit, action.object), now, "o{} is unloaded from e{}, where run{} needs it",
           action.object.value, action.executor.value, id.value);
  }
}

void PinsChecker::compare(Time now, sched::DeviceId device, const sched::Scheduler::Books& books) {
  std::map<Shadow::ObjectKey, uint32_t> needed;
  std::map<Shadow::LaneKey, uint32_t> lanes;
  std::map<sched::ExecutorId, uint32_t> contexts;
  for (const auto& [id, run] : shadow_.runs()) {
    if (run.device != device) continue;
    for (const sched::ObjectNeed& need : run.submit->objects)
      if (!run.lost.contains(need.object)) ++needed[{run.executor, need.object}];
    for (const sched::Made& made : run.submit->makes) ++needed[{run.executor, made.object}];
    if (run.submit->memory_bytes > 0) ++lanes[{run.executor, run.lane}];
    ++contexts[run.executor];
  }
  for (const sched::Scheduler::Entry& entry : books.entries) {
    if (entry.kind == Kind::kLane)
      expect(entry.pins >= lanes[{entry.executor, entry.lane}], now,
             "d{}: a run is in lane {} of e{}, its books say no", device.value, entry.lane, entry.executor.value);
    if (entry.kind == Kind::kContext)
      expect(entry.pins >= contexts[entry.executor], now, "d{}: {} runs are on e{}, its books say {}", device.value,
             contexts[entry.executor], entry.executor.value, entry.pins);
    if (entry.kind != Kind::kObject) continue;
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
  for (const auto& [id, run] : shadow_.runs()) {
    for (const sched::ObjectNeed& need : run.submit->objects) needed[need.object] += !run.lost.contains(need.object);
    for (const sched::Made& made : run.submit->makes) ++needed[made.object];
  }
  for (const sched::RequestId id : placed) {
    for (const sched::ObjectNeed& need : shadow_.find(id)->submit->objects) ++needed[need.object];
    for (const sched::Made& made : shadow_.find(id)->submit->makes) ++needed[made.object];
  }
  for (const sched::Scheduler::Books& book : books)
    for (const sched::Scheduler::Entry& entry : book.entries)
      if (entry.kind == Kind::kObject && entry.pins > 0) pinned[entry.object] += entry.pins;
  for (const auto& [object, runs] : needed)
    expect(pinned[object] == runs, now, "{} runs need o{}, the books say {}", runs, object.value, pinned[object]);
  for (const auto& [object, pins] : pinned)
    expect(pins == 0 || needed.contains(object), now, "o{} is pinned {} times, and no run needs it", object.value,
           pins);
}

}  // namespace quern::sim
