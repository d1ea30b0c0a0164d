// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

#include "sched/scheduler.h"

namespace quern::sched {

/// What functions with a quota used of the time of devices, by windows of Config::window that are the same for all.
///
/// A window gives a function its limit, and what it used more than that is taken from the windows after it; what it did
/// not use is nobody's. Device time is in unit-nanoseconds, and the share is one of the units that the function uses:
/// who has half of the time on two of eight units has one window's worth.
///
/// A function is known from the first set() or hold() until forget(), and while someone holds it. Of those that nobody
/// holds and that owe nothing kMost are kept.
class Quotas {
 public:
  explicit Quotas(const Config& config) : config_(config) {}

  /// What it may have from now on, whoever launches for it.
  void set(FunctionId function, const Quota& quota, Time now);
  /// Someone launches for it: until release(). `quota` is set if none is.
  void hold(FunctionId function, const Quota& quota, Time now);
  void release(FunctionId function);
  void forget(FunctionId function);

  /// As it was set last; none of a function that is not known.
  Quota of(FunctionId function) const;
  /// `units`: how many of the device the function uses.
  void charge(DeviceId device, FunctionId function, uint32_t units, Duration used, Time now);
  /// Of its limit in this window; not above 0: it has to wait for a later one.
  Duration left(DeviceId device, FunctionId function, uint32_t units, Time now);
  /// It had less in this window than it is to have in any case.
  bool is_below_request(DeviceId device, FunctionId function, uint32_t units, Time now);
  /// By how much it is behind its request at this point of the window; below 0: it is ahead.
  Duration behind_request(DeviceId device, FunctionId function, uint32_t units, Time now);
  Time next_window(Time now) const { return {(now.ns / config_.window.ns + 1) * config_.window.ns}; }

  size_t size() const { return functions_.size(); }

  static constexpr size_t kMost = 4096;

 private:
  struct Account {
    int64_t window = 0;   // its number
    int64_t used_ns = 0;  // in it
    int64_t debt_ns = 0;  // from those before it
    uint32_t units = 1;
  };
  struct Function {
    Quota quota;
    uint64_t holders = 0;
    bool is_gone = false;
    std::map<DeviceId, Account> accounts;
  };
  int64_t share_ns(uint32_t thousandths, uint32_t units) const;
  Function& add(FunctionId function, const Quota& quota, Time now);
  void pass_windows(const Function& function, Account& account, Time now) const;
  Account* at(DeviceId device, FunctionId function, uint32_t units, Time now);

  const Config& config_;
  std::map<FunctionId, Function> functions_;
};

}  // namespace quern::sched
