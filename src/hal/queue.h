// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "base/dtype.h"
#include "base/result.h"
#include "hal/buffer.h"
#include "hal/program.h"
#include "hal/timeline.h"

namespace quern::hal {

struct LocalMemory {
  uint64_t size_bytes = 0;
};
/// A null buffer is a mistake that launch refuses.
using Argument = std::variant<Buffer*, Scalar, LocalMemory>;

struct Launch {
  Kernel* kernel = nullptr;
  std::span<const Argument> arguments;
  uint32_t dimensions = 1;   ///< 1 to 3; sizes past it are 1
  Size3 offset = {0, 0, 0};  ///< only where Caps::launch_offset
  Size3 global = {1, 1, 1};
  Size3 local = {0, 0, 0};  ///< all zero: the driver picks
};

/// START and END of one launch, on the steady clock of this machine.
struct Interval {
  int64_t start_ns = 0, end_ns = 0;
};

/// In order. One thread submits. Submitting never waits for the device; each submission returns its point on the
/// queue's timeline, 1, 2, 3, … Ranges and buffers given to it must live until that point is reached.
/// kExhausted while kTimingsKept submissions are under way. Empty ranges are kInvalid.
class Queue {
 public:
  virtual ~Queue() = default;

  virtual Result<uint64_t> write(Buffer& target, uint64_t offset, std::span<const std::byte> source) = 0;
  virtual Result<uint64_t> read(Buffer& source, uint64_t offset, std::span<std::byte> target) = 0;
  virtual Result<uint64_t> copy(Buffer& source, uint64_t source_offset, Buffer& target, uint64_t target_offset,
                                uint64_t size_bytes) = 0;
  /// `pattern` has 1, 2, 4, 8 or 16 bytes and divides `size_bytes` and `offset`.
  virtual Result<uint64_t> fill(Buffer& target, uint64_t offset, uint64_t size_bytes,
                                std::span<const std::byte> pattern) = 0;
  /// kInvalid, and nothing submitted, for too few or too many arguments, a wrong scalar size, a local size that does
  /// not divide the global one or that the device does not have, too much local memory.
  virtual Result<uint64_t> launch(const Launch& launch) = 0;
  /// What is submitted later starts only after `point` of another queue of the same device.
  virtual Status wait_for(Queue& other, uint64_t point) = 0;
  /// Hands everything submitted so far to the device: without it nothing needs to start.
  virtual Status flush() = 0;

  virtual Timeline& timeline() = 0;
  /// Of a launch that was reached, among the last kTimingsKept submissions; else nothing.
  virtual std::optional<Interval> timing(uint64_t point) = 0;
  /// Device time in unit-nanoseconds that this queue's launches used so far, brought up to date when a wait ends.
  /// From the device's timestamps, or on a CPU device the CPU time of the workers.
  virtual uint64_t device_time_ns() = 0;

  /// Launches whose timestamps could not be true, because they lay before the submission or after the end was seen.
  /// What `timing` gives of them was corrected.
  virtual uint64_t corrected_timings() { return 0; }

  static constexpr uint64_t kTimingsKept = 4096;
};

}  // namespace quern::hal
