// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Nobody waits while a device that could serve him idles: after every step, no device is up and without any run where
/// a request would fit that waits and whose tenant is below its limits. Who has a share of a device waits for that one
/// only, if it would fit there. Policies that give devices away for good are exempt.
class IdleChecker final : public Checker {
 public:
  explicit IdleChecker(const sched::Config& config)
      : Checker("idle"), config_(config), shadow_(config.granularity_bytes) {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override { (void)now, shadow_.restart(); }

  static bool applies_to(const sched::Policy& policy);

 private:
  /// Where functions with a share are at home, and how much that device has for a run.
  std::map<sched::FunctionId, std::pair<sched::DeviceId, uint64_t>> homes_of(const sched::Scheduler& core) const;
  /// No run holds a slot of it. `placed`: the domains of requests that have a slot somewhere and were not sent.
  bool is_idle(sched::DeviceId id, const Shadow::Device& device, const sched::Scheduler::Books& books,
               const std::set<sched::DomainId>& placed) const;

  const sched::Config config_;
  Shadow shadow_;
};

}  // namespace quern::sim
