// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Spare lanes and levels (Config::spare_lanes, spare_levels): only who is more urgent than all that is there has one,
/// and nobody more urgent than all that is on a device waits for want of a lane or a level while one is left. Whether
/// the latter could have begun is only judged where it is plain: it is the only one that waits as urgently, fits beside
/// all that is pinned, has no quota, nothing runs again, stops or is taken for smaller, and devices are few.
class UrgentChecker final : public Checker {
 public:
  explicit UrgentChecker(const sched::Config& config);

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;

 private:
  /// A run that has a slot, sent or not.
  struct Placed {
    sched::ExecutorId executor;
    sched::DomainId domain;
    sched::LevelNo level = 0;
  };
  using OnDevice = std::map<sched::RunId, Placed>;

  std::map<sched::DeviceId, OnDevice> placed(const sched::Scheduler& core) const;
  /// Who came in this step met this.
  void check_spares(Time now, sched::RunId came, const OnDevice& there);
  void check_waiting(Time now, const sched::Scheduler& core, const std::map<sched::DeviceId, OnDevice>& there);
  bool could_begin(Time now, const Shadow::Request& request, sched::DeviceId id, const Shadow::Device& device,
                   const OnDevice& there, const sched::Scheduler& core) const;

  const sched::Config config_;
  const bool applies_;  // there are levels, and runs share devices
  Shadow shadow_;
  /// What was announced of a request that waits for its answer.
  struct Prepared {
    sched::RunId run;  ///< the last
    sched::ExecutorId executor;
    uint32_t times = 0;
  };
  std::map<sched::RequestId, Prepared> prepared_;
};

}  // namespace quern::sim
