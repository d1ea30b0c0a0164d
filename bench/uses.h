// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <variant>
#include <vector>

#include "sim/world.h"

namespace quern::bench {

/// How much of their devices the programs of a simulation had from some time on, as they say it themselves.
class Uses : public sim::Observer {
 public:
  explicit Uses(Time from) : from_(from) {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> /*actions*/,
               const sched::Scheduler& /*core*/) override {
    if (const auto* up = std::get_if<sched::LauncherUp>(&event)) {
      functions_[up->launcher] = up->function;
      used_ns_[up->function] += 0;
    }
    if (const auto* used = std::get_if<sched::DeviceUsed>(&event); used && now >= from_)
      used_ns_[functions_[used->launcher]] += static_cast<double>(used->device_time.ns);
  }
  /// In unit-nanoseconds, by program of the model.
  std::vector<double> ns() const {
    std::vector<double> all;
    for (const auto& [function, used] : used_ns_) all.push_back(used);
    return all;
  }

 private:
  const Time from_;
  std::map<sched::LauncherId, sched::FunctionId> functions_;
  std::map<sched::FunctionId, double> used_ns_;
};

}  // namespace quern::bench
