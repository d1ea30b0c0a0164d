// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "os/guarded.h"

namespace quern::hal::opencl {

/// The CPU time of the workers, divided among the queues whose launches they execute.
///
/// Queues report launches that ended, with the most that their kernels can have used: wall time on as many workers as
/// they have groups. Settling divides what the workers used since the last time among them in that proportion. While
/// others are under way nobody gets more than that: the rest is theirs. Once there are none, the rest is what the
/// vendor did for those that ended (waking up, bookkeeping), and is theirs too: every nanosecond is somebody's. The sum
/// is right; the parts are as long as launches do not overlap on several workers. Any thread.
class WorkerMeter {
 public:
  explicit WorkerMeter(std::vector<int> workers);

  uint64_t open_account();
  void close_account(uint64_t account);

  /// Before a launch reaches the vendor; `ended` or `abandoned` later.
  void launched() { under_way_.fetch_add(1, std::memory_order_relaxed); }
  void abandoned(uint64_t launches) { under_way_.fetch_sub(launches, std::memory_order_relaxed); }
  void ended(uint64_t account, uint64_t launches, uint64_t most_ns);
  uint64_t under_way() const { return under_way_.load(std::memory_order_relaxed); }

  void settle();
  uint64_t charged_ns(uint64_t account) const;

 private:
  uint64_t used_ns() const;

  struct Account {
    uint64_t most_ns = 0;  // of what ended and is not settled
    uint64_t charged_ns = 0;
  };
  struct State {
    uint64_t settled_ns = 0;  // of what the workers used since they started
    uint64_t accounts_opened = 0;
    std::map<uint64_t, Account> accounts;
  };
  // Constant after construction.
  std::vector<int> workers_;
  // Each guards itself.
  std::atomic<uint64_t> under_way_{0};
  os::Guarded<State> state_;
};

}  // namespace quern::hal::opencl
