// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>

#include "sched/types.h"

namespace quern::sched {

/// How much device time a run of a function takes, as far as is known: a mean in which each run counts a quarter. A
/// record exists from a function's first run until it is gone.
class Estimates {
 public:
  explicit Estimates(Duration first) : first_(first) {}

  bool knows(FunctionId function) const { return means_.contains(function); }
  int64_t of(FunctionId function) const {
    const auto found = means_.find(function);
    return found == means_.end() ? first_.ns : found->second;
  }
  void learn(FunctionId function, int64_t used_ns) {
    const auto [mean, fresh] = means_.try_emplace(function, used_ns);
    if (!fresh) mean->second += (used_ns - mean->second) / 4;
  }
  void forget(FunctionId function) { means_.erase(function); }

 private:
  const Duration first_;
  std::map<FunctionId, int64_t> means_;
};

}  // namespace quern::sched
