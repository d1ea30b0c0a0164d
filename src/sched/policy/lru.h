// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/eviction.h"

namespace quern::sched {

/// The object that was not used for longest; contexts, which take longest to come back, only when no object is left.
class LruEviction final : public Eviction {
 public:
  std::optional<Victim> choose(const Ledger& ledger) const override;
};

}  // namespace quern::sched
