// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "sched/types.h"

namespace quern::sched {

/// What is to happen at which time, the earliest first. A request or run has at most one timer; its time is kept by
/// the owner (`slot`), so that it can be found again.
class Timers {
 public:
  using Owner = std::variant<RequestId, RunId>;

  /// Time::never() disarms.
  void arm(Owner owner, Time& slot, Time time) {
    if (slot != Time::never()) timers_.erase({slot, owner});
    slot = time;
    if (slot != Time::never()) timers_.insert({slot, owner});
  }

  /// The first that is due; it stays until its owner arms it anew or disarms it.
  std::optional<Owner> due(Time now) const {
    if (timers_.empty() || timers_.begin()->first > now) return std::nullopt;
    return timers_.begin()->second;
  }

  Time earliest() const { return timers_.empty() ? Time::never() : timers_.begin()->first; }

 private:
  std::set<std::pair<Time, Owner>> timers_;
};

}  // namespace quern::sched
