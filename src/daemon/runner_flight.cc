// SPDX-License-Identifier: Apache-2.0
//
// What is in flight on a device, asked of its executors: their control threads know which launches have ended, also
// while a lane sits in a vendor's call. An executor that does not answer in time may be stopped, stuck or hostile: the
// runs that its lanes are at count as in flight for as long as it is silent.
#include <algorithm>
#include <utility>

#include "daemon/runner.h"
#include "os/clock.h"

namespace quern::daemon {
namespace {

// An executor that loads a program answers when that is done: some 100 ms. One that was silent before is not waited
// for.
constexpr Duration kAnswerLimit = Duration::millis(150), kSilentLimit = Duration::millis(5);
// The number of the launch that a silent executor is taken to be at: one and the same, other than any that is told.
constexpr uint64_t kSilentLaunch = ~uint64_t{0};

}  // namespace

void Runner::carry_out(const sched::AskFlight& action) {
  const uint64_t device_id = action.device.value;
  const auto [it, is_new] = flights_.try_emplace(device_id);
  if (!is_new) return;  // it is being asked for, and whoever asks again hears of that answer
  PendingFlight& pending = it->second;
  pending.asked_at = os::now();
  pending.due = pending.asked_at + kSilentLimit;
  for (auto& [key, executor] : executors_) {
    if (executor.device != device_id || !executor.id || executor.pushed.empty() || executor.is_doomed) continue;
    // One question at a time: questions that nobody reads would fill the socket.
    if (!executor.is_asked) {
      const Status asked = executor.process->ask_flight();
      if (!asked.ok() && asked.error().code != ErrorCode::kExhausted)
        continue;  // it is gone, and the core is about to hear of it
      executor.is_asked = asked.ok();
    }
    pending.asked.insert(key);
    if (executor.silent_since.ns == 0) pending.due = pending.asked_at + kAnswerLimit;
  }
  if (pending.asked.empty()) finish_flight(device_id);
}

void Runner::take_flight(uint64_t key) {
  Executor& executor = executors_.at(key);
  const auto told = executor.process->take_flight();
  if (!told) return;
  if (!std::exchange(executor.is_asked, false))
    return doom(key, invalid("executor: tells what is in flight without being asked"));
  executor.silent_since = {0};
  const auto it = flights_.find(executor.device);
  if (it == flights_.end() || it->second.asked.erase(key) == 0) return;
  const Time now = os::now();
  for (const ipc::Flight::Launch& launch : told->launches) {
    // A stranger's numbers: only runs that it has count, each once, and none had more than there was.
    const auto run = runs_.find(launch.run);
    if (run == runs_.end() || run->second.executor != key || !run->second.pushed) continue;
    auto& launches = it->second.launches;
    if (std::any_of(launches.begin(), launches.end(), [&](const auto& one) { return one.run.value == launch.run; }))
      continue;
    const Time since = std::clamp(Time{launch.since_ns}, run->second.pushed_at, now);
    const auto used_ns = std::clamp<int64_t>(launch.used_ns, 0, (now - run->second.pushed_at).ns);
    launches.push_back({{launch.run}, std::min(launch.number, kSilentLaunch - 1), since, Duration{used_ns}});
  }
  if (it->second.asked.empty()) finish_flight(executor.device);
}

void Runner::leave_flight(uint64_t key) {
  const uint64_t device_id = executors_.at(key).device;
  const auto it = flights_.find(device_id);
  if (it != flights_.end() && it->second.asked.erase(key) > 0 && it->second.asked.empty()) finish_flight(device_id);
}

void Runner::finish_flight(uint64_t device_id) {
  sched::Flight flight{sched::DeviceId{device_id}, std::move(flights_.at(device_id).launches)};
  flights_.erase(device_id);
  std::stable_sort(flight.launches.begin(), flight.launches.end(),
                   [](const auto& one, const auto& two) { return one.since < two.since; });
  feed(std::move(flight));
}

Time Runner::check_flights(Time now) {
  Time next = Time::never();
  std::vector<uint64_t> due;
  for (const auto& [device_id, pending] : flights_) {
    if (now < pending.due)
      next = std::min(next, pending.due);
    else
      due.push_back(device_id);
  }
  // To finish one may end executors of other devices, and with them what is awaited there.
  for (const uint64_t device_id : due) {
    const auto it = flights_.find(device_id);
    if (it == flights_.end()) continue;
    add_silent(it->second);
    finish_flight(device_id);
  }
  return next;
}

void Runner::add_silent(PendingFlight& pending) {
  for (const uint64_t key : pending.asked) {
    Executor& executor = executors_.at(key);
    if (executor.silent_since.ns == 0) executor.silent_since = pending.asked_at;
    for (const uint64_t id : executor.pushed) {
      const LiveRun& run = runs_.at(id);
      if (!executor.process->running_launch(run.lane, id)) continue;
      pending.launches.push_back({{id}, kSilentLaunch, std::max(run.pushed_at, executor.silent_since), Duration{0}});
    }
  }
}

}  // namespace quern::daemon
