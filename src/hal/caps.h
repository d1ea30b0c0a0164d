// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace quern::hal {

/// Whose kernels may run beside each other on the device.
enum class Overlap : uint8_t { kNone, kWithinProcess, kAcrossProcesses };
/// What a kernel that faults takes with it.
enum class FaultScope : uint8_t { kProcess, kDevice };
/// What START and END of a launch mean: time on the device, or wall time that counts the neighbours' work too.
enum class Timestamps : uint8_t { kDevice, kWall };

/// What a device can do, as data: callers read a field instead of trying and failing.
struct Caps {
  std::string driver;     ///< "opencl", "fake"
  std::string name;       ///< as the vendor says it
  std::string build_key;  ///< all that a compiled binary depends on: device, driver and format versions
  uint64_t memory_bytes = 0;
  uint64_t context_bytes = 0;  ///< what an executor costs before its first buffer
  uint64_t max_allocation_bytes = 0;
  uint32_t allocation_granularity_bytes = 1;  ///< sizes are rounded up to this
  uint32_t alignment_bytes = 128;             ///< what imported ranges and views must start at
  uint32_t units = 1;
  uint64_t local_memory_bytes = 0;
  uint32_t max_group_size = 1;
  uint32_t max_group_sizes[3] = {1, 1, 1};
  bool launch_offset = false;
  bool unified_memory = false;  ///< host ranges can be imported and are read in place
  bool partitions = false;      ///< units can be divided into sub-devices
  /// What executes kernels are threads (Device::worker_threads) which the operating system can be told to let others go
  /// before: a priority can become a class.
  bool worker_classes = false;
  /// Allocated memory that is new to this process is zero: it never shows what another process left in it.
  bool fresh_memory_is_zero = false;
  Overlap overlap = Overlap::kNone;
  FaultScope fault_scope = FaultScope::kProcess;
  Timestamps timestamps = Timestamps::kWall;
};

}  // namespace quern::hal
