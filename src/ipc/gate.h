// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>

namespace quern::ipc {

/// What a launcher reads before each launch: one cache line that only the daemon can write.
///
/// A grant is written in the order fields, then word; the epoch in the word grows with every grant. `from_ns` and
/// `until_ns` are part of the layout that programs of others will map; nobody writes or reads them yet.
struct alignas(64) Gate {
  std::atomic<uint64_t> word{0};      ///< epoch << 1 | open
  std::atomic<int64_t> from_ns{0};    ///< not before; 0: at once
  std::atomic<int64_t> until_ns{0};   ///< not after; 0: no end, and then no clock is read
  std::atomic<uint64_t> depth_ns{0};  ///< most device time in flight
  std::atomic<uint32_t> depth{0};     ///< most launches in flight, until durations are predicted
  std::atomic<uint64_t> spin_ns{0};   ///< how long the lane may look for its next command before it sleeps: 0 while
                                      ///< anybody else wants the core
};
static_assert(sizeof(Gate) == 64);

inline bool is_open(uint64_t word) { return word & 1; }

}  // namespace quern::ipc
