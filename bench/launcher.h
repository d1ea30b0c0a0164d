// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "bench/stage.h"
#include "daemon/daemon.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/shared_memory.h"

namespace quern::bench {

/// A launcher as a user's program will be: a process of its own that opens the device, maps a gate, sends the events
/// and pauses on the host between kernels. This is the benchmark's end of it.
///
/// Its kernel is that of bench/functions/grind: as many groups as it shall be long, which take 5 us each. The vendor's
/// worker runs on the device's core, its own thread on the host's, with exact timers. One thread uses it, and it dies
/// with the one that started it.
class Launcher {
 public:
  static constexpr uint32_t kMostGroups = 16384;   ///< of one kernel
  static constexpr uint32_t kNoGate = UINT32_MAX;  ///< instead of a gate: it asks nobody, with two launches in flight

  /// Returns once the device is open and all code is compiled. `folder` is where that is kept, for all launchers.
  static Result<std::unique_ptr<Launcher>> start(const Layout& layout, const std::string& folder);

  struct Pace {
    uint32_t iterations = 0;
    double group_ns = 0;
  };
  /// How long a group takes with so many iterations, alone on the device; with 0, as many as take 5 us. Before any
  /// work: it holds for all that follows, and is where what it learns begins.
  Result<Pace> calibrate(uint32_t iterations);

  /// A gate of its own, which orders name by this number; any number of them. Keeps the link until `leave`.
  Status join(uint32_t gate, daemon::ProgramLink link);
  Status leave(uint32_t gate);
  /// Whether its worker has the core only when nobody else wants it (SCHED_IDLE): what a class is on a CPU, done here
  /// since a program's threads are not the daemon's.
  Status set_idle(bool is_idle);

  /// A task of someone in a hurry: kernels with a pause on the host after each but the last.
  struct Task {
    uint32_t kernels = 10, groups = 1;
    Duration gap = {0};  ///< since the host knew that the kernel had ended
    double jitter = 0;   ///< 0.3: each gap is anything from 0.7 to 1.3 of that
    uint64_t seed = 0;   ///< of the jitter
  };
  struct Took {
    double ms = 0;         ///< from the first launch wanted to the last kernel known to have ended
    double device_ms = 0;  ///< of its kernels, START to END: alone, that is its time on the device
    double waited_ms = 0;  ///< at its gate
  };
  /// Waits for it.
  Result<Took> run(uint32_t gate, const Task& task);

  /// Kernels without end, one after the other, in slices if the gate says so; until `end`, which waits for what is in
  /// flight.
  Status begin(uint32_t gate, uint32_t groups);
  Status end();
  /// Since `begin`; exact to a group, also while a kernel is being executed.
  uint64_t groups_done() const;

 private:
  struct Order;
  struct Answer;
  Launcher() = default;
  Result<Answer> ask(const Order& order, std::span<const int> fds = {});
  Result<Answer> wait_answer(Duration limit);

  // Constant once it is started.
  os::Fd socket_, page_fd_;
  os::Mapping page_;
  // The one thread only.
  std::map<uint32_t, daemon::ProgramLink> links_;
  uint32_t groups_ = 0, gate_ = kNoGate;  ///< between `begin` and `end`
  os::Process process_;                   // last: destroyed first

  friend class LauncherProcess;
};

/// The other end: the work of the process that `Launcher::start` makes. Returns its exit code when the benchmark is
/// gone.
int serve_launcher(os::Fd socket);

/// As exactly as timers are (os::want_exact_timers).
void sleep_until(Time moment);

}  // namespace quern::bench
