// SPDX-License-Identifier: Apache-2.0
#include "daemon/plan_cache.h"

#include <iterator>

namespace quern::daemon {
namespace {

// Of an item, its place in the table and what the allocator adds.
constexpr uint64_t kOverheadBytes = 256;

}  // namespace

CachedPlanRef PlanCache::find(std::string_view key) {
  return tables_.with([&](Tables& tables) -> CachedPlanRef {
    const auto known = tables.by_key.find(key);
    if (known == tables.by_key.end()) return nullptr;
    tables.by_use.splice(tables.by_use.begin(), tables.by_use, known->second);
    return known->second->plan;
  });
}

CachedPlanRef PlanCache::put(std::string key, CachedPlanRef plan) {
  const uint64_t bytes = footprint_of(plan->plan) + key.size() + kOverheadBytes;
  std::list<Item> leaving;  // gone when the lock is
  return tables_.with([&](Tables& tables) -> CachedPlanRef {
    if (const auto known = tables.by_key.find(key); known != tables.by_key.end()) return known->second->plan;
    tables.by_use.push_front({std::move(key), plan, bytes});
    tables.by_key.emplace(tables.by_use.front().key, tables.by_use.begin());
    tables.bytes += bytes;
    while (tables.bytes > most_bytes_ && tables.by_use.size() > 1) {
      tables.bytes -= tables.by_use.back().bytes;
      tables.by_key.erase(tables.by_use.back().key);
      leaving.splice(leaving.end(), tables.by_use, std::prev(tables.by_use.end()));
    }
    return plan;
  });
}

}  // namespace quern::daemon
