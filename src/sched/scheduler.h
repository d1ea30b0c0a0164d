// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sched/rectangles.h"
#include "sched/types.h"

namespace quern::sched {

/// Which policy answers which question; each is a row of policy/table.cc.
struct Policy {
  std::string fairness = "vtime";    ///< whose turn is it?
  std::string placement = "sticky";  ///< on which device?
  std::string eviction = "cost";     ///< what leaves when room is short?
  std::string setup = "parallel";    ///< how does a run get ready?
  std::string exit = "staged";       ///< how long does stay what nobody needs?
  std::string dispatch = "fill";     ///< which launcher may put how much on the device now?
  bool operator==(const Policy&) const = default;
};

/// Every limit of the core, with the reason for its default.
struct Config {
  uint32_t lanes = 4;             ///< per executor: runs that it may have, of all levels
  uint32_t runs_in_flight = 2;    ///< per device and level, of one executor: one runs, the next is bound and enqueued
  uint32_t levels_in_flight = 4;  ///< per device: priorities that may be on it at a time, gates between them
  /// Beyond those, each for one that is more urgent than all that is there: what came before it and has to wait would
  /// keep the others for as long as it takes.
  uint32_t spare_lanes = 1, spare_levels = 1;
  uint32_t most_queued = 65536;  ///< requests waiting in all
  uint32_t most_queued_per_tenant = 1024;
  uint32_t most_queued_per_function = 1024;
  uint32_t most_attempts = 3;                   ///< a request not to blame runs again twice
  Duration stop_grace = Duration::millis(200);  ///< from a closed gate to the end of the executor
  /// The same for a run that has no launch in flight: its executor is loading, which no gate interrupts and is no hang.
  Duration prepare_grace = Duration::seconds(10);
  /// How often the core asks what is in flight on a device where runs are side by side and one has a limit of device
  /// time: it learns so much too late which of them is on the device, and asks for as little as a few cache lines.
  Duration flight_sample = Duration::millis(20);
  uint32_t own_executor_runs = 100;  ///< good runs after which a function that killed may share an executor again
  uint32_t quarantine_after = 20;    ///< executors killed without a good run between
  Duration quarantine = Duration::seconds(60);
  /// How much device time a tenant may be ahead and still go first where its function is at home: a change of tenant
  /// costs loads, and this bounds what is gained by not changing.
  Duration locality = Duration::millis(50);
  Duration first_estimate = Duration::millis(1);  ///< of a function that never ran
  /// What is asked for on a device is rounded up to this: the largest step of any driver's allocations.
  uint64_t granularity_bytes = 1;
  /// Rent: keeping a whole device's memory for so long costs as much as one second of waiting for a load. Long, since
  /// what is kept stands in nobody's way: who needs the room has it.
  Duration rent_second = Duration::seconds(3600);
  Duration keep_alive = Duration::seconds(60);  ///< of each stage, where exit is `fixed`
  Duration room_back = Duration::seconds(5);    ///< after an allocation failed, until the device is trusted again
  /// What may be in flight on a device: what was enqueued cannot be recalled, so an urgent run waits for it.
  Duration depth = Duration::millis(2);
  Duration shared_depth = Duration::micros(400);  ///< the same while someone more urgent shares the device
  Duration slice = Duration::micros(200);         ///< what a kernel is cut into then; alone: half of `depth`
  Duration probe_slice = Duration::micros(100);   ///< at least, while nobody knows when the more urgent one is back
  Duration soft_slice = Duration::micros(50);     ///< at least, past the time at which one may be back whose gaps vary
  Duration shortest_gap = Duration::micros(120);  ///< that is worth filling: it takes this long to begin and to stop
  /// A launch that ends this much after the predicted return of another is in nobody's way: that one's takes as long
  /// to reach the device.
  Duration launch_latency = Duration::micros(50);
  /// Lanes of this priority and less urgent ones give way to others by themselves where the device has classes, for the
  /// shell sees to it (a class of the operating system's, say): they need not be closed for them. Above 9: none does.
  uint32_t best_effort = 10;
  /// Of the time of a device, in thousandths, that a launcher with work has at least, whoever is more urgent.
  uint32_t least_share = 10;
  Duration window = Duration::millis(100);    ///< that shares of a device's time are counted in
  Duration unit_turn = Duration::millis(10);  ///< where units are short: how long who has them keeps them
  Policy policy;

  /// That an executor has.
  uint32_t all_lanes() const { return lanes + spare_lanes; }
};

/// The scheduler core: a state machine with no clock, no thread and no I/O.
///
/// The same (config, events) always gives the same actions, which is what lets the simulator and the daemon share
/// this class and lets a recorded day be replayed.
class Scheduler {
 public:
  explicit Scheduler(const Config& config);
  ~Scheduler();

