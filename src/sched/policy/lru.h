// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/eviction.h"

namespace quern::sched {

/// What was not used for longest; contexts, which take longest to come back, only when nothing else is left.
class LruEviction final : public Eviction {
 public:
  int64_t rank(const Piece& piece, int64_t floor) const override;
};

}  // namespace quern::sched
