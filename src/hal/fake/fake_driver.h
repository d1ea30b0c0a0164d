// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "base/result.h"
#include "hal/driver.h"

namespace quern::hal::fake {

/// What goes wrong, set by tests while the device runs. Any thread.
struct Faults {
  /// The how-manieth launch from now fails its timeline (1: the next); 0: none.
  std::atomic<uint64_t> fail_launch{0};
  /// The same of copies, fills, reads and writes.
  std::atomic<uint64_t> fail_copy{0};
  /// Allocations fail once this many more bytes were given out.
  std::atomic<uint64_t> bytes_until_failure{std::numeric_limits<uint64_t>::max()};
  /// Every copy, fill, read and write takes this much longer.
  std::atomic<int64_t> copy_delay_ns{0};
  /// While true, the device starts nothing: what is submitted waits. Flush a queue after setting it back.
  std::atomic<bool> is_stopped{false};
  /// Writes of at least this many bytes do not start, and so nothing behind them. Flush a queue after raising it.
  std::atomic<uint64_t> held_write_bytes{std::numeric_limits<uint64_t>::max()};
  /// The how-manieth launch from the start of the device (1: the first) does not start while this is not 0, and so
  /// nothing behind it. Flush a queue after setting it to 0.
  std::atomic<uint64_t> hold_launch{0};
  /// Memory comes as zeros, and the caps of devices that are opened from now on say so; else it is full of kPoison.
  std::atomic<bool> fresh_memory_is_zero{false};
  /// No fault: how many launches were submitted, for tests that wait for one.
  std::atomic<uint64_t> launches{0};
};

/// What memory is full of before anyone wrote to it: as if it had been another's.
constexpr uint8_t kPoison = 0xa5;

/// A device in memory: one worker thread, which executes host versions of known kernels, in order per queue.
///
/// It "compiles" OpenCL C by reading the signatures; `host_kernels.h` lists the kernels it can execute, among them
/// three that break: `fault_store` (a real SIGSEGV), `hang` (ends only with the device) and `fail` (the launch fails).
/// Launches of `misdated` count as corrected timings.
Result<std::unique_ptr<Driver>> create_driver();
Result<std::unique_ptr<Driver>> create_driver(std::shared_ptr<Faults> faults);

}  // namespace quern::hal::fake
