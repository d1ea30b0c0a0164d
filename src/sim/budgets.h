// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "sim/shadow.h"

namespace quern::sim {

/// The books that checkers keep of quotas, from what launchers said they used and what runs used in all: what a
/// function may have is what its last call that was accepted, or its last program, came with. A function that is gone
/// is forgotten when its last run ended.
class Budgets {
 public:
  explicit Budgets(const sched::Config& config);

  /// Before `shadow` takes in the event.
  void happened(Time now, const sched::Event& event, const Shadow& shadow);
  /// After it took in all of the step.
  void settle(Time now, const sched::Event& event, std::span<const sched::Action> actions, const Shadow& shadow);
  void restart();

  /// Whether it is told apart from others: it has a quota, and the policy goes by it.
  bool has_quota(const Shadow::Run& run) const { return sched::is_own(run.level); }
  bool has_quota(const Shadow::Program& program) const { return program.quota != sched::Quota{}; }

  /// Of a function whose launchers have one, as it is now.
  sched::Quota quota_of(sched::FunctionId function) const;
  /// What is left of its limit in this window; below 0: what it owes. `units`: of the device.
  Duration left(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now);
  /// What it used in this window.
  Duration used(sched::FunctionId function, sched::DeviceId device, Time now);
  /// What a window gives it of this; in thousandths.
  Duration share(sched::FunctionId function, uint32_t thousandths, sched::Units units) const;
  bool is_spent(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now);
  bool is_below_request(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now);
  /// By how much of a window that is over so far, on each of its units; 0: it is not.
  Duration behind_request(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now);
  Time next_window(Time now) const;

  /// How many of a device's units a launcher with such a quota uses.
  static uint32_t units_of(const sched::Quota& quota, sched::Units units);

 private:
  struct Account {
    int64_t window = 0, used_ns = 0, debt_ns = 0;
    sched::Units units;  ///< of the device
  };
  struct Function {
    sched::Quota quota;
    std::map<sched::DeviceId, Account> accounts;
  };
  void set(sched::FunctionId function, const sched::Quota& quota, Time now);
  void charge(sched::FunctionId function, sched::DeviceId device, sched::Units units, Duration used, Time now);
  Account& at(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now);
  void pass_windows(const Function& function, Account& account, Time now) const;
  int64_t share_ns(const sched::Quota& quota, uint32_t thousandths, sched::Units units) const;

  const Duration window_;
  const bool has_levels_;
  std::map<sched::FunctionId, Function> functions_;
  std::map<sched::RunId, Duration> told_;  // of runs that have not ended
  std::set<sched::FunctionId> gone_;
};

}  // namespace quern::sim
