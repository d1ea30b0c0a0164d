// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sched/ledger.h"
#include "sched/request.h"
#include "sched/scheduler.h"

namespace quern::sched {

struct Executor {
  ExecutorId id;
  DeviceId device;
  Group group;
  /// kPlanned: it has a run, and starts as soon as there is room for its context.
  enum class State : uint8_t { kPlanned, kStarting, kUp, kEnding } state = State::kPlanned;
  std::map<RunId, RunRecord*> runs;  ///< those that hold a slot of the device
  std::optional<RunId> killed_because;
  Time asked;  ///< when it was to start

  uint32_t runs_at(LevelNo level) const;
  bool has_lane(uint32_t lane) const;
  /// The lowest that no run has.
  uint32_t free_lane() const;
};

/// What is to be brought to a device ahead of any run: for a request that waits, or because someone wants it kept.
struct Ahead {
  FunctionId function;
  Group group;
  std::vector<ObjectNeed> objects;
  Stage stage = Stage::kHot;  ///< how far
  size_t next = 0;            ///< the first of `objects` that is not on its way yet
  uint32_t starts = 0;        ///< executors that were started for it
  uint32_t fetches = 0;       ///< of the next object, that were begun for it
};

/// That a device had less room than it should have had, as executors of one domain say.
struct Claim {
  Time until;           ///< how long it counts
  uint64_t bytes = 0;   ///< that it did not give, the last time
  uint32_t in_row = 0;  ///< how often it was said since it gave as much
  bool is_out = false;  ///< the domain is not served by the device meanwhile
};

struct Device {
  DeviceId id;
  uint64_t memory_bytes = 0, context_bytes = 0;
  /// The memory it is said to have; less is believed for a while after it could not give that.
  uint64_t told_bytes = 0;
  Time believed_at = Time::never();  ///< when it is believed again
  std::map<DomainId, Claim> claims;
  Time doubt_ends = Time::never();  ///< when the first of these is over
  bool up = false, in_place = false, shares_time = false;
  Units units;
  Ledger ledger;
  Time last_loaded;  ///< a load ended
  /// A run that left it: when it was sent and when it left, and the units it had.
  struct End {
    ExecutorId executor;
    Time sent, left;
    uint32_t units = 0, first_unit = 0;  ///< 0 units: all
  };
  std::deque<End> ends;  ///< the last of them; when the last left that is not among them
  Time forgotten_end;
  static constexpr size_t kMostEnds = 16;
  std::deque<Ahead> aheads;               ///< of functions to keep, the oldest first
  std::map<Group, ExecutorId> executors;  ///< those that can take runs: planned, starting or up
  /// Whose runs are in flight: at each level one executor at a time, and gates between the levels.
  std::map<LevelNo, ExecutorId> serving;
  std::vector<FunctionId> recent;     ///< at home here: ran here last, newest first; its objects may still be here
  std::optional<RequestId> ahead_of;  ///< the request that something is brought for
  std::optional<Ahead> ahead;         ///< what

  /// It cannot have so much as a context while it has lost this much memory.
  bool can_serve() const { return up && memory_bytes >= context_bytes; }
  bool is_idle() const { return serving.empty(); }
  /// Each once, whatever number of levels it serves.
  std::vector<ExecutorId> serving_executors() const;
  /// What a single run can have at the most.
  uint64_t usable_bytes() const { return memory_bytes > context_bytes ? memory_bytes - context_bytes : 0; }
  /// The same once it is believed again.
  uint64_t told_usable_bytes() const { return told_bytes > context_bytes ? told_bytes - context_bytes : 0; }
  static constexpr size_t kMostRecent = 64;
};

/// Devices that a placement can choose from, the smallest that fits not preferred: by usable memory, then by id.
class DeviceSet {
 public:
  void insert(uint64_t bytes, DeviceId device) { sizes_[bytes].insert(device); }
  void erase(uint64_t bytes, DeviceId device);
  bool empty() const { return sizes_.empty(); }
  /// The lowest id among those with at least this much memory.
  std::optional<DeviceId> first(uint64_t bytes) const;
  /// The lowest ids of a few sizes that have at least this much.
  std::vector<DeviceId> first_few(uint64_t bytes, size_t most) const;
  uint64_t largest() const { return sizes_.empty() ? 0 : sizes_.rbegin()->first; }

 private:
  std::map<uint64_t, std::set<DeviceId>> sizes_;  // none empty
};

/// The devices and their executors, and the index that placement chooses from. Everything that changes what a device
/// could take goes through here, so that the index is always true. A change costs the logarithm of the devices, times
/// the executors of the one device when it becomes idle or busy.
class Devices {
 public:
  Devices(const Config& config, const Eviction& eviction)
      : room_(std::min(config.runs_in_flight, config.lanes)),
        lanes_(config.lanes),
        spare_lanes_(config.spare_lanes),
        levels_(config.levels_in_flight),
        spare_levels_(config.spare_levels),
        eviction_(eviction) {}

  void up(DeviceId device, uint64_t memory_bytes, uint64_t context_bytes, bool in_place, Units units);
  /// Its executors must have been dropped.
  void down(DeviceId device);
  void set_memory(Device& device, uint64_t memory_bytes);
  /// It is said to have this much.
  void tell(Device& device, uint64_t memory_bytes);
  Device* find(DeviceId device);
  const Device* find(DeviceId device) const;

