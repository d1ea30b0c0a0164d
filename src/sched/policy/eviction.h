// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "sched/scheduler.h"

namespace quern::sched {

/// What leaves a device when room is short? A policy ranks what may leave, once, when it may; it never acts and stores
/// nothing. The lowest rank leaves first, of equals what was unused for longest.
class Eviction {
 public:
  virtual ~Eviction() = default;
  struct Piece {
    Scheduler::Entry::Kind kind = Scheduler::Entry::Kind::kObject;
    uint64_t bytes = 0;
    int64_t reload_ns = 0;  ///< what it would cost to bring it back
    uint64_t uses = 0;      ///< by runs
  };
  /// `floor`: the highest rank of anything that left.
  virtual int64_t rank(const Piece& piece, int64_t floor) const = 0;
  /// Whether what requests in the queue need is passed over, as far as there is something else.
  virtual bool looks_ahead() const { return false; }
};

}  // namespace quern::sched
