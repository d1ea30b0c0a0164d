// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sched/blame.h"
#include "sched/devices.h"
#include "sched/policy/placement.h"
#include "sched/queue.h"
#include "sched/scheduler.h"
#include "sched/timers.h"

namespace quern::sched {

/// What is behind Scheduler. Each step: the event, then what is due, then dispatch, then the next wake-up. In that
/// order, a run that ends at its deadline has ended in time, and a request past its deadline is never dispatched.
///
/// One function per event, in the file of the noun it changes: requests.cc, runs.cc, executors.cc; dispatch.cc fills
/// the devices.
class Scheduler::Impl {
 public:
  explicit Impl(const Config& config);
  const std::vector<Action>& step(Time now, const Event& event);
  Counts counts() const;

 private:
  // requests.cc
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
  /// Its slot is free.
  void erase(RunRecord& run);

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

  // dispatch.cc
  void dispatch();
  void dispatch_to_idle();
  void dispatch_beside();
  void assign(Request& request, DeviceId device);

  // scheduler.cc
  void expire();
  void set_alarm();
  void act(Action action) { actions_.push_back(std::move(action)); }

  const Config config_;
  const std::unique_ptr<Placement> placement_;

  Time now_ = {0};
  std::vector<Action> actions_;
  std::map<RequestId, Request> requests_;
  std::map<RunId, RunRecord> runs_;
  Queue queue_;
  Devices devices_;
  Blame blame_;
  Timers timers_;
  std::optional<ExecutorId> came_up_;  // in this step: its runs are sent after what is due was ended
  Time alarm_ = Time::never();         // the WakeAt that stands
  uint64_t next_arrival_ = 1, next_executor_ = 1, next_run_ = 1;
  uint64_t failed_starts_ = 0;
};

}  // namespace quern::sched
