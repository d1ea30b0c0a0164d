// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

RunRecord* Scheduler::Impl::find_run(RunId id) {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : &found->second;
}

void Scheduler::Impl::send(RunRecord& run) {
  run.sent = true;
  requests_.at(run.request).run = run.id;
  const Ledger::Item* lane = nullptr;
  if (run.has_lane) lane = devices_.find(run.device)->ledger.find({run.executor, Ledger::lane_id(run.lane)});
  if (run.quota.units < Rectangles::kWhole) {
    run.units = dispatch_.units_of(run.device, run.quota);
    run.first_unit = dispatch_.first_unit_of(run.device, run.function, run.quota);
  }
  act(Run{.run = run.id,
          .request = run.request,
          .executor = run.executor,
          .lane = run.lane,
          .lane_bytes = lane ? lane->bytes : 0,
          .level = QUERN_MUTANT(48) ? LevelNo{0} : run.level,
          .units = run.units,
          .first_unit = run.first_unit});
  begin_launching(run);
  run.sent_at = run.known_at = now_;
  watch(run);
  watch_beside(run);
}

void Scheduler::Impl::on(const Started& event) {
  RunRecord* run = find_run(event.run);
  if (!run || !run->sent || run->started) return;
  run->started = true;
  dispatch_.run_ready(lane_of(run->executor, run->lane), now_);
}

void Scheduler::Impl::on(const Finished& event) {
  RunRecord* run = find_run(event.run);
  if (!run || !run->sent) return;
  if (event.ends_executor && !QUERN_MUTANT(81)) begin_end(*devices_.find(run->executor));
  dispatch_.run_used(lane_of(run->executor, run->lane), event.device_time, event.started, now_);
  // What needs no memory of its own cannot have found too little.
  uint64_t needed = round_up(run->memory_bytes);
  for (const Made& made : run->makes) needed += round_up(made.bytes);
  settle_made(*run, !event.failed);
  if (event.failed && event.no_room && needed > 0) {
    Device& device = *devices_.find(run->device);
    if (std::exchange(run->has_lane, false)) gone(device, {run->executor, Ledger::lane_id(run->lane)});
    run->broken = run->no_room = true;
    const RunId id = run->id;
    could_not_give(device, devices_.find(run->executor)->group.domain, needed);
    run = find_run(id);
  }
  if (event.failed && run->broken && run->stop == RunRecord::Stop::kNone && !QUERN_MUTANT(40)) return come_back(*run);
  if (Request* request = find_request(run->request)) {
    // A run that was told to stop and completed all the same has a result, and its caller still waits for it.
    if (!event.failed || QUERN_MUTANT(22)) {
      answer(*request, End::kDone);
    } else {
      answer(*request, run->stop == RunRecord::Stop::kLimit ? End::kDeadlineRunning : End::kFailed);
    }
  }
  if (!event.failed) {
    const FunctionId function = run->function;
    if (!blame_.is_gone(function)) estimates_.learn(function, event.device_time.ns);
    const bool had_own = blame_.has_own_executor(function);
    blame_.ended_well(function);
    if (had_own && !blame_.has_own_executor(function)) {
      regroup(function);
      retire_all(function);
    }
  }
  // A launch that failed is a crash like any other: whoever shares an executor with the function would lose runs again
  // and again.
  if (event.ends_executor && event.failed && !run->broken && !QUERN_MUTANT(82)) {
    blame_.killed(run->function, now_);
    regroup(run->function);
  }
  erase(*run, event.device_time.ns);
}

void Scheduler::Impl::stop(RunRecord& run, RunRecord::Stop why) {
  run.stop = why;
  run.stopped_at = now_;
  const Executor& executor = *devices_.find(run.executor);
  if (executor.state == Executor::State::kEnding) {
    timers_.arm(run.id, run.timer, Time::never());
    return;
  }
  act(StopRun{run.id});
  timers_.arm(run.id, run.timer, now_ + std::max(grace_of(run), Duration{1}));
  devices_.no_company(executor);
}

void Scheduler::Impl::erase(RunRecord& run, std::optional<int64_t> used_ns) {
  timers_.arm(run.id, run.timer, Time::never());
  const FunctionId function = run.function;
  Device& device = *devices_.find(run.device);
  if (run.sent) {
    device.ends.push_back({run.executor, run.sent_at, now_, run.units, run.first_unit});
    if (device.ends.size() > Device::kMostEnds) {
      device.forgotten_end = device.ends.front().left;
      device.ends.pop_front();
    }
  }
  tenants_.ended(run, used_ns);
  for (const ObjectNeed& need : run.objects) device.ledger.unpin({run.executor, need.object}, now_);
  for (const Made& made : run.makes) device.ledger.unpin({run.executor, made.object}, now_);
  if (run.has_lane) device.ledger.unpin({run.executor, Ledger::lane_id(run.lane)}, now_);
  device.ledger.unpin({run.executor, Ledger::kContext}, now_);
  host_waiting_.erase(run.id);
  while (!run.host_pins.empty()) {
    const ObjectId object = *run.host_pins.begin();
    // A load that goes on without it still needs it there.
    Ledger::Item* item = device.ledger.find({run.executor, object});
    const bool is_loading = item && item->state == Ledger::State::kLoading && !item->from_host;
    if (!is_loading) {
      release_host(run, object);
      continue;
    }
    item->from_host = true;
    run.host_pins.erase(object);
  }
  stay(device, run);
  if (run.sent) {
    dispatch_.run_ended(lane_of(run.executor, run.lane), now_);
    if (blame_.is_gone(function)) dispatch_.forget(function);
  }
  if (is_own(run.level)) homes_.release(function, now_);
  Executor* executor = devices_.find(run.executor);
  if (executor) devices_.remove_run(*executor, run);
  runs_.erase(run.id);
  blame_.release(function);
  touched_.insert(device.id);
  if (!executor || !executor->runs.empty()) return;
  if (executor->state == Executor::State::kPlanned) {
    devices_.drop_executor(executor->id);
    return;
  }
  retire(*executor);
}

void Scheduler::Impl::withdraw(RunRecord& run) {
  Request& request = requests_.at(run.request);
  erase(run);
  enqueue(request);
}

}  // namespace quern::sched
