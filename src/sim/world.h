// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sched/scheduler.h"
#include "sim/model.h"

namespace quern::sim {

/// Sees every step of the core; checkers and reports are observers. It has what a shell has: events, actions, and the
/// core's views. Only of hangs it is told more.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                       const sched::Scheduler& core) = 0;
  /// The daemon died: the core that comes next is new, and hears of host, devices, tenants and what is kept warm again
  /// before anything else. Requests, runs, executors and programs of the old one are no more.
  virtual void on_restart(Time /*now*/) {}
  /// The truth, which no shell knows: the kernel that the device is at never ends, and this run launched it. No older
  /// launch is in flight there.
  virtual void on_hang(Time /*now*/, sched::RunId /*run*/) {}
  /// All that was to happen has happened. `drained` is false if work was left when the limit of virtual time came.
  virtual void on_end(Time /*now*/, bool /*drained*/, const sched::Scheduler& /*core*/) {}
};

/// Which faults were injected how often, by the names of FaultModel's fields.
using FaultCounts = std::map<std::string, uint64_t>;

/// Of a program: from when it had its first kernel ready until its last had ended.
struct Round {
  Time began, ended;
};

/// A discrete-event loop round the unchanged core: the second driver of the duties that daemon/runner.h lists. The same
/// model and seed give the same steps, bit for bit; who calls when, and how long it takes, does not depend on the
/// policy, so that policies are compared over the same calls.
///
/// Ids: devices, tenants and objects are their place in the model, counted from 1 (devices of one DeviceModel lie side
/// by side). Function i of n is i + 1, and n more each time it was removed and came back. Requests count from 1.
/// Virtual time begins at 0 and ends an hour after Model::length at the latest. Programs are gone at Model::length, or
/// when the last call has ended.
class World {
 public:
  World(const Model& model, uint64_t seed);
  ~World();

  /// Call before run(); not owned.
  void observe(Observer& observer);

  /// Until every call has come and ended. Progress is told now and then: requests ended, and of how many (0: unknown).
  /// Stops early when `should_stop` says so (asked after every step, if there is one).
  struct Outcome {
    Time ended;            ///< of virtual time
    bool drained = false;  ///< nothing was left
    uint64_t steps = 0, requests = 0;
    FaultCounts faults;
    std::vector<std::vector<Round>> rounds;  ///< by program, those that were done; the first 65,536
  };
  using Progress = void (*)(void* context, uint64_t ended, uint64_t all);
  Outcome run(bool (*should_stop)(void*) = nullptr, void* stop_context = nullptr, Progress progress = nullptr,
              void* progress_context = nullptr);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::sim
