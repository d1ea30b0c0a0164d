// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <map>

#include "base/time.h"
#include "os/guarded.h"

namespace quern::hal::opencl {

/// The CPU time of the driver's threads, divided among the queues whose launches they execute.
///
/// The driver's threads are all threads of the process that are not its own (os::own_threads), so that those that start
/// late, or end, count too: their time is that of the process without that of its own threads. To read it takes two
/// system calls, one for the process and one for the thread that asks. The other threads of our own are read again once
/// that is kOwnGoodFor ago, or kOwnBestFor where their time was clearly taken for the driver's; what they used
/// meanwhile is corrected then.
///
/// Queues report launches that ended, with the most that their kernels can have used: wall time on as many workers as
/// they have groups. Settling divides what the workers used since the last time among them in that proportion. While
/// others are under way nobody gets more than that: the rest is theirs. Once there are none, the rest is what the
/// vendor did for those that ended (waking up, bookkeeping), and is theirs too: every nanosecond is somebody's. The sum
/// is right; the parts are as long as launches do not overlap on several workers. Any thread.
class WorkerMeter {
 public:
  WorkerMeter();

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
  static constexpr Duration kOwnGoodFor = Duration::millis(1), kOwnBestFor = Duration::micros(100);
  /// More than what the launches themselves can have used by so much tells that threads of our own used it.
  static constexpr Duration kMuch = Duration::micros(20);

  struct Account {
    uint64_t most_ns = 0;  // of what ended and is not settled
    uint64_t charged_ns = 0;
  };
  struct State {
    uint64_t settled_ns = 0;        // of what the driver's threads used since they started
    std::map<int, int64_t> own_ns;  // CPU time of each of our own threads when it was last read
    int64_t ended_own_ns = 0;
    Time own_read;
    uint64_t accounts_opened = 0;
    std::map<uint64_t, Account> accounts;
  };
  /// `own_good_for`: what our own threads used is read again if it was read longer ago.
  static uint64_t used_ns(State& state, Duration own_good_for);

  // Each guards itself.
  std::atomic<uint64_t> under_way_{0};
  os::Guarded<State> state_;
};

}  // namespace quern::hal::opencl
