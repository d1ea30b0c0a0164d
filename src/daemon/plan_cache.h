// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "function/plan.h"
#include "os/guarded.h"

namespace quern::daemon {

/// A plan with the id executors know it by.
struct CachedPlan {
  uint64_t id = 0;
  Plan plan;
  uint64_t run_bytes = 0;  ///< what a run needs for itself: its memory without the constants
};
using CachedPlanRef = std::shared_ptr<const CachedPlan>;

/// The plans of one version of a function, by their keys. Those that were not asked for the longest leave when all
/// together take more than `most_bytes` of our memory; whoever uses one keeps it. The latest always stays. Any thread.
class PlanCache {
 public:
  /// Thousands of plans of small graphs, and several of the largest that there are.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  explicit PlanCache(uint64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  /// Null if there is none.
  CachedPlanRef find(std::string_view key);
  /// The plan that is kept: another thread may have been faster.
  CachedPlanRef put(std::string key, CachedPlanRef plan);

 private:
  struct Item {
    std::string key;
    CachedPlanRef plan;
    uint64_t bytes = 0;
  };
  struct Tables {
    std::list<Item> by_use;                                                  ///< the latest first
    std::unordered_map<std::string_view, std::list<Item>::iterator> by_key;  ///< of the keys in `by_use`
    uint64_t bytes = 0;
  };

  uint64_t most_bytes_;
  os::Guarded<Tables> tables_;
};

}  // namespace quern::daemon
