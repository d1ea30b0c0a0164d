// SPDX-License-Identifier: Apache-2.0
#include "sim/virtual_pool.h"

#include <algorithm>

#include "sim/draws.h"

namespace quern::sim {
namespace {

constexpr Duration kToKill = Duration::millis(1), kToFree = Duration::micros(5);
constexpr Duration kToBind = Duration::millis(1);          ///< a blank executor to its domain
constexpr Duration kLatestBoundary = Duration::millis(1);  ///< from a closed gate to the end of the kernel that runs
constexpr Duration kLatestReport = Duration::millis(50);
constexpr int kSlow = 20;
constexpr uint64_t kFailedBit = uint64_t{1} << 32, kNoRoomBit = uint64_t{1} << 33;

Duration copy_time(uint64_t bytes, uint64_t per_second) {
  const auto ns = static_cast<unsigned __int128>(bytes) * 1'000'000'000 / std::max<uint64_t>(per_second, 1);
  constexpr auto kMost = static_cast<unsigned __int128>(int64_t{1} << 60);
  return {static_cast<int64_t>(std::min(ns, kMost))};
}

uint32_t blanks_of(const Model& model) {
  const std::string& setup = model.config.policy.setup;
  return setup == "serial" || setup == "sage" ? 0 : model.pool;
}

/// For a while: 30 to 90 % of it.
uint64_t draw_less(uint64_t bytes, Faults& faults) { return bytes / 100 * (30 + faults.draw_below(61)); }

}  // namespace

VirtualPool::VirtualPool(const Model& model, Agenda& agenda, Faults& faults)
    : agenda_(agenda),
      faults_(faults),
      models_(model.devices),
      host_(model.host),
      pool_(blanks_of(model)),
      host_bytes_(model.host.memory_bytes) {
  for (const DeviceModel& one : models_)
    for (uint32_t i = 0; i < one.count; ++i) {
      Device& device = devices_.emplace_back();
      device.model = &one;
      device.whole_bytes = one.memory_bytes - std::min(one.memory_bytes, pool_ * one.context_bytes);
      device.memory_bytes = device.whole_bytes;
      device.blanks = pool_;
    }
}

sched::DeviceUp VirtualPool::up_event(size_t index) const {
  const Device& device = devices_[index];
  return {sched::DeviceId{index + 1}, device.memory_bytes, device.model->context_bytes, device.model->in_place};
}

std::optional<sched::HostUp> VirtualPool::host_event() const {
  if (host_.memory_bytes == 0) return std::nullopt;
  return sched::HostUp{host_bytes_};
}

void VirtualPool::make_blanks(Time now, Device& device) {
  device.blanks = 0;
  ++device.generation;
  const auto index = static_cast<uint64_t>(&device - devices_.data());
  for (uint32_t i = 0; i < pool_; ++i)
    agenda_.put(now + device.model->context + device.model->framework, Agenda::Kind::kBlankReady, index,
                device.generation);
}

void VirtualPool::carry_out(Time now, const sched::StartExecutor& action) {
  const auto index = static_cast<uint32_t>(action.device.value - 1);
  Device& device = devices_.at(index);
  const uint64_t id = action.executor.value;
  Executor& executor = executors_.add(id);
  executor.device = index;
  const Time made_at = now + device.model->context + device.model->framework;
  executor.up_at = made_at;
  if (device.blanks > 0) {
    --device.blanks;
    executor.up_at = std::min(made_at, now + kToBind);
    agenda_.put(made_at, Agenda::Kind::kBlankReady, index, device.generation);
  }
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

void VirtualPool::carry_out(Time now, const sched::Fetch& action) {
  Duration takes = host_.disk_latency + copy_time(action.bytes, host_.disk_bytes_per_second);
  if (faults_.strikes(Fault::kSlowFetch)) takes.ns *= kSlow;
  fetches_until_ = std::max(now, fetches_until_) + takes;
  agenda_.put(fetches_until_, Agenda::Kind::kFetched, action.object.value, faults_.strikes(Fault::kFailedFetch));
}

void VirtualPool::carry_out(Time now, const sched::Load& action) {
  Executor* executor = executors_.find(action.executor.value);
  if (!executor || executor->is_dead) return;
  Device& device = device_of(*executor);
  std::erase(executor->missing, static_cast<uint32_t>(action.object.value));
  if (faults_.strikes(Fault::kNoRoom)) {
    const Time due = std::max(now, executor->up_at) + kToFree;
    executor->loads.push_back({static_cast<uint32_t>(action.object.value), due});
    agenda_.put(due, Agenda::Kind::kLoaded, action.executor.value, action.object.value | kFailedBit | kNoRoomBit);
    return;
  }
  Duration takes = device.model->load_latency;
  if (!device.model->in_place) takes = takes + copy_time(action.bytes, device.model->copy_bytes_per_second);
  if (faults_.strikes(Fault::kSlowLoad)) takes.ns *= kSlow;
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

void VirtualPool::carry_out(Time now, const sched::Trim& action) {
  Executor* executor = executors_.find(action.executor.value);
  if (!executor || executor->is_dead) return;
  if (action.lane < executor->lanes.size()) executor->lanes[action.lane] = 0;
  agenda_.put(now + kToFree, Agenda::Kind::kTrimmed, action.executor.value, action.lane);
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
  run.objects = &objects;
  run.takes = device.model->speed == 1 ? work : whole_duration(static_cast<double>(work.ns) / device.model->speed);
  run.ready = std::max(now, executor->up_at);
  for (const Copy& copy : executor->loads)
    if (std::find(objects.begin(), objects.end(), copy.object) != objects.end())
      run.ready = std::max(run.ready, copy.due);
  run.ready = run.ready + device.model->launch;
  device.runs.push_back(action.run.value);
  auto& lanes = executor->lanes;
  if (action.lane >= lanes.size()) lanes.resize(action.lane + 1);
  run.is_refused = action.lane_bytes > lanes[action.lane] && faults_.strikes(Fault::kNoRoom);
  // The core may not have heard yet that something failed.
  const bool misses_some = std::any_of(executor->missing.begin(), executor->missing.end(), [&](uint32_t object) {
    return std::find(objects.begin(), objects.end(), object) != objects.end();
  });
  if (!run.is_refused) lanes[action.lane] = std::max(lanes[action.lane], action.lane_bytes);
  if (run.is_refused || misses_some) {
    run.ready = Time::never();
    agenda_.put(std::max(now, executor->up_at) + kToFree, Agenda::Kind::kRunGivenUp, action.run.value);
    return;
  }
  if (!device.running) agenda_.put(run.ready, Agenda::Kind::kRunStarts, run.device);
}

void VirtualPool::carry_out(Time now, const sched::StopRun& action) {
  Run* run = runs_.find(action.run.value);
  if (!run || run->is_stopped) return;
  run->is_stopped = true;
  if (run->is_refused || run->is_hung) return;
  const Time boundary = now + faults_.draw_between({1}, kLatestBoundary);
  if (!run->is_started) {
    // Its lane looks at the gate while it waits for loads, or only when they are there.
    if (faults_.draw_below(2) == 0) agenda_.put(boundary, Agenda::Kind::kRunGivenUp, action.run.value);
    return;
  }
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
    case Agenda::Kind::kRunGivenUp:
      if (const Run* run = runs_.find(entry.a); run && !run->is_started) give_up(now, entry.a, run->is_refused, heard);
      return;
    case Agenda::Kind::kReport:
      return report_arrives(entry.a, entry.b, heard);
    case Agenda::Kind::kFetched:
      return heard.push_back(sched::Fetched{sched::ObjectId{entry.a}, entry.b != 0});
    case Agenda::Kind::kBlankReady:
      if (devices_[entry.a].generation == entry.b) ++devices_[entry.a].blanks;
      return;
    case Agenda::Kind::kDeviceUp:
      return device_back(now, entry.a, heard);
    case Agenda::Kind::kMemoryBack:
      return memory_back(entry.a, heard);
    case Agenda::Kind::kHostBack:
      return host_back(heard);
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
    case Agenda::Kind::kLoaded:
      return load_ends(now, entry, heard);
    case Agenda::Kind::kUnloaded:
      return tell(now, entry.a, sched::Unloaded{id, sched::ObjectId{entry.b}}, {0}, heard);
    case Agenda::Kind::kTrimmed:
      return tell(now, entry.a, sched::Trimmed{id, static_cast<uint32_t>(entry.b)}, {0}, heard);
    default:
      return;
  }
}

void VirtualPool::load_ends(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard) {
  Executor& executor = *executors_.find(entry.a);
  const auto object = static_cast<uint32_t>(entry.b & (kFailedBit - 1));
  const bool failed = (entry.b & kFailedBit) != 0, no_room = (entry.b & kNoRoomBit) != 0;
  auto& loads = executor.loads;
  const auto load = std::find_if(loads.begin(), loads.end(), [&](const Copy& copy) { return copy.object == object; });
  if (load != loads.end()) loads.erase(load);
  tell(now, entry.a, sched::Loaded{sched::ExecutorId{entry.a}, sched::ObjectId{object}, failed, no_room}, {0}, heard);
  if (!failed) return;
  executor.missing.push_back(object);
  std::vector<uint64_t> without;
  for (const uint64_t id : device_of(executor).runs) {
    const Run& run = *runs_.find(id);
    if (run.executor == entry.a && !run.is_started && !run.is_refused &&
        std::find(run.objects->begin(), run.objects->end(), object) != run.objects->end())
      without.push_back(id);
  }
  for (const uint64_t id : without) give_up(now, id, false, heard);
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

void VirtualPool::run_starts(Time now, uint64_t index, std::vector<sched::Event>& heard) {
  Device& device = devices_[index];
  if (device.running) return;
  const auto first =
      std::find_if(device.runs.begin(), device.runs.end(), [&](uint64_t id) { return runs_.find(id)->ready <= now; });
  if (first == device.runs.end()) return advance(now, device);  // the one it was planned for is gone
  const uint64_t id = *first;
  Run& run = *runs_.find(id);
  device.running = id;
  run.is_started = true;
  run.started = now;
  if (run.is_stopped) {
    run.is_cut = true;
    run.ends = now;
    return run_ends(now, id, heard);
  }
  run.ends = now + run.takes;
  agenda_.put(run.ends, Agenda::Kind::kRunEnds, id);
  tell(now, run.executor, sched::Started{sched::RunId{id}}, {0}, heard);
}

void VirtualPool::run_ends(Time now, uint64_t id, std::vector<sched::Event>& heard) {
  const Run* run = runs_.find(id);
  if (!run || !run->is_started || run->is_hung || run->ends != now) return;
  Device& device = devices_[run->device];
  const sched::Finished finished{
      .run = sched::RunId{id}, .failed = run->is_cut || run->is_failed, .device_time = now - run->started};
  const uint64_t executor = run->executor;
  remove_run(device, id);
  tell(now, executor, finished, device.model->answer, heard);
  advance(now, device);
}

void VirtualPool::give_up(Time now, uint64_t id, bool no_room, std::vector<sched::Event>& heard) {
  const uint64_t executor = runs_.find(id)->executor;
  Device& device = devices_[runs_.find(id)->device];
  remove_run(device, id);
  tell(now, executor, sched::Finished{.run = sched::RunId{id}, .failed = true, .no_room = no_room},
       device.model->answer, heard);
}

void VirtualPool::remove_run(Device& device, uint64_t id) {
  if (device.running == id) device.running.reset();
  std::erase(device.runs, id);
  runs_.erase(id);
}

void VirtualPool::advance(Time now, Device& device) {
  if (device.running || device.runs.empty()) return;
  Time next = Time::never();
  for (const uint64_t id : device.runs) next = std::min(next, runs_.find(id)->ready);
  if (next == Time::never()) return;
  agenda_.put(std::max(now, next), Agenda::Kind::kRunStarts, static_cast<uint64_t>(&device - devices_.data()));
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
  const std::vector<uint64_t> runs = device.runs;
  for (const uint64_t run : runs)
    if (runs_.find(run)->executor == id) remove_run(device, run);
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
    if (!device.running) continue;
    const Run& run = *runs_.find(*device.running);
    if (run.is_hung || (to_hang && (!run.can_hang || run.is_stopped))) continue;
    return device.running;
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
    device.running.reset();
    device.executors.clear();
    device.copies_until = now;
    device.blanks = 0;
    ++device.generation;
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
    if (!device.is_up || device.memory_bytes != device.whole_bytes) continue;
    device.memory_bytes = draw_less(device.whole_bytes, faults_);
    agenda_.put(now + faults_.draw_between(Duration::millis(20), Duration::millis(300)), Agenda::Kind::kMemoryBack,
                index);
    heard.push_back(sched::DeviceMemory{sched::DeviceId{index + 1}, device.memory_bytes});
    return true;
  }
  return false;
}

bool VirtualPool::take_host_memory(Time now, std::vector<sched::Event>& heard) {
  if (host_.memory_bytes == 0 || host_bytes_ != host_.memory_bytes) return false;
  host_bytes_ = std::max<uint64_t>(draw_less(host_.memory_bytes, faults_), 1);
  agenda_.put(now + faults_.draw_between(Duration::millis(20), Duration::millis(300)), Agenda::Kind::kHostBack);
  heard.push_back(sched::HostUp{host_bytes_});
  return true;
}

void VirtualPool::host_back(std::vector<sched::Event>& heard) {
  if (host_bytes_ == host_.memory_bytes) return;
  host_bytes_ = host_.memory_bytes;
  heard.push_back(sched::HostUp{host_bytes_});
}

void VirtualPool::device_back(Time now, uint64_t index, std::vector<sched::Event>& heard) {
  if (devices_[index].is_up) return;
  devices_[index].is_up = true;
  make_blanks(now, devices_[index]);
  heard.push_back(up_event(index));
}

void VirtualPool::memory_back(uint64_t index, std::vector<sched::Event>& heard) {
  Device& device = devices_[index];
  if (device.memory_bytes == device.whole_bytes) return;
  device.memory_bytes = device.whole_bytes;
  if (device.is_up) heard.push_back(sched::DeviceMemory{sched::DeviceId{index + 1}, device.memory_bytes});
}

void VirtualPool::mend(Time now, std::vector<sched::Event>& heard) {
  host_back(heard);
  for (size_t index = 0; index < devices_.size(); ++index) {
    memory_back(index, heard);
    device_back(now, index, heard);
  }
}

void VirtualPool::forget_executors(Time now) {
  executors_.clear();
  runs_.clear();
  live_.clear();
  underway_.clear();
  free_underway_.clear();
  fetches_until_ = {0};
  agenda_.remove_if([](const Agenda::Entry& entry) {
    return entry.kind() >= Agenda::Kind::kRunStarts && entry.kind() <= Agenda::Kind::kReport;
  });
  for (Device& device : devices_) {
    device.runs.clear();
    device.running.reset();
    device.executors.clear();
    device.copies_until = {0};
    if (device.is_up) make_blanks(now, device);
  }
}

}  // namespace quern::sim