  /// `now` must not go backwards between calls. The actions are valid until the next call, and are to be carried out
  /// in their order. Events about executors and runs that are no more are ignored: they crossed an action on their way.
  const std::vector<Action>& step(Time now, const Event& event);

  // For showing to people and for checkers, not for deciding.

  struct Counts {
    uint64_t queued = 0;            ///< requests that wait
    uint64_t running = 0;           ///< runs that hold a slot of a device, also while their executor starts
    uint64_t functions = 0;         ///< records kept: of functions in use, and of those that killed an executor
    uint64_t executors = 0;         ///< starting, up or being killed
    uint64_t failed_starts = 0;     ///< executors that never came up, since the start
    uint64_t evictions = 0;         ///< objects, contexts and lanes' memory that left to make room, since the start
    uint64_t exits = 0;             ///< objects and contexts that left because their time was over
    uint64_t prefetches = 0;        ///< loads begun before a run had a place
    uint64_t hits = 0, misses = 0;  ///< objects that a run found on its device when it got its place, or did not
  };
  Counts counts() const;

  /// A tenant, as fairness sees it.
  struct Standing {
    TenantId tenant;
    uint32_t weight = 1;
    uint64_t queued = 0, in_flight = 0, in_flight_bytes = 0;
    int64_t vtime = 0;  ///< the highest of its levels; where it stands after a restart
    struct Level {
      LevelNo level = 0;
      int64_t vtime = 0;  ///< device time charged, in ns divided by its weight, moved up whenever it had nothing to do
      bool is_next = false;  ///< it waits for its turn: has a request that any device could take, is below its limits
    };
    std::vector<Level> flows;  ///< at the levels at which it ever had a request
  };
  std::vector<Standing> standings() const;
  /// How far the furthest tenant of those that wait for their turn at one level is ahead of the last, and how far it
  /// can ever be: docs/guide/policies.md says why. In ns of device time by weight 1; `bound` holds for `vtime` only.
  struct Lag {
    int64_t lag = 0, bound = 0;
  };
  Lag lag() const;

  /// A device's memory, or the host's, as the ledger has it.
  struct Entry {
    enum class Kind : uint8_t { kObject, kLane, kContext } kind = Kind::kObject;
    ExecutorId executor;  ///< 0 on the host
    ObjectId object;      ///< kObject
    uint32_t lane = 0;    ///< kLane
    uint64_t bytes = 0;
    enum class State : uint8_t { kPromised, kLoading, kResident, kLeaving } state = State::kPromised;
    uint32_t pins = 0;           ///< runs that hold a slot and need it
    Time since;                  ///< it is there
    Time used;                   ///< when a run needed it last
    Time until = Time::never();  ///< it leaves then, if nobody needs it before
    bool kept = false;           ///< by Keep: it is the last to leave
    FunctionId function;         ///< that needed it last
  };
  struct Books {
    uint64_t memory_bytes = 0;    ///< of the device
    uint64_t held_bytes = 0;      ///< contexts, lanes, and objects loading, resident and leaving
    uint64_t promised_bytes = 0;  ///< on top of it, as soon as what leaves has left
    uint64_t leaving_bytes = 0;   ///< of what is held
    std::vector<Entry> entries;   ///< in the order of executors; of each: objects, lanes, its context
  };
  std::optional<Books> books(DeviceId device) const;
  /// Nothing if there never was a HostUp.
  std::optional<Books> host_books() const;
  /// How many executors the kernels of a function killed since its last good run: crashes and hangs.
  uint32_t kills_in_a_row(FunctionId function) const;

  /// The last gaps of a function on a device, after one of its kernels or between its runs, the oldest first, and what
  /// follows.
  struct GapsSeen {
    DeviceId device;
    uint64_t after = 0;
    std::vector<Duration> gaps;
    bool is_known = false, is_stable = false;
    Duration median = {0}, early = {0};
  };
  static constexpr uint64_t kBetweenRuns = UINT64_MAX;  ///< GapsSeen::after, GapsKnown::after
  std::vector<GapsSeen> gaps(FunctionId function) const;

  /// What a function with a quota has of a device in any case.
  struct Share {
    FunctionId function;
    Quota quota;
    std::optional<DeviceId> device;  ///< nothing: it runs anywhere, for it asks for nothing, or its device is gone
    Rectangle at;                    ///< its part of that device's time (x) and units (y)
  };
  std::vector<Share> shares() const;

  /// What became of a request so far; nothing if it was answered or never accepted.
  enum class Progress : uint8_t { kQueued, kPlaced, kRunning };
  std::optional<Progress> progress(RequestId request) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

std::string_view name_of(Scheduler::Progress progress);

/// What a lane has when its executor starts; without its launcher.
Grant first_grant(const Config& config);

}  // namespace quern::sched
