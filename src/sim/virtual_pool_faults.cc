// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong with host, devices, executors and runs, and how it is mended.
#include <algorithm>

#include "sim/virtual_pool.h"

namespace quern::sim {
namespace {

/// For a while: 30 to 90 % of it.
uint64_t draw_less(uint64_t bytes, Faults& faults) { return bytes / 100 * (30 + faults.draw_below(61)); }

}  // namespace

bool VirtualPool::lose_some_executor(Time now, std::vector<sched::Event>& heard) {
  if (live_.empty()) return false;
  lose(now, live_[faults_.draw_below(live_.size())], std::nullopt, heard);
  return true;
}

// Whether what the run has in flight is at the front of its queue: with an older launch there, nobody could tell that
// the device is not at that one. A device that divides its time has a queue per executor, else all share one.
bool VirtualPool::is_oldest(const Device& device, uint64_t run) {
  const bool shares_time = device.model->sharing == DeviceModel::Sharing::kSlices;
  for (const KernelDevice::InFlight& one : device.kernels->in_flight()) {
    const auto id = run_in(device, one.lane);
    if (one.number == 0 || !id) continue;
    if (*id == run) return true;
    if (!shares_time || runs_.find(*id)->executor == runs_.find(run)->executor) return false;
  }
  return false;
}

std::optional<uint64_t> VirtualPool::some_running(bool to_hang) {
  const size_t first = faults_.draw_below(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[(first + i) % devices_.size()];
    std::optional<uint64_t> running = device.running;
    if (device.kernels)
      for (const sched::LauncherId launcher : device.kernels->on())
        if (!running && !sched::is_program(launcher)) running = run_in(device, launcher);
    if (to_hang && device.kernels && running && !is_oldest(device, *running)) continue;
    const Run* run = running ? runs_.find(*running) : nullptr;
    if (!run || run->is_hung || (to_hang && (!run->can_hang || run->is_stopped))) continue;
    return running;
  }
  return std::nullopt;
}

bool VirtualPool::fault_some_kernel(Time now, std::vector<sched::Event>& heard) {
  const auto run = some_running(false);
  if (run) lose(now, runs_.find(*run)->executor, sched::RunId{*run}, heard);
  return run.has_value();
}

bool VirtualPool::lose_unclearly(Time now, std::vector<sched::Event>& heard) {
  const auto running = some_running(false);
  if (!running) return false;
  const uint64_t executor = runs_.find(*running)->executor;
  std::vector<sched::RunId> suspects;
  for (const uint64_t id : devices_[runs_.find(*running)->device].runs)
    if (const Run* run = find(id); run->executor == executor && run->is_started) suspects.push_back({id});
  lose(now, executor, std::nullopt, heard, std::move(suspects));
  return true;
}

std::optional<sched::RunId> VirtualPool::hang_some_run() {
  const auto id = some_running(true);
  if (!id) return std::nullopt;
  Run& run = *runs_.find(*id);
  run.is_hung = true;
  if (const auto& kernels = devices_[run.device].kernels) kernels->hang(launcher_of(*id, run));
  return sched::RunId{*id};
}

bool VirtualPool::fail_some_run(bool ends_executor) {
  const auto id = some_running(false);
  if (!id) return false;
  Run& run = *runs_.find(*id);
  run.is_failed = true;
  run.ends_executor |= ends_executor;
  return true;
}

bool VirtualPool::lose_some_device(Time now, std::vector<sched::Event>& heard) {
  const size_t first = faults_.draw_below(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    const size_t index = (first + i) % devices_.size();
    Device& device = devices_[index];
    if (!device.is_up) continue;
    device.is_up = false;
    const std::vector<uint64_t> runs = device.runs;
    for (const uint64_t run : runs) remove_run(device, run);
    if (device.kernels) device.kernels->clear();
    for (const uint64_t id : device.executors) {
      remove_from_live(*executors_.find(id));
      executors_.erase(id);
    }
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

}  // namespace quern::sim
