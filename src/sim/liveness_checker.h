// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// All work ends once faults stop, and the core never turns in circles: at the end every request that was submitted is
/// answered, or was lost with the daemon, and the core has nothing left; and no moment has endless steps.
class LivenessChecker final : public Checker {
 public:
  LivenessChecker() : Checker("liveness") {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override { (void)now, shadow_.restart(); }
  void on_end(Time now, bool drained, const sched::Scheduler& core) override;

  /// At one moment: far more than all callers together could cause.
  static constexpr uint64_t kMostSteps = 20'000;

 private:
  Shadow shadow_;
  Time moment_ = Time{-1};
  uint64_t steps_ = 0;  // at this moment
};

}  // namespace quern::sim
