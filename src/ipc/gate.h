// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>

namespace quern::ipc {

/// What a grant lets a launcher do. Times are of the steady clock, and absolute.
struct Grant {
  bool open = false;
  bool tells = false;      ///< the launcher says when a gap begins and when it has work; else it is alone, and need not
  bool meters = false;     ///< and what it used, every millisecond and whenever it has to wait
  bool traces = false;     ///< and from when to when each launch was on the device
  bool overdraws = false;  ///< what cannot end by `until` may begin before it
  int64_t from_ns = 0;     ///< not before; 0: at once
  int64_t until_ns = 0;    ///< what is launched is to end by then; 0: no end, and then no clock is read
  uint64_t depth_ns = 0;   ///< most device time in flight
  uint32_t depth = 0;      ///< most launches in flight
  uint32_t slice_ns = 0;   ///< a kernel of more than two of these is launched in slices; 0: whole
  uint32_t beyond_ns = 0;  ///< after `until` it goes on in slices of this; 0: it stops there
  bool operator==(const Grant&) const = default;
};

/// What a launcher reads before each launch: one cache line that only the daemon can write.
///
/// It is closed while a grant is written, so that nobody launches by half of one: who reads the same word before and
/// after the rest has read one grant. Whoever sees any part of a newer one sees that it was closed before: that is why
/// the parts are released and acquired, too.
struct alignas(64) Gate {
  std::atomic<uint64_t> word{0};  ///< epoch << 5 | flags | open; the epoch grows with every grant
  std::atomic<int64_t> from_ns{0};
  std::atomic<int64_t> until_ns{0};
  std::atomic<uint64_t> depth_ns{0};
  std::atomic<uint32_t> depth{0};
  std::atomic<uint32_t> slice_ns{0};
  std::atomic<uint32_t> beyond_ns{0};
  std::atomic<uint32_t> spin_ns{0};  ///< how long the launcher may look for its next command before it sleeps: 0 while
                                     ///< anybody else wants the core
};
static_assert(sizeof(Gate) == 64);

inline bool is_open(uint64_t word) { return word & 1; }
inline bool is_telling(uint64_t word) { return word & 2; }
inline bool is_metering(uint64_t word) { return word & 4; }
inline bool is_tracing(uint64_t word) { return word & 8; }
inline bool is_overdrawing(uint64_t word) { return word & 16; }

/// In the daemon. `epoch` is its own copy, one per gate.
inline void write_grant(Gate& gate, uint64_t& epoch, const Grant& grant) {
  const uint64_t word = ++epoch << 5 | (grant.tells ? 2 : 0) | (grant.meters ? 4 : 0) | (grant.traces ? 8 : 0) |
                        (grant.overdraws ? 16 : 0);
  gate.word.store(word, std::memory_order_seq_cst);
  gate.from_ns.store(grant.from_ns, std::memory_order_release);
  gate.until_ns.store(grant.until_ns, std::memory_order_release);
  gate.depth_ns.store(grant.depth_ns, std::memory_order_release);
  gate.depth.store(grant.depth, std::memory_order_release);
  gate.slice_ns.store(grant.slice_ns, std::memory_order_release);
  gate.beyond_ns.store(grant.beyond_ns, std::memory_order_release);
  if (grant.open) gate.word.store(word | 1, std::memory_order_seq_cst);
}

/// In the launcher. One that is being written is closed.
inline Grant read_grant(const Gate& gate) {
  const uint64_t word = gate.word.load(std::memory_order_acquire);
  Grant grant;
  grant.tells = is_telling(word);
  grant.meters = is_metering(word);
  grant.traces = is_tracing(word);
  grant.overdraws = is_overdrawing(word);
  if (!is_open(word)) return grant;
  grant.from_ns = gate.from_ns.load(std::memory_order_acquire);
  grant.until_ns = gate.until_ns.load(std::memory_order_acquire);
  grant.depth_ns = gate.depth_ns.load(std::memory_order_acquire);
  grant.depth = gate.depth.load(std::memory_order_acquire);
  grant.slice_ns = gate.slice_ns.load(std::memory_order_acquire);
  grant.beyond_ns = gate.beyond_ns.load(std::memory_order_acquire);
  grant.open = gate.word.load(std::memory_order_relaxed) == word;
  return grant;
}

}  // namespace quern::ipc
