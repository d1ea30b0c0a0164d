// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sched/policy/eviction.h"

namespace quern::sched {

/// As KaaS does it: what was used more than twice is hot, and leaves only when nothing is cold; each list by last use.
class TwoListsEviction final : public Eviction {
 public:
  int64_t rank(const Piece& piece, int64_t floor) const override;
};

}  // namespace quern::sched
