// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/lru.h"

namespace quern::sched {

std::optional<Eviction::Victim> LruEviction::choose(const Ledger& ledger) const {
  if (!ledger.idle_objects().empty()) return ledger.idle_objects().begin()->second;
  if (!ledger.idle_contexts().empty()) return ledger.idle_contexts().begin()->second;
  return std::nullopt;
}

}  // namespace quern::sched
