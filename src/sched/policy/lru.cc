// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/lru.h"

namespace quern::sched {

int64_t LruEviction::rank(const Piece& piece, int64_t) const {
  return piece.kind == Scheduler::Entry::Kind::kContext ? 1 : 0;
}

}  // namespace quern::sched
