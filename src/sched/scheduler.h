// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sched/types.h"

namespace quern::sched {

/// Every limit of the core, with the reason for its default.
struct Config {
  uint32_t lanes = 2;           ///< per executor: the next run is bound and enqueued while one runs
  uint32_t runs_in_flight = 2;  ///< per device, all of one executor, until gates arbitrate between executors
  uint32_t most_queued = 4096;  ///< requests waiting in all
  uint32_t most_queued_per_tenant = 1024;
  uint32_t most_attempts = 3;                   ///< a request not to blame runs again twice
  Duration stop_grace = Duration::millis(200);  ///< from a closed gate to the end of the executor
  /// The same for a run that has not started: its executor is loading, which no gate interrupts and is no hang.
  Duration prepare_grace = Duration::seconds(10);
  uint32_t own_executor_runs = 100;  ///< good runs after which a function that killed may share an executor again
  uint32_t quarantine_after = 20;    ///< executors killed without a good run between
  Duration quarantine = Duration::seconds(60);
  std::string placement = "fifo";  ///< a row of policy/table.cc
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

  /// For showing to people, not for deciding.
  struct Counts {
    uint64_t queued = 0;         ///< requests that wait
    uint64_t running = 0;        ///< runs that hold a slot of a device, also while their executor starts
    uint64_t functions = 0;      ///< records kept: of functions in use, and of those that killed an executor
    uint64_t executors = 0;      ///< starting, up or being killed
    uint64_t failed_starts = 0;  ///< executors that never came up, since the start
  };
  Counts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::sched
