// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sched/blame.h"
#include "sched/devices.h"
#include "sched/estimates.h"
#include "sched/policy/eviction.h"
#include "sched/policy/fairness.h"
#include "sched/policy/placement.h"
#include "sched/scheduler.h"
#include "sched/tenants.h"
#include "sched/timers.h"

namespace quern::sched {

/// What is behind Scheduler. Each step: the event, then what is due, then dispatch, then the next wake-up. In that
/// order, a run that ends at its deadline has ended in time, and a request past its deadline is never dispatched.
///
/// One function per event, in the file of the noun it changes: requests.cc, runs.cc, executors.cc, residency.cc;
/// dispatch.cc fills the devices.
class Scheduler::Impl {
 public:
  explicit Impl(const Config& config);
  const std::vector<Action>& step(Time now, const Event& event);
  Counts counts() const;
  std::vector<Standing> standings() const { return tenants_.standings(); }
  Lag lag() const;
  std::optional<Books> books(DeviceId device) const;
  std::optional<Stage> stage(RequestId request) const;

 private:
  // requests.cc
  void on(const TenantSet& event) { tenants_.set(event); }
  void on(const Submit& event);
  void on(const Cancel& event);
  void on(const FunctionGone& event);
  Request* find_request(RequestId id);
  void enqueue(Request& request);
  /// Its executor is lost through no fault of its own: it runs again, or has been lost too often.
  void give_back(Request& request);
  /// Ends the request, wherever it is; a run it has goes on without it. `request` is no more after this.
  void answer(Request& request, End end, Duration retry_after = {0});
  /// Queued requests follow when their function gets an executor of its own, shares one again, or is quarantined.
  void regroup(FunctionId function);
  Group group_of(const Submit& submit) const;

  // runs.cc
  void on(const Started& event);
  void on(const Finished& event);
  RunRecord* find_run(RunId id);
  void send(RunRecord& run);
  void limit_passed(RunRecord& run);
  void stop(RunRecord& run, RunRecord::Stop why);
  /// Its slot is free, and what it had pinned and promised. It used this much of the device; nothing: what was
  /// expected.
  void erase(RunRecord& run, std::optional<int64_t> used_ns = 0);
  /// It was not sent yet: its request waits again, as if it had never had a slot.
  void withdraw(RunRecord& run);

  // executors.cc
  void on(const DeviceUp& event);
  void on(const DeviceDown& event);
  void on(const ExecutorUp& event);
  void on(const ExecutorLost& event);
  void on(const Tick&) {}
  void lose(ExecutorId executor, std::optional<RunId> culprit);
  void kill(Executor& executor, std::optional<RunId> because);
  /// Ends executors that a function has for itself and needs no longer.
  void retire(Executor& executor);
  void retire_all(FunctionId function);

  // residency.cc
  void on(const DeviceMemory& event);
  void on(const Loaded& event);
  void on(const Unloaded& event);
  /// Pins and promises what the run needs, and has leave what stands in its way.
  void reserve(Device& device, Executor& executor, RunRecord& run);
  void make_room(Device& device);
  /// Asks for all that can be asked for now: executors, loads, runs.
  void advance(Device& device);
  void advance(Device& device, Executor& executor, RunRecord& run);
  /// Whether the request could be put beside what runs there.
  bool fits_beside(const Device& device, const Request& request) const;

  // dispatch.cc
  void dispatch();
  void dispatch_to_idle();
  void dispatch_beside(Device& device);
  void assign(Request& request, Device& device, const Request& first);
  Request* choose_for(const Device& device, Request& first);

  // scheduler.cc
  void expire();
  void set_alarm();
  void act(Action action) { actions_.push_back(std::move(action)); }

  const Config config_;
  const std::unique_ptr<Fairness> fairness_;
  const std::unique_ptr<Placement> placement_;
  const std::unique_ptr<Eviction> eviction_;

  Time now_ = {0};
  std::vector<Action> actions_;
  std::map<RequestId, Request> requests_;
  std::map<RunId, RunRecord> runs_;
  Tenants tenants_;
  Devices devices_;
  Blame blame_;
  Estimates estimates_;
  Timers timers_;
  std::set<DeviceId> touched_;    // in this step: looked at after what is due was ended
  std::optional<Group> arrived_;  // in this step: a request of this group came to wait
  Time alarm_ = Time::never();    // the WakeAt that stands
  uint64_t next_arrival_ = 1, next_executor_ = 1, next_run_ = 1, next_use_ = 1;
  uint64_t failed_starts_ = 0, evictions_ = 0;
};

}  // namespace quern::sched
