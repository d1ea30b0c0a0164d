// SPDX-License-Identifier: Apache-2.0
//
// How long a run was on the device, and whose launch does not end.
//
// A device executes launches in the order in which they were made, and tells nobody which of them it is at. (A device
// that divides its time among executors, DeviceUp::shares_time, does so for each executor by itself.) But lanes
// know which launch of theirs has not ended (Flight), and so the oldest of those, among runs that share units, is the
// one that the device is at: the run is "in front". The time of a run on the device is the time of its launches that
// ended, and the time since its launch came to the front. Whether its gate is open does not matter: what was launched
// goes on. Waiting behind another launch does not count, and nobody is blamed for it.
//
// Nothing is told without being asked. A run that is alone on its device is asked for when its limit may have passed.
// Where runs are side by side, which of them is in front is asked for every Config::flight_sample, if one of them has a
// limit that comes before its deadline.
#include <algorithm>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

namespace {

// A shell answers at once. Should it ever not, the question is put again.
constexpr Duration kAskAgain = Duration::seconds(1);
// A run that was not launched yet is not asked for more often, however short its limit.
constexpr Duration kLeastWait = Duration::micros(100);
// Nor is a run that is not in front: between its launches, or behind another's launch, its time stands still.
constexpr Duration kLeastBehind = Duration::millis(1);

template <class One, class Other>
bool shares_units(const One& one, const Other& other) {
  if (one.units == 0 || other.units == 0) return true;
  return one.first_unit < other.first_unit + other.units && other.first_unit < one.first_unit + one.units;
}

}  // namespace

Time Scheduler::Impl::deadline_of(const RunRecord& run) {
  const Request* request = find_request(run.request);
  return request ? request->submit.deadline : Time::never();
}

bool Scheduler::Impl::is_beside(const RunRecord& one, const RunRecord& other) const {
  return one.id != other.id && one.sent && other.sent && one.device == other.device && shares_units(one, other) &&
         (one.executor == other.executor || !devices_.find(one.device)->shares_time || QUERN_MUTANT(79));
}

// What was learned too late is made up for: limit and grace together are a promise to the others.
Duration Scheduler::Impl::grace_of(const RunRecord& run) const {
  if (run.stop != RunRecord::Stop::kLimit) return config_.stop_grace;
  const Duration late = run.is_sampled ? config_.flight_sample : std::min(run.late, config_.flight_sample);
  return config_.stop_grace - std::min(late, config_.stop_grace);
}

void Scheduler::Impl::ask_flight(DeviceId device) {
  const bool is_asked = std::any_of(actions_.begin(), actions_.end(), [&](const Action& action) {
    const auto* ask = std::get_if<AskFlight>(&action);
    return ask && ask->device == device;
  });
  if (!is_asked) act(AskFlight{device});
}

void Scheduler::Impl::look(RunRecord& run) {
  if (!run.sent) {
    // Its executor is still getting ready: to its caller, it waited too long.
    answer(requests_.at(run.request), End::kDeadlineQueued);
    return erase(run);
  }
  if (devices_.find(run.executor)->state == Executor::State::kEnding) {
    // What became of it is known when the executor is gone; its caller waits no longer.
    Request* request = find_request(run.request);
    const bool is_late = request && now_ >= request->submit.deadline;
    timers_.arm(run.id, run.timer, request && !is_late ? request->submit.deadline : Time::never());
    if (is_late) {
      answer(*request, run.launched ? End::kDeadlineRunning : End::kDeadlineQueued);
      run.stop = RunRecord::Stop::kGivenUp;
    }
    return;
  }
  ask_flight(run.device);
  timers_.arm(run.id, run.timer, now_ + kAskAgain);
}

void Scheduler::Impl::watch(RunRecord& run) {
  const Time deadline = deadline_of(run);
  Time next = deadline;
  if (run.device_time != Duration::forever()) {
    // The earliest time at which it can have had all that it may have.
    const Time since = run.front != 0 ? run.front_since : run.known_at;
    const Duration behind = run.launched ? std::min(kLeastBehind, config_.flight_sample) : kLeastWait;
    const Duration least = run.front != 0 ? Duration{1} : behind;
    const Time limit = std::max(since + (run.device_time - run.used), run.known_at + least);
    const Device& device = *devices_.find(run.device);
    bool is_alone = true;
    for (const ExecutorId id : device.serving_executors())
      for (const auto& [other_id, other] : devices_.find(id)->runs) is_alone &= !is_beside(run, *other);
    const Time sample = run.known_at + std::max(config_.flight_sample, least);
    if (limit < deadline) next = is_alone || QUERN_MUTANT(77) ? limit : std::min(limit, sample);
  }
  if (next <= now_) {  // it is being asked for
    next = now_ + (run.front != 0 ? Duration{1} : kLeastWait);
    if (deadline > now_) next = std::min(next, deadline);
  }
  timers_.arm(run.id, run.timer, next);
}

