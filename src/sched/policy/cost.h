// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/eviction.h"

namespace quern::sched {

/// What is cheapest to bring back per byte it frees, by how likely it is to be needed: time of a reload x uses / bytes,
/// on top of what left last, so that what was much used once grows old (GreedyDual-Size with frequency). What requests
/// in the queue need is certain to be needed, and passed over.
class CostEviction final : public Eviction {
 public:
  int64_t rank(const Piece& piece, int64_t floor) const override;
  bool looks_ahead() const override { return true; }
};

}  // namespace quern::sched
