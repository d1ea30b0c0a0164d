// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/two_lists.h"

namespace quern::sched {

int64_t TwoListsEviction::rank(const Piece& piece, int64_t) const {
  constexpr uint64_t kCold = 2;
  if (piece.kind == Scheduler::Entry::Kind::kContext) return 2;
  return piece.uses > kCold ? 1 : 0;
}

}  // namespace quern::sched
