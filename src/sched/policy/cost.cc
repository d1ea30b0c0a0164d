// SPDX-License-Identifier: Apache-2.0
#include "sched/policy/cost.h"

#include <algorithm>

#include "sched/mutant.h"

namespace quern::sched {

int64_t CostEviction::rank(const Piece& piece, int64_t floor) const {
  constexpr uint64_t kMostUses = 64;  // one hot week must not keep it for ever
  constexpr int64_t kMostCost = int64_t{1} << 52;
  const __int128 cost = static_cast<__int128>(piece.reload_ns) * std::clamp<uint64_t>(piece.uses, 1, kMostUses) * 1024 /
                        std::max<uint64_t>(piece.bytes / 1024, 1);
  const auto bounded = static_cast<int64_t>(std::min<__int128>(cost, kMostCost));
  // The floor grows by what leaves, which is rare enough to never reach the end.
  return std::min(floor, INT64_MAX - kMostCost) + bounded;
}

}  // namespace quern::sched
