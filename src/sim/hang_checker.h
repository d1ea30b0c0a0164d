// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// A kernel that does not end is found, whatever runs beside it: the executor is killed within the limit of the run and
/// the grace, both counted from when the kernel hung. That run is blamed, and no other: a run whose launch was made
/// after the one that hangs, in the same queue, is not told to stop for its time on the device, no executor is killed
/// because of it, and its caller is not told that it ran too long before its own deadline.
class HangChecker final : public Checker {
 public:
  explicit HangChecker(const sched::Config& config)
      : Checker("hangs"), config_(config), shadow_(config.granularity_bytes) {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_hang(Time now, sched::RunId run) override;
  void on_restart(Time now) override;

 private:
  struct Hang {
    Time due;  ///< its executor is to be killed by then
    sched::ExecutorId executor;
    sched::DeviceId device;
    sched::RequestId request;
    Time since;  ///< it hung then
    bool is_killed = false;
  };

  void check(Time now, const sched::KillExecutor& action);
  void check(Time now, const sched::Answer& action);
  void check(Time now, const sched::StopRun& action);
  /// Whether launches of the run that are made now wait until the one that hangs has ended.
  bool is_behind(const Shadow::Run& run, sched::RunId id, const Hang& hang) const;
  /// Whether what the run has in flight, as the core was told last, waits behind a launch that hangs.
  bool waits_behind(const Shadow::Run& run, sched::RunId id, sched::RunId hung, const Hang& hang) const;

  const sched::Config config_;
  Shadow shadow_;
  std::map<sched::RunId, Hang> hangs_;
};

}  // namespace quern::sim
