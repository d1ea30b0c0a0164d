// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sched/request.h"

namespace quern::sched {

struct Executor {
  ExecutorId id;
  DeviceId device;
  Group group;
  enum class State : uint8_t { kStarting, kUp, kEnding } state = State::kStarting;
  std::map<RunId, RunRecord*> runs;  ///< those that hold a slot of the device
  std::optional<RunId> killed_because;
};

struct Device {
  DeviceId id;
  uint64_t memory_bytes = 0;
  bool up = false;
  std::map<Group, ExecutorId> executors;  ///< those that can take runs: starting or up
  std::optional<ExecutorId> serving;      ///< whose runs are in flight; at most one executor at a time
};

/// Devices that a placement can choose from, the smallest that fits not preferred: by memory size, then by id.
class DeviceSet {
 public:
  void insert(uint64_t memory_bytes, DeviceId device) { sizes_[memory_bytes].insert(device); }
  void erase(uint64_t memory_bytes, DeviceId device);
  bool empty() const { return sizes_.empty(); }
  /// The lowest id among those with at least this much memory.
  std::optional<DeviceId> first(uint64_t memory_bytes) const;
  uint64_t largest() const { return sizes_.empty() ? 0 : sizes_.rbegin()->first; }
  const std::map<uint64_t, std::set<DeviceId>>& sizes() const { return sizes_; }

 private:
  std::map<uint64_t, std::set<DeviceId>> sizes_;  // none empty
};

/// The devices and their executors, and the index that placement chooses from. Everything that changes what a device
/// could take goes through here, so that the index is always true. A change costs the logarithm of the devices, times
/// the executors of the one device when it becomes idle or busy.
class Devices {
 public:
  /// `room` is how many runs a device may have in flight.
  explicit Devices(uint32_t room) : room_(room) {}

  void up(DeviceId device, uint64_t memory_bytes);
  /// Its executors must have been dropped.
  void down(DeviceId device);
  const Device* find(DeviceId device) const;

  Executor& start_executor(ExecutorId id, DeviceId device, const Group& group);
  /// It takes no more runs; those it has keep their slots until it is dropped.
  void end_executor(Executor& executor);
  /// It is gone, and its runs with it.
  void drop_executor(ExecutorId id);
  Executor* find(ExecutorId id);
  std::vector<ExecutorId> executors_of(DeviceId device) const;
  /// Those that a function has for itself.
  std::vector<ExecutorId> executors_of(FunctionId function) const;

  /// Takes the lowest free lane.
  void add_run(Executor& executor, RunRecord& run);
  void remove_run(Executor& executor, RunRecord& run);
  /// The run stops: nothing new is put beside it, for its executor may be killed.
  void no_company(const Executor& executor) { reindex(executor.device); }

  /// Devices with nothing in flight.
  const DeviceSet& idle() const { return idle_; }
  /// Those of them that have an executor of the group.
  const DeviceSet& idle_with(const Group& group) const;
  /// Devices that run this group and could take one more run of it.
  const DeviceSet& with_room(const Group& group) const;
  /// The memory sizes of all devices that have room beside what they run.
  const std::map<uint64_t, uint32_t>& room_sizes() const { return room_sizes_; }

  uint64_t largest_up() const { return up_.largest(); }
  uint64_t largest_known() const { return largest_known_; }
  size_t executors() const { return executors_.size(); }

 private:
  /// What the index says about a device.
  struct Listing {
    bool idle = false;
    std::vector<Group> groups;        ///< in idle_with
    std::optional<Group> room_group;  ///< in with_room
  };
  void reindex(DeviceId device);
  void unlist(const Device& device, Listing& listing);
  bool has_room(const Device& device) const;

  const uint32_t room_;
  std::map<DeviceId, Device> devices_;  // also those that are down: what would fit them is not too large
  std::map<ExecutorId, Executor> executors_;
  std::map<FunctionId, std::set<ExecutorId>> own_;
  uint64_t largest_known_ = 0;

  std::map<DeviceId, Listing> listings_;
  DeviceSet up_, idle_;
  std::map<Group, DeviceSet> idle_with_, room_with_;
  std::map<uint64_t, uint32_t> room_sizes_;  // size -> devices
};

}  // namespace quern::sched
