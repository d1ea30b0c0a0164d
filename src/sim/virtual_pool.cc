// SPDX-License-Identifier: Apache-2.0
#include "sim/virtual_pool.h"

#include <algorithm>

#include "sim/draws.h"

namespace quern::sim {
namespace {

constexpr Duration kToKill = Duration::millis(1), kToFree = Duration::micros(5);
constexpr Duration kLatestBoundary = Duration::millis(1);  ///< from a closed gate to the end of the kernel that runs
constexpr Duration kLatestReport = Duration::millis(50);
constexpr int kSlowLoad = 20;
constexpr uint64_t kFailedBit = uint64_t{1} << 32;

Duration copy_time(uint64_t bytes, uint64_t per_second) {
  const auto ns = static_cast<unsigned __int128>(bytes) * 1'000'000'000 / std::max<uint64_t>(per_second, 1);
  constexpr auto kMost = static_cast<unsigned __int128>(int64_t{1} << 60);
  return {static_cast<int64_t>(std::min(ns, kMost))};
}

}  // namespace

VirtualPool::VirtualPool(const Model& model, Agenda& agenda, Faults& faults)
    : agenda_(agenda), faults_(faults), models_(model.devices) {
  for (const DeviceModel& one : models_)
    for (uint32_t i = 0; i < one.count; ++i) {
      Device& device = devices_.emplace_back();
      device.model = &one;
      device.memory_bytes = one.memory_bytes;
    }
}

sched::DeviceUp VirtualPool::up_event(size_t index) const {
  const Device& device = devices_[index];
  return {sched::DeviceId{index + 1}, device.memory_bytes, device.model->context_bytes};
}

void VirtualPool::carry_out(Time now, const sched::StartExecutor& action) {
  const auto index = static_cast<uint32_t>(action.device.value - 1);
  Device& device = devices_.at(index);
  const uint64_t id = action.executor.value;
  Executor& executor = executors_.add(id);
  executor.device = index;
  executor.up_at = now + device.model->context;
  executor.live_at = static_cast<uint32_t>(live_.size());
  live_.push_back(id);
  device.executors.push_back(id);
  const bool fails = !device.is_up || faults_.strikes(Fault::kFailedStart);
  agenda_.put(executor.up_at, fails ? Agenda::Kind::kExecutorGone : Agenda::Kind::kExecutorUp, id);
}

void VirtualPool::carry_out(Time now, const sched::KillExecutor& action) {
  Executor* executor = executors_.find(action.executor.value);
  if (!executor || executor->is_dead || executor->is_killed) return;
  executor->is_killed = true;
  agenda_.put(now + kToKill, Agenda::Kind::kExecutorGone, action.executor.value);
}

void VirtualPool::carry_out(Time now, const sched::Load& action) {
  Executor* executor = executors_.find(action.executor.value);
  if (!executor || executor->is_dead) return;
  Device& device = device_of(*executor);
  Duration takes = device.model->load_latency + copy_time(action.bytes, device.model->copy_bytes_per_second);
  if (faults_.strikes(Fault::kSlowLoad)) takes.ns *= kSlowLoad;
  const bool fails = faults_.strikes(Fault::kFailedLoad);
  device.copies_until = std::max({now, executor->up_at, device.copies_until}) + takes;
  executor->loads.push_back({static_cast<uint32_t>(action.object.value), device.copies_until});
  agenda_.put(device.copies_until, Agenda::Kind::kLoaded, action.executor.value,
              action.object.value | (fails ? kFailedBit : 0));
}

void VirtualPool::carry_out(Time now, const sched::Unload& action) {
  Executor* executor = executors_.find(action.executor.value);
  if (!executor || executor->is_dead) return;
  Time due = now + kToFree;
  for (const Copy& copy : executor->loads)
    if (copy.object == action.object.value) due = std::max(due, copy.due);
  agenda_.put(due, Agenda::Kind::kUnloaded, action.executor.value, action.object.value);
}

void VirtualPool::carry_out(Time now, const sched::Run& action, Duration work, bool can_hang,
                            const std::vector<uint32_t>& objects) {
  Executor* executor = executors_.find(action.executor.value);
  if (!executor || executor->is_dead) return;
  Device& device = device_of(*executor);
  Run& run = runs_.add(action.run.value);
  run.executor = action.executor.value;
  run.device = executor->device;
  run.can_hang = can_hang;
  run.takes = device.model->speed == 1 ? work : whole_duration(static_cast<double>(work.ns) / device.model->speed);
  run.ready = std::max(now, executor->up_at);
  for (const Copy& copy : executor->loads)
    if (std::find(objects.begin(), objects.end(), copy.object) != objects.end())
      run.ready = std::max(run.ready, copy.due);
  run.ready = run.ready + device.model->launch;
  device.runs.push_back(action.run.value);
  advance(now, device);
}

void VirtualPool::carry_out(Time now, const sched::StopRun& action) {
  Run* run = runs_.find(action.run.value);
  if (!run || run->is_stopped) return;
  run->is_stopped = true;
  if (!run->is_started || run->is_hung) return;
  const Time boundary = now + faults_.draw_between({1}, kLatestBoundary);
  if (boundary >= run->ends) return;
  run->is_cut = true;
  run->ends = boundary;
  agenda_.put(boundary, Agenda::Kind::kRunEnds, action.run.value);
}

void VirtualPool::happen(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard) {
  switch (entry.kind()) {
    case Agenda::Kind::kRunStarts:
      return run_starts(now, entry.a, heard);
    case Agenda::Kind::kRunEnds:
      return run_ends(now, entry.a, heard);
    case Agenda::Kind::kReport:
      return report_arrives(entry.a, entry.b, heard);
    case Agenda::Kind::kDeviceUp:
      return device_back(entry.a, heard);
    case Agenda::Kind::kMemoryBack:
      return memory_back(entry.a, heard);
    default:
      break;
  }
  Executor* executor = executors_.find(entry.a);
  if (!executor || executor->is_dead) return;
  const sched::ExecutorId id{entry.a};
  switch (entry.kind()) {
    case Agenda::Kind::kExecutorUp:
      return tell(now, entry.a, sched::ExecutorUp{id}, {0}, heard);
    case Agenda::Kind::kExecutorGone:
      return lose(now, entry.a, std::nullopt, heard);
    case Agenda::Kind::kLoaded: {
      const sched::ObjectId object{entry.b & ~kFailedBit};
      auto& loads = executor->loads;
      const auto load =
          std::find_if(loads.begin(), loads.end(), [&](const Copy& copy) { return copy.object == object.value; });
      if (load != loads.end()) loads.erase(load);
      return tell(now, entry.a, sched::Loaded{id, object, (entry.b & kFailedBit) != 0}, {0}, heard);
    }
    case Agenda::Kind::kUnloaded:
      return tell(now, entry.a, sched::Unloaded{id, sched::ObjectId{entry.b}}, {0}, heard);
    default:
      return;
  }
}

void VirtualPool::tell(Time now, uint64_t executor_id, const sched::Event& event, Duration delay,
                       std::vector<sched::Event>& heard) {
  Executor& executor = *executors_.find(executor_id);
  if (faults_.strikes(Fault::kLateEvent)) delay = delay + faults_.draw_between({1}, kLatestReport);
  if (delay.ns == 0 && executor.underway == 0) {
    heard.push_back(event);
    return;
  }
  uint32_t slot = 0;
  if (free_underway_.empty()) {
    slot = static_cast<uint32_t>(underway_.size());
    underway_.push_back(event);
  } else {
    slot = free_underway_.back();
    free_underway_.pop_back();
    underway_[slot] = event;
  }
  ++executor.underway;
  executor.reports_until = std::max(now + delay, executor.reports_until);
  agenda_.put(executor.reports_until, Agenda::Kind::kReport, slot, executor_id);
}

void VirtualPool::report_arrives(uint64_t slot, uint64_t executor_id, std::vector<sched::Event>& heard) {
  heard.push_back(underway_[slot]);
  free_underway_.push_back(static_cast<uint32_t>(slot));
  Executor* executor = executors_.find(executor_id);
  if (!executor) return;
  --executor->underway;
  if (std::holds_alternative<sched::ExecutorLost>(heard.back())) executors_.erase(executor_id);
}

void VirtualPool::run_starts(Time now, uint64_t id, std::vector<sched::Event>& heard) {
  Run* run = runs_.find(id);
  if (!run || run->is_started) return;
  run->is_started = true;
  run->started = now;
  if (run->is_stopped) {
    run->is_cut = true;
    run->ends = now;
    return run_ends(now, id, heard);
  }
  run->ends = now + run->takes;
  agenda_.put(run->ends, Agenda::Kind::kRunEnds, id);
  tell(now, run->executor, sched::Started{sched::RunId{id}}, {0}, heard);
}

void VirtualPool::run_ends(Time now, uint64_t id, std::vector<sched::Event>& heard) {
  const Run* run = runs_.find(id);
  if (!run || run->is_hung || run->ends != now) return;
  Device& device = devices_[run->device];
  device.runs.erase(device.runs.begin());
  tell(now, run->executor, sched::Finished{sched::RunId{id}, run->is_cut || run->is_failed, now - run->started},
       device.model->answer, heard);
  runs_.erase(id);
  advance(now, device);
}

void VirtualPool::advance(Time now, Device& device) {
  if (device.runs.empty()) return;
  Run& front = *runs_.find(device.runs.front());
  if (front.is_front) return;
  front.is_front = true;
  agenda_.put(std::max(now, front.ready), Agenda::Kind::kRunStarts, device.runs.front());
}

void VirtualPool::remove_from_live(Executor& executor) {
  const uint64_t last = live_.back();
  live_[executor.live_at] = last;
  executors_.find(last)->live_at = executor.live_at;
  live_.pop_back();
}

void VirtualPool::lose(Time now, uint64_t id, std::optional<sched::RunId> culprit, std::vector<sched::Event>& heard) {
  Executor& executor = *executors_.find(id);
  Device& device = device_of(executor);
  executor.is_dead = true;
  remove_from_live(executor);
  std::erase(device.executors, id);
  std::erase_if(device.runs, [&](uint64_t run) {
    if (runs_.find(run)->executor != id) return false;
    runs_.erase(run);
    return true;
  });
  device.copies_until = {0};  // what it was still to bring is not brought
  for (const uint64_t other : device.executors)
    for (const Copy& copy : executors_.find(other)->loads)
      device.copies_until = std::max(device.copies_until, copy.due);
  tell(now, id, sched::ExecutorLost{sched::ExecutorId{id}, culprit}, {0}, heard);
  if (executor.underway == 0) executors_.erase(id);
  advance(now, device);
}

bool VirtualPool::lose_some_executor(Time now, std::vector<sched::Event>& heard) {
  if (live_.empty()) return false;
  lose(now, live_[faults_.draw_below(live_.size())], std::nullopt, heard);
  return true;
}

std::optional<uint64_t> VirtualPool::some_running(bool to_hang) {
  const size_t first = faults_.draw_below(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[(first + i) % devices_.size()];
    if (device.runs.empty()) continue;
    const Run& run = *runs_.find(device.runs.front());
    if (!run.is_started || run.is_hung) continue;
    if (to_hang && (!run.can_hang || run.is_stopped)) continue;
    return device.runs.front();
  }
  return std::nullopt;
}

bool VirtualPool::fault_some_kernel(Time now, std::vector<sched::Event>& heard) {
  const auto run = some_running(false);
  if (run) lose(now, runs_.find(*run)->executor, sched::RunId{*run}, heard);
  return run.has_value();
}

bool VirtualPool::hang_some_run() {
  const auto run = some_running(true);
  if (run) runs_.find(*run)->is_hung = true;
  return run.has_value();
}

bool VirtualPool::fail_some_run() {
  const auto run = some_running(false);
  if (run) runs_.find(*run)->is_failed = true;
  return run.has_value();
}

bool VirtualPool::lose_some_device(Time now, std::vector<sched::Event>& heard) {
  const size_t first = faults_.draw_below(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    const size_t index = (first + i) % devices_.size();
    Device& device = devices_[index];
    if (!device.is_up) continue;
    device.is_up = false;
    for (const uint64_t run : device.runs) runs_.erase(run);
    for (const uint64_t id : device.executors) {
      remove_from_live(*executors_.find(id));
      executors_.erase(id);
    }
    device.runs.clear();
    device.executors.clear();
    device.copies_until = now;
    agenda_.put(now + faults_.draw_between(Duration::millis(10), Duration::millis(200)), Agenda::Kind::kDeviceUp,
                index);
    heard.push_back(sched::DeviceDown{sched::DeviceId{index + 1}});
    return true;
  }
  return false;
}

bool VirtualPool::take_some_memory(Time now, std::vector<sched::Event>& heard) {
  const size_t first = faults_.draw_below(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    const size_t index = (first + i) % devices_.size();
    Device& device = devices_[index];
    if (!device.is_up || device.memory_bytes != device.model->memory_bytes) continue;
    device.memory_bytes = device.model->memory_bytes / 100 * (30 + faults_.draw_below(61));
    agenda_.put(now + faults_.draw_between(Duration::millis(20), Duration::millis(300)), Agenda::Kind::kMemoryBack,
                index);
    heard.push_back(sched::DeviceMemory{sched::DeviceId{index + 1}, device.memory_bytes});
    return true;
  }
  return false;
}

void VirtualPool::device_back(uint64_t index, std::vector<sched::Event>& heard) {
  if (devices_[index].is_up) return;
  devices_[index].is_up = true;
  heard.push_back(up_event(index));
}

void VirtualPool::memory_back(uint64_t index, std::vector<sched::Event>& heard) {
  Device& device = devices_[index];
  if (device.memory_bytes == device.model->memory_bytes) return;
  device.memory_bytes = device.model->memory_bytes;
  if (device.is_up) heard.push_back(sched::DeviceMemory{sched::DeviceId{index + 1}, device.memory_bytes});
}

void VirtualPool::mend(std::vector<sched::Event>& heard) {
  for (size_t index = 0; index < devices_.size(); ++index) {
    memory_back(index, heard);
    device_back(index, heard);
  }
}

void VirtualPool::forget_executors() {
  executors_.clear();
  runs_.clear();
  live_.clear();
  underway_.clear();
  free_underway_.clear();
  for (Device& device : devices_) {
    device.runs.clear();
    device.executors.clear();
    device.copies_until = {0};
  }
  agenda_.remove_if([](const Agenda::Entry& entry) {
    return entry.kind() >= Agenda::Kind::kRunStarts && entry.kind() <= Agenda::Kind::kReport;
  });
}

}  // namespace quern::sim