void Scheduler::Impl::watch_beside(const RunRecord& run) {
  for (const ExecutorId id : devices_.find(run.device)->serving_executors())
    for (const auto& [other_id, other] : devices_.find(id)->runs)
      if (is_beside(run, *other) && other->stop == RunRecord::Stop::kNone) watch(*other);
}

void Scheduler::Impl::on(const Flight& event) {
  const Device* device = devices_.find(event.device);
  if (!device || !device->up) return;
  std::vector<RunId> sent;
  for (const ExecutorId id : device->serving_executors()) {
    const Executor& executor = *devices_.find(id);
    if (executor.state == Executor::State::kEnding) continue;
    for (const auto& [run_id, run] : executor.runs)
      if (run->sent) sent.push_back(run_id);
  }
  for (const RunId id : sent) {
    const auto launch = std::find_if(event.launches.begin(), event.launches.end(),
                                     [&](const Flight::Launch& one) { return one.run == id; });
    note_front(runs_.at(id), event, launch == event.launches.end() ? nullptr : &*launch);
  }
  // To judge one may end another: its executor is killed.
  for (const RunId id : sent)
    if (RunRecord* run = find_run(id)) judge(*run);
}

void Scheduler::Impl::note_front(RunRecord& run, const Flight& event, const Flight::Launch* launch) {
  run.known_at = now_;
  run.in_flight = launch && launch->number != 0;
  if (launch) {
    run.launched = true;
    run.used = launch->used;
  }
  if (!run.in_flight) {
    run.front = 0;
    return;
  }
  for (const Flight::Launch* before = event.launches.data(); before != launch; ++before) {
    const RunRecord* other = find_run(before->run);
    if (before->number == 0 || !other || !is_beside(run, *other) || QUERN_MUTANT(80)) continue;
    run.front = 0;
    return;
  }
  if (run.front == launch->number) return;
  run.front = launch->number;
  // Nobody had an older launch since the last of those left that could have had one. Where one is still there that
  // could, it is only known that by now it has not.
  const Device& device = *devices_.find(run.device);
  run.is_sampled = device.forgotten_end > launch->since;
  for (const ExecutorId id : device.serving_executors())
    for (const auto& [other_id, other] : devices_.find(id)->runs)
      run.is_sampled |= is_beside(run, *other) && other->sent_at <= launch->since;
  run.front_since = run.is_sampled ? now_ : std::min(now_, launch->since);
  for (const Device::End& end : device.ends) {
    // The end of a run is heard of a moment after it.
    if (end.sent > launch->since || end.left <= run.front_since || !shares_units(run, end)) continue;
    if (device.shares_time && end.executor != run.executor) continue;
    run.front_since = end.left;
    run.is_sampled = true;
  }
}

void Scheduler::Impl::judge(RunRecord& run) {
  if (run.stop != RunRecord::Stop::kNone) return judge_stopped(run);
  Duration used = run.used;
  if (run.front != 0) used = used + (now_ - run.front_since);
  if (QUERN_MUTANT(43) && !dispatch_.is_open(lane_of(run.executor, run.lane))) used = {0};
  const bool is_late = now_ >= deadline_of(run);
  if (!is_late && (used < run.device_time || !run.launched)) return watch(run);
  if (run.launched) {
    if (is_late) run.is_sampled = false;  // its grace counts from its deadline, whenever it came to the front
    run.late = is_late ? Duration{0} : used - run.device_time;
    return stop(run, RunRecord::Stop::kLimit);
  }
  answer(requests_.at(run.request), End::kDeadlineQueued);
  stop(run, RunRecord::Stop::kGivenUp);
}

void Scheduler::Impl::judge_stopped(RunRecord& run) {
  const Time grace = run.stopped_at + grace_of(run);
  if (run.in_flight && run.front == 0 && !QUERN_MUTANT(78)) {
    // The device is at the launch of another: this one cannot end, and its caller need not wait for that.
    if (Request* request = find_request(run.request); request && now_ >= grace) {
      answer(*request, End::kDeadlineRunning);
      run.stop = RunRecord::Stop::kGivenUp;
    }
    return timers_.arm(run.id, run.timer, now_ + config_.flight_sample);
  }
  Time due = std::max(run.stopped_at, run.front_since) + grace_of(run);
  if (!run.in_flight) {
    due = run.stopped_at + config_.prepare_grace;
    if (now_ < due && now_ < grace) due = grace;
  }
  if (now_ < due) return timers_.arm(run.id, run.timer, due);
  timers_.arm(run.id, run.timer, Time::never());
  if (QUERN_MUTANT(23)) return;
  std::optional<RunId> culprit = run.id;
  if (QUERN_MUTANT(76)) culprit = devices_.find(run.executor)->runs.begin()->first;
  if (!run.in_flight) {
    // No kernel of it is on the device: its executor is stuck elsewhere, and nobody is to blame.
    if (Request* request = find_request(run.request)) answer(*request, End::kDeadlineRunning);
    run.stop = RunRecord::Stop::kGivenUp;
    culprit.reset();
  }
  kill(*devices_.find(run.executor), culprit);
}

}  // namespace quern::sched
