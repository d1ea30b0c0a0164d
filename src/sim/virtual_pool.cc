// SPDX-License-Identifier: Apache-2.0
#include "sim/virtual_pool.h"

#include <algorithm>
#include <utility>

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

Duration time_on(const DeviceModel& device, Duration work) {
  return device.speed == 1 ? work : whole_duration(static_cast<double>(work.ns) / device.speed);
}

uint32_t blanks_of(const Model& model) {
  const std::string& setup = model.config.policy.setup;
  return setup == "serial" || setup == "sage" ? 0 : model.pool;
}

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
      if (one.has_kernels())
        device.kernels = std::make_unique<KernelDevice>(one, static_cast<uint64_t>(devices_.size() - 1),
                                                        sched::first_grant(model.config), agenda_);
    }
}

sched::DeviceUp VirtualPool::up_event(size_t index) const {
  const Device& device = devices_[index];
  const uint32_t units = device.kernels ? device.kernels->units() : 1;
  return {.device = sched::DeviceId{index + 1},
          .memory_bytes = device.memory_bytes,
          .context_bytes = device.model->context_bytes,
          .in_place = device.model->in_place,
          .units = {units, device.model->in_halves},
          .classes = device.model->classes,
          .shares_time = device.kernels && device.model->sharing == DeviceModel::Sharing::kSlices};
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

void VirtualPool::carry_out(Time now, const sched::Run& action, Duration work, bool can_hang, const Needs& needs,
                            const FunctionModel* function) {
  Executor* executor = executors_.find(action.executor.value);
  if (!executor || executor->is_dead) return;
  Device& device = device_of(*executor);
  Run& run = runs_.add(action.run.value);
  run.executor = action.executor.value;
  run.device = executor->device;
  run.lane = action.lane;
  run.can_hang = can_hang;
  run.needs = needs;
  run.left = time_on(*device.model, work);
  run.ready = std::max(now, executor->up_at);
  for (const Copy& copy : executor->loads)
    if (needs.contains(copy.object)) run.ready = std::max(run.ready, copy.due);
  if (!device.kernels) run.ready = run.ready + device.model->launch;
  device.runs.push_back(action.run.value);
  auto& lanes = executor->lanes;
  if (action.lane >= lanes.size()) lanes.resize(action.lane + 1);
  run.is_refused = (needs.makes || action.lane_bytes > lanes[action.lane]) && faults_.strikes(Fault::kNoRoom);
  // The core may not have heard yet that something failed.
  const bool misses_some = std::any_of(executor->missing.begin(), executor->missing.end(),
                                       [&](uint32_t object) { return needs.contains(object); });
  if (!run.is_refused) lanes[action.lane] = std::max(lanes[action.lane], action.lane_bytes);
  if (run.is_refused || misses_some) {
    run.ready = Time::never();
    agenda_.put(std::max(now, executor->up_at) + kToFree, Agenda::Kind::kRunGivenUp, action.run.value);
    return;
  }
  if (device.kernels) return begin_kernels(now, device, action, run, work, function);
  if (!device.running) agenda_.put(run.ready, Agenda::Kind::kRunStarts, run.device);
}

sched::LauncherId VirtualPool::launcher_of(uint64_t id, const Run& run) {
  return run.executor == 0 ? sched::LauncherId{id} : sched::lane_of({run.executor}, run.lane);
}

VirtualPool::Run* VirtualPool::find(uint64_t id) {
  if (id < sched::kFirstProgram) return runs_.find(id);
  const auto program = programs_.find(id);
  return program == programs_.end() || !program->second.work ? nullptr : &*program->second.work;
}

bool VirtualPool::is_open(Time now, sched::LauncherId program) const {
  const auto found = programs_.find(program.value);
  if (found == programs_.end()) return false;
  if (const auto& kernels = devices_[found->second.device].kernels) return kernels->is_open(now, program);
  return found->second.gate.lets(now);
}

bool VirtualPool::is_open(Time now, uint64_t id) {
  if (id >= sched::kFirstProgram) return is_open(now, sched::LauncherId{id});
  const Run& run = *runs_.find(id);
  const auto& gates = executors_.find(run.executor)->gates;
  return run.lane >= gates.size() || gates[run.lane].lets(now);
}

std::pair<VirtualPool::Gate*, VirtualPool::Device*> VirtualPool::find_gate(sched::LauncherId launcher) {
  if (sched::is_program(launcher)) {
    const auto program = programs_.find(launcher.value);
    if (program == programs_.end()) return {};
    return {&program->second.gate, &devices_[program->second.device]};
  }
  Executor* executor = executors_.find(launcher.value >> 8);
  if (!executor || executor->is_dead) return {};
  const size_t lane = launcher.value & 255;
  if (lane >= executor->gates.size()) executor->gates.resize(lane + 1);
  return {&executor->gates[lane], &device_of(*executor)};
}

void VirtualPool::carry_out(Time now, const sched::Grant& action) {
  const auto [gate, device] = find_gate(action.launcher);
  if (!gate) return;
  if (device->kernels) return device->kernels->grant(now, action);
  gate->is_open = action.open;
  // Who is to say what it used, and is on the device, begins now.
  if (action.meters && !gate->meters) agenda_.put(now, Agenda::Kind::kMeters, action.launcher.value);
  gate->meters = action.meters;
  gate->from = action.from;
  gate->until = action.beyond.ns > 0 ? Time::never() : action.until;
  ++gate->epoch;
  if (gate->is_open && now < gate->from)
    agenda_.put(gate->from, Agenda::Kind::kGateChanges, action.launcher.value, gate->epoch);
  if (gate->is_open && now < gate->until && gate->until != Time::never())
    agenda_.put(gate->until, Agenda::Kind::kGateChanges, action.launcher.value, gate->epoch);
  arbitrate(now, *device);
}

void VirtualPool::carry_out(Time now, const sched::AskFlight& action) {
  agenda_.put(now, Agenda::Kind::kFlight, action.device.value - 1);
}

void VirtualPool::arbitrate(Time now, Device& device) {
  if (device.running) {
    Run& run = *find(*device.running);
    // What was told to stop is in its last kernel, and what ends now has ended.
    const bool stays = is_open(now, *device.running) || run.is_hung || run.is_stopped || run.ends <= now;
    if (stays) return;
    run.used = run.used + (now - run.on_since);
    run.left = run.ends - now;
    run.ends = Time::never();
    const sched::LauncherId launcher = launcher_of(*device.running, run);
    if (is_metered(launcher)) agenda_.put(now, Agenda::Kind::kMeters, launcher.value);
    device.running.reset();
  }
  advance(now, device);
}

void VirtualPool::join(sched::LauncherId id, size_t device, const ProgramModel& model) {
  Program& program = programs_[id.value];
  program.device = static_cast<uint32_t>(device);
  program.model = &model;
}

void VirtualPool::begin(Time now, sched::LauncherId id, const std::vector<Duration>& kernels, double belief) {
  Program& program = programs_.at(id.value);
  Device& device = devices_[program.device];
  program.started = {0};
  if (device.kernels) return begin_kernels(now, device, id, program, kernels, belief);
  Run& run = program.work.emplace();
  run.device = program.device;
  run.ready = now;
  double work_ns = 0;
  for (const Duration kernel : kernels) work_ns += static_cast<double>(kernel.ns);
  run.left = time_on(*device.model, whole_duration(work_ns));
  device.runs.push_back(id.value);
  advance(now, device);
}

Duration VirtualPool::take_told(sched::LauncherId id) {
  const auto program = programs_.find(id.value);
  return program == programs_.end() ? Duration{0} : std::exchange(program->second.told, Duration{0});
}

Time VirtualPool::started(sched::LauncherId id) const {
  const auto program = programs_.find(id.value);
  return program == programs_.end() ? Time{0} : program->second.started;
}

void VirtualPool::leave(Time now, sched::LauncherId id) {
  const auto program = programs_.find(id.value);
  if (program == programs_.end()) return;
  Device& device = devices_[program->second.device];
  if (device.kernels)
    device.kernels->drop(now, id);
  else
    remove_run(device, id.value);
  programs_.erase(program);
  advance(now, device);
}

void VirtualPool::carry_out(Time now, const sched::StopRun& action) {
  Run* run = runs_.find(action.run.value);
  if (!run || run->is_stopped) return;
  run->is_stopped = true;
  if (run->is_refused || run->is_hung) return;
  if (const auto& kernels = devices_[run->device].kernels) {
    if (run->ready != Time::never()) kernels->stop(now, launcher_of(action.run.value, *run));
    return;
  }
  const Time boundary = now + faults_.draw_between({1}, kLatestBoundary);
  if (devices_[run->device].running != action.run.value) {
    if (run->ready == Time::never()) return;  // it is given up already
    // Its lane looks up while it waits for loads, or only when they are there.
    const bool is_late = !run->is_started && faults_.draw_below(2) == 0;
    agenda_.put(is_late ? std::max(boundary, run->ready) : boundary, Agenda::Kind::kRunGivenUp, action.run.value);
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
      if (const Run* run = runs_.find(entry.a); run && devices_[run->device].running != entry.a)
        give_up(now, entry.a, run->is_refused, heard);
      return;
    case Agenda::Kind::kGateChanges:
      if (const auto [gate, device] = find_gate(sched::LauncherId{entry.a}); gate && gate->epoch == entry.b)
        arbitrate(now, *device);
      return;
    case Agenda::Kind::kMeters:
      return meters(now, entry, heard);
    case Agenda::Kind::kKernels:
      return kernels_happen(now, entry, heard);
    case Agenda::Kind::kReport:
      return report_arrives(entry.a, entry.b, heard);
    case Agenda::Kind::kFetched:
      return heard.push_back(sched::Fetched{sched::ObjectId{entry.a}, entry.b != 0});
    case Agenda::Kind::kFlight:
      return heard.push_back(flight(entry.a));
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
    const Run* run = runs_.find(id);
    if (run && run->executor == entry.a && !run->is_started && !run->is_refused && run->needs.contains(object))
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

void VirtualPool::tell_end(Time now, uint64_t executor, const sched::Finished& end, Duration delay,
                           std::vector<sched::Event>& heard) {
  tell(now, executor, end, delay, heard);
  if (end.ends_executor) lose(now, executor, std::nullopt, heard);
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
  const auto first = std::find_if(device.runs.begin(), device.runs.end(), [&](uint64_t id) {
    return find(id)->ready <= now && is_open(now, id) && !is_being_loaded(now, *find(id));
  });
  if (first == device.runs.end()) return advance(now, device);  // the one it was planned for is gone, or closed
  const uint64_t id = *first;
  Run& run = *find(id);
  device.running = id;
  run.on_since = now;
  if (run.is_stopped) {
    run.is_cut = true;
    run.ends = now;
    return run_ends(now, id, heard);
  }
  run.ends = now + run.left;
  agenda_.put(run.ends, Agenda::Kind::kRunEnds, id);
  ++run.times;
  const sched::LauncherId launcher = launcher_of(id, run);
  if (is_metered(launcher)) agenda_.put(now + kMeterEvery, Agenda::Kind::kMeters, launcher.value, run.times);
  if (!std::exchange(run.is_started, true) && id < sched::kFirstProgram)
    tell(now, run.executor, sched::Started{sched::RunId{id}}, {0}, heard);
}

// A load of it ends at this very moment, and how is still to come.
bool VirtualPool::is_being_loaded(Time now, const Run& run) {
  if (run.executor == 0) return false;
  const Executor& executor = *executors_.find(run.executor);
  return std::any_of(executor.loads.begin(), executor.loads.end(),
                     [&](const Copy& copy) { return copy.due <= now && run.needs.contains(copy.object); });
}

void VirtualPool::run_ends(Time now, uint64_t id, std::vector<sched::Event>& heard) {
  const Run* run = find(id);
  if (!run || run->is_hung || run->ends != now) return;
  Device& device = devices_[run->device];
  const sched::Finished finished{.run = sched::RunId{id},
                                 .failed = run->is_cut || run->is_failed,
                                 .device_time = run->used + (now - run->on_since),
                                 .ends_executor = run->ends_executor};
  const uint64_t executor = run->executor;
  remove_run(device, id);
  if (id < sched::kFirstProgram)
    tell_end(now, executor, finished, device.model->answer, heard);
  else
    ended_.push_back(sched::LauncherId{id});
  advance(now, device);
}

void VirtualPool::give_up(Time now, uint64_t id, bool no_room, std::vector<sched::Event>& heard) {
  const Run& run = *runs_.find(id);
  const uint64_t executor = run.executor;
  const Duration used = run.used;
  Device& device = devices_[run.device];
  if (device.kernels) device.kernels->drop_work(now, launcher_of(id, run));
  remove_run(device, id);
  tell(now, executor, sched::Finished{.run = sched::RunId{id}, .failed = true, .no_room = no_room, .device_time = used},
       device.model->answer, heard);
}

void VirtualPool::remove_run(Device& device, uint64_t id) {
  if (device.running == id) device.running.reset();
  std::erase(device.runs, id);
  if (id < sched::kFirstProgram)
    runs_.erase(id);
  else
    programs_.at(id).work.reset();
}

void VirtualPool::advance(Time now, Device& device) {
  if (device.running || device.runs.empty() || device.kernels) return;
  Time next = Time::never();
  for (const uint64_t id : device.runs)
    if (is_open(now, id)) next = std::min(next, find(id)->ready);
  if (next == Time::never()) return;
  agenda_.put(std::max(now, next), Agenda::Kind::kRunStarts, static_cast<uint64_t>(&device - devices_.data()));
}

void VirtualPool::remove_from_live(Executor& executor) {
  const uint64_t last = live_.back();
  live_[executor.live_at] = last;
  executors_.find(last)->live_at = executor.live_at;
  live_.pop_back();
}

void VirtualPool::lose(Time now, uint64_t id, std::optional<sched::RunId> culprit, std::vector<sched::Event>& heard,
                       std::vector<sched::RunId> suspects) {
  Executor& executor = *executors_.find(id);
  Device& device = device_of(executor);
  executor.is_dead = true;
  remove_from_live(executor);
  std::erase(device.executors, id);
  const std::vector<uint64_t> runs = device.runs;
  for (const uint64_t run : runs)
    if (find(run)->executor == id) remove_run(device, run);
  if (device.kernels) device.kernels->drop_lanes(now, {id});
  device.copies_until = {0};  // what it was still to bring is not brought
  for (const uint64_t other : device.executors)
    for (const Copy& copy : executors_.find(other)->loads)
      device.copies_until = std::max(device.copies_until, copy.due);
  tell(now, id, sched::ExecutorLost{sched::ExecutorId{id}, culprit, std::move(suspects)}, {0}, heard);
  if (executor.underway == 0) executors_.erase(id);
  advance(now, device);
}

void VirtualPool::forget_executors(Time now) {
  executors_.clear();
  runs_.clear();
  programs_.clear();
  ended_.clear();
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
    if (device.kernels) device.kernels->clear();
    device.executors.clear();
    device.copies_until = {0};
    if (device.is_up) make_blanks(now, device);
  }
}

}  // namespace quern::sim
