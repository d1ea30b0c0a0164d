// SPDX-License-Identifier: Apache-2.0
#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

void Scheduler::Impl::on(const DeviceUp& event) {
  const Device* device = devices_.find(event.device);
  if (device && device->up) return;
  if (device) tenants_.remove_size(device->usable_bytes());
  devices_.up(event.device, event.memory_bytes, round_up(event.context_bytes), event.in_place, event.units);
  devices_.find(event.device)->shares_time = event.shares_time;
  tenants_.add_size(devices_.find(event.device)->usable_bytes());
  dispatch_.device_up(event.device, devices_.find(event.device)->units, event.classes);
  bring_unplaced();
}

void Scheduler::Impl::on(const DeviceDown& event) {
  const Device* device = devices_.find(event.device);
  if (!device || !device->up) return;
  for (const ExecutorId executor : devices_.executors_of(event.device)) lose(executor, std::nullopt);
  devices_.down(event.device);
  homes_.device_down(event.device);
}

void Scheduler::Impl::on(const ExecutorUp& event) {
  Executor* executor = devices_.find(event.executor);
  if (!executor || executor->state != Executor::State::kStarting) return;
  executor->state = Executor::State::kUp;
  prices_.started(executor->device, now_ - executor->asked);
  devices_.find(executor->device)->ledger.loaded({executor->id, Ledger::kContext}, now_);
  touched_.insert(executor->device);
  retire(*executor);
}

void Scheduler::Impl::on(const ExecutorLost& event) {
  const Executor* executor = devices_.find(event.executor);
  if (!executor || executor->state == Executor::State::kPlanned) return;
  if (executor->state == Executor::State::kStarting) ++failed_starts_;
  lose(event.executor, event.culprit, event.suspects);
}

void Scheduler::Impl::lose(ExecutorId id, std::optional<RunId> culprit, const std::vector<RunId>& suspects) {
  const Executor& executor = *devices_.find(id);
  const auto lost = executor.runs;
  const auto killed_because = executor.killed_because;
  Device& device = *devices_.find(executor.device);
  touched_.insert(device.id);
  dropped(device, device.ledger.drop_executor(id));
  devices_.drop_executor(id);
  for (uint32_t lane = 0; lane < config_.all_lanes(); ++lane) dispatch_.gone(lane_of(id, lane), now_);
  device.ahead.reset();

  std::optional<FunctionId> killer;
  if (culprit && lost.contains(*culprit)) {
    killer = lost.at(*culprit)->function;
  } else if (killed_because && lost.contains(*killed_because) &&
             lost.at(*killed_because)->stop == RunRecord::Stop::kLimit) {
    killer = lost.at(*killed_because)->function;
  }
  for (const auto& [run_id, run] : lost) {
    Request* request = find_request(run->request);
    if (!request) continue;
    if (run_id == culprit) {
      answer(*request, End::kFaulted);
    } else if (run->stop == RunRecord::Stop::kLimit) {
      answer(*request, End::kDeadlineRunning);
    }
  }
  // The verdict comes before the others return: it decides where, and whether, they wait.
  if (killer) {
    blame_.killed(*killer, now_);
    regroup(*killer);
  }
  for (const RunId suspect : suspects) {
    const auto run = lost.find(suspect);
    if (run == lost.end() || QUERN_MUTANT(83)) continue;
    blame_.suspected(run->second->function);
    regroup(run->second->function);
  }
  for (const auto& [run_id, run] : lost) {
    Request* request = find_request(run->request);
    // Who broke it pays for what was expected; the others used nothing that was of use to them.
    const bool pays = run_id == culprit || run_id == killed_because || run->stop == RunRecord::Stop::kLimit;
    erase(*run, pays ? std::nullopt : std::optional<int64_t>(0));
    if (request) give_back(*request);
  }
}

void Scheduler::Impl::dropped(Device& device, const std::vector<std::pair<Ledger::Key, Ledger::Item>>& items) {
  for (const auto& [key, item] : items) {
    if (item.exit_at != Time::never()) exits_.erase({item.exit_at, {device.id, key}});
    if (item.from_host) unpin_on_host(key.second);
    unmapped(key);
  }
}

void Scheduler::Impl::begin_end(Executor& executor) {
  if (executor.state == Executor::State::kEnding) return;
  devices_.find(executor.device)->ledger.end_executor(executor.id);
  devices_.end_executor(executor);
}

void Scheduler::Impl::kill(Executor& executor, std::optional<RunId> because, std::optional<Room> room) {
  if (executor.state == Executor::State::kEnding) return;
  executor.killed_because = because;
  begin_end(executor);
  act(KillExecutor{.executor = executor.id, .because = because, .room = room});
}

void Scheduler::Impl::retire(Executor& executor) {
  const auto function = executor.group.own_function;
  if (!function || !executor.runs.empty()) return;
  const bool has_own = blame_.has_own_executor(*function) || setup_->share != Setup::Share::kDomain;
  if (!has_own || blame_.is_gone(*function)) kill(executor, std::nullopt);
}

void Scheduler::Impl::retire_all(FunctionId function) {
  for (const ExecutorId id : devices_.executors_of(function)) retire(*devices_.find(id));
}

}  // namespace quern::sched
