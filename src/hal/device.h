// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "hal/buffer.h"
#include "hal/caps.h"
#include "hal/program.h"
#include "hal/queue.h"

namespace quern::hal {

/// One accelerator, opened. Any thread may call it; it outlives all that it made.
class Device {
 public:
  virtual ~Device() = default;

  virtual const Caps& caps() const = 0;

  /// kExhausted past Caps::max_allocation_bytes or past what is left. Contents are undefined: what this process left
  /// there or, unless Caps::fresh_memory_is_zero, what any other did.
  virtual Result<std::shared_ptr<Buffer>> allocate(uint64_t size_bytes) = 0;

  /// A host range as a buffer, without a copy. Only where Caps::unified_memory. The range must start at a multiple
  /// of Caps::alignment_bytes and stay mapped as long as the buffer lives; a read-only mapping may be given with
  /// `writable` false, and a kernel that writes to it faults.
  virtual Result<std::shared_ptr<Buffer>> import(std::span<std::byte> range, bool writable) = 0;

  /// A part of a buffer as a buffer of its own, in the same memory; it keeps the whole alive. Of a view too. `offset`
  /// is a multiple of Caps::alignment_bytes, else kInvalid.
  virtual Result<std::shared_ptr<Buffer>> view(const std::shared_ptr<Buffer>& whole, uint64_t offset,
                                               uint64_t size_bytes) = 0;

  /// Compiles. kInvalid with the compiler's log as text if the program is wrong. Called in builders only.
  virtual Result<std::unique_ptr<Program>> build(const Source& source) = 0;

  /// From `Program::binary`. kInvalid if it is damaged or for another device. Never compiles.
  virtual Result<std::unique_ptr<Program>> load(std::span<const std::byte> binary) = 0;

  /// Its launches use all units of the device, or `units` of them: no more than it has, and only where
  /// Caps::partitions; else kInvalid. Where there is no partition of that size, the next smaller one: there is one of
  /// 1, 2, 4, ... units at each multiple of that, and the queue's is the one that `first` is in. What is not in the
  /// same does not wait for each other.
  virtual Result<std::unique_ptr<Queue>> create_queue(uint32_t units, uint32_t first) = 0;
  Result<std::unique_ptr<Queue>> create_queue(uint32_t units) { return create_queue(units, 0); }
  Result<std::unique_ptr<Queue>> create_queue() { return create_queue(0, 0); }

  /// Runs `work` once on every thread that executes kernels in this process, and returns when all have: how alternate
  /// signal stacks, and later walls, reach threads that the vendor made. Nothing where there are none.
  virtual Status on_each_worker(const std::function<void()>& work) = 0;

  /// The threads of this process that execute kernels: the daemon sets their priority by id.
  virtual std::vector<int> worker_threads() const = 0;
};

}  // namespace quern::hal
