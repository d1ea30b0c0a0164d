// SPDX-License-Identifier: Apache-2.0
#include "sched/devices.h"

#include <algorithm>

namespace quern::sched {
namespace {

const DeviceSet& find_or_none(const std::map<Group, DeviceSet>& sets, const Group& group) {
  static const DeviceSet none;
  const auto found = sets.find(group);
  return found == sets.end() ? none : found->second;
}

void erase_from(std::map<Group, DeviceSet>& sets, const Group& group, const Device& device) {
  const auto found = sets.find(group);
  found->second.erase(device.memory_bytes, device.id);
  if (found->second.empty()) sets.erase(found);
}

}  // namespace

void DeviceSet::erase(uint64_t memory_bytes, DeviceId device) {
  const auto size = sizes_.find(memory_bytes);
  if (size == sizes_.end()) return;
  size->second.erase(device);
  if (size->second.empty()) sizes_.erase(size);
}

std::optional<DeviceId> DeviceSet::first(uint64_t memory_bytes) const {
  std::optional<DeviceId> first;
  for (auto size = sizes_.lower_bound(memory_bytes); size != sizes_.end(); ++size)
    if (!first || *size->second.begin() < *first) first = *size->second.begin();
  return first;
}

void Devices::up(DeviceId id, uint64_t memory_bytes) {
  Device& device = devices_[id];
  device.id = id;
  device.memory_bytes = memory_bytes;
  device.up = true;
  largest_known_ = std::max(largest_known_, memory_bytes);
  up_.insert(memory_bytes, id);
  reindex(id);
}

void Devices::down(DeviceId id) {
  Device& device = devices_.at(id);
  device.up = false;
  up_.erase(device.memory_bytes, id);
  reindex(id);
}

const Device* Devices::find(DeviceId id) const {
  const auto found = devices_.find(id);
  return found == devices_.end() ? nullptr : &found->second;
}

Executor& Devices::start_executor(ExecutorId id, DeviceId device, const Group& group) {
  Executor& executor = executors_[id];
  executor.id = id;
  executor.device = device;
  executor.group = group;
  devices_.at(device).executors[group] = id;
  if (group.own_function) own_[*group.own_function].insert(id);
  reindex(device);
  return executor;
}

void Devices::end_executor(Executor& executor) {
  if (executor.state == Executor::State::kEnding) return;
  executor.state = Executor::State::kEnding;
  devices_.at(executor.device).executors.erase(executor.group);
  reindex(executor.device);
}

void Devices::drop_executor(ExecutorId id) {
  const auto executor = executors_.find(id);
  end_executor(executor->second);
  Device& device = devices_.at(executor->second.device);
  if (device.serving == id) device.serving.reset();
  if (const auto function = executor->second.group.own_function) {
    const auto own = own_.find(*function);
    own->second.erase(id);
    if (own->second.empty()) own_.erase(own);
  }
  executors_.erase(executor);
  reindex(device.id);
}

Executor* Devices::find(ExecutorId id) {
  const auto found = executors_.find(id);
  return found == executors_.end() ? nullptr : &found->second;
}

std::vector<ExecutorId> Devices::executors_of(DeviceId device) const {
  // Those being killed are no longer in the device's own map. All are looked at; a device is lost rarely.
  std::vector<ExecutorId> ids;
  for (const auto& [id, executor] : executors_)
    if (executor.device == device) ids.push_back(id);
  return ids;
}

std::vector<ExecutorId> Devices::executors_of(FunctionId function) const {
  const auto found = own_.find(function);
  if (found == own_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void Devices::add_run(Executor& executor, RunRecord& run) {
  run.lane = 0;
  const auto taken = [&] {
    return std::any_of(executor.runs.begin(), executor.runs.end(),
                       [&](const auto& e) { return e.second->lane == run.lane; });
  };
  while (taken()) ++run.lane;
  executor.runs.emplace(run.id, &run);
  devices_.at(executor.device).serving = executor.id;
  reindex(executor.device);
}

void Devices::remove_run(Executor& executor, RunRecord& run) {
  executor.runs.erase(run.id);
  if (executor.runs.empty()) devices_.at(executor.device).serving.reset();
  reindex(executor.device);
}

const DeviceSet& Devices::idle_with(const Group& group) const { return find_or_none(idle_with_, group); }
const DeviceSet& Devices::with_room(const Group& group) const { return find_or_none(room_with_, group); }

bool Devices::has_room(const Device& device) const {
  const Executor& executor = executors_.at(*device.serving);
  return executor.state != Executor::State::kEnding && executor.runs.size() < room_ &&
         std::none_of(executor.runs.begin(), executor.runs.end(), [](const auto& entry) {
           return entry.second->alone || entry.second->stop != RunRecord::Stop::kNone;
         });
}

void Devices::unlist(const Device& device, Listing& listing) {
  if (listing.idle) idle_.erase(device.memory_bytes, device.id);
  for (const Group& group : listing.groups) erase_from(idle_with_, group, device);
  if (listing.room_group) {
    erase_from(room_with_, *listing.room_group, device);
    const auto size = room_sizes_.find(device.memory_bytes);
    if (--size->second == 0) room_sizes_.erase(size);
  }
  listing = {};
}

void Devices::reindex(DeviceId id) {
  const Device& device = devices_.at(id);
  Listing& listing = listings_[id];
  unlist(device, listing);
  if (!device.up) return;
  if (!device.serving) {
    listing.idle = true;
    idle_.insert(device.memory_bytes, id);
    for (const auto& [group, executor] : device.executors) {
      listing.groups.push_back(group);
      idle_with_[group].insert(device.memory_bytes, id);
    }
  } else if (has_room(device)) {
    listing.room_group = executors_.at(*device.serving).group;
    room_with_[*listing.room_group].insert(device.memory_bytes, id);
    ++room_sizes_[device.memory_bytes];
  }
}

}  // namespace quern::sched