  Executor& plan_executor(ExecutorId id, DeviceId device, const Group& group);
  /// It takes no more runs; those it has keep their slots until it is dropped.
  void end_executor(Executor& executor);
  /// It is gone, and its runs with it.
  void drop_executor(ExecutorId id);
  Executor* find(ExecutorId id);
  const Executor* find(ExecutorId id) const;
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
  /// The first of them that holds `bytes` and is a home of the function; a few are looked at.
  std::optional<DeviceId> idle_home(FunctionId function, uint64_t bytes) const;
  /// All homes of it, idle or not.
  std::vector<DeviceId> homes(FunctionId function) const;
  /// The function is at home here, for something of it is.
  void settle(Device& device, FunctionId function);
  /// All its homes: none is any more.
  std::vector<DeviceId> unsettle(FunctionId function);
  /// The device after this one, round and round.
  Device* next(DeviceId after);
  /// The one with the most memory that is not held, of a few.
  std::optional<DeviceId> emptiest(uint64_t bytes) const;
  /// Those of them that have no executor at all.
  const DeviceSet& idle_blank() const { return blank_; }
  /// Devices that run this group at this level and could take one more run of it.
  const DeviceSet& with_room(const Group& group, LevelNo level) const;
  /// Busy devices that could take a run of this level beside others, and hold this much: a few, those first that need
  /// no spare level for it.
  std::vector<DeviceId> joinable(LevelNo level, uint64_t bytes, size_t most) const;
  /// What the largest of them holds; 0: there is none.
  uint64_t largest_joinable(LevelNo level) const;
  /// Whether there is room for one more run at a level at which it serves someone.
  bool has_room(const Device& device, LevelNo level) const;
  /// Whether a group may come to a busy device at a level at which it serves nobody.
  bool can_join(const Device& device, LevelNo level, const Group& group) const;
  /// Every one, idle or not, that has an executor of the group.
  std::vector<DeviceId> with(const Group& group) const;
  /// Whether one of them can hold this much.
  bool has_with(const Group& group, uint64_t bytes) const;
  /// Whether all that the request needs is there for its group.
  bool has_all(const Device& device, const Request& request) const;

  /// The device with the fewest tenants at home, among those that hold `bytes`; a few are looked at.
  std::optional<DeviceId> fewest_homes(uint64_t bytes) const;
  void add_home(DeviceId device);

  bool any_up() const { return !up_.empty(); }
  /// Every one that is said to hold this much: for what happens rarely.
  std::vector<DeviceId> all_up(uint64_t bytes) const { return told_.first_few(bytes, SIZE_MAX); }
  bool is_idle(DeviceId device, uint64_t bytes) const;
  /// As it is said: who fits only that waits until it is believed.
  uint64_t largest_up() const { return told_.largest(); }
  uint64_t largest_known() const { return largest_known_; }
  size_t executors() const { return executors_.size(); }
  uint64_t count_up() const { return count_up_; }
  uint64_t slots_known() const { return devices_.size() * room_; }

 private:
  /// What the index says about a device.
  struct Listing {
    bool idle = false, blank = false;
    uint64_t bytes = 0;
    std::vector<Group> groups;                     ///< in idle_with
    std::optional<LevelNo> joinable;               ///< in joinable, under this
    std::vector<std::pair<Group, LevelNo>> rooms;  ///< in with_room
  };
  void reindex(DeviceId device);
  bool takes_company(const Device& device) const;
  /// What those that come at a shared level must be more urgent than; 0: none may, kAnyLevel: all.
  LevelNo joinable_above(const Device& device) const;
  bool has_level_left(const Device& device, LevelNo level) const;
  bool has_lane_left(const Executor& executor, LevelNo level) const;
  void unlist(const Device& device, Listing& listing);

  static constexpr size_t kMostOwn = 64;  // levels of one function each, on a device
  static constexpr LevelNo kAnyLevel = UINT16_MAX;
  const uint32_t room_;  // how many runs a device may have in flight at one level
  const uint32_t lanes_, spare_lanes_, levels_, spare_levels_;
  const Eviction& eviction_;
  std::map<DeviceId, Device> devices_;  // also those that are down: what would fit them is not too large
  std::map<ExecutorId, Executor> executors_;
  std::map<DeviceId, std::set<ExecutorId>> on_device_;
  std::map<FunctionId, std::set<ExecutorId>> own_;
  std::map<Group, DeviceSet> with_;  // devices that have an executor of the group
  uint64_t largest_known_ = 0, count_up_ = 0;

  std::map<DeviceId, Listing> listings_;
  DeviceSet up_, idle_, blank_;
  std::map<LevelNo, DeviceSet, std::greater<>> joinable_;  // by what those that come must be more urgent than
  DeviceSet told_;                                         // those that are up, by what they are said to have
  std::map<Group, DeviceSet> idle_with_;
  std::map<std::pair<Group, LevelNo>, DeviceSet> room_with_;
  std::map<FunctionId, std::set<DeviceId>> homes_of_;
  std::set<std::pair<uint32_t, DeviceId>> by_homes_;
  std::map<DeviceId, uint32_t> homes_;
};

}  // namespace quern::sched
