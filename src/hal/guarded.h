// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hal/driver.h"

namespace quern::hal {

/// Bytes of a guard: one lies before each piece of memory, and one behind it.
constexpr uint64_t kGuardBytes = 16 * 1024;

/// A guard that a kernel wrote to.
struct GuardFinding {
  std::string entry;          ///< the kernel; "" if nothing was launched with this memory yet
  uint32_t argument = 0;      ///< which of its arguments the memory was, from 0
  bool is_by_kernel = false;  ///< that kernel wrote to it; else some kernel did, and this one used the memory last
  uint64_t size_bytes = 0;    ///< of the memory
  int64_t first = 0;          ///< the first byte that was written, counted from the start of the memory
  int64_t last = 0;           ///< the last such byte on the same side of the memory
  bool operator==(const GuardFinding&) const = default;
};
/// A finding as the text of an error, and back. An error passes from process to process as its text; what others put
/// before or behind the finding is ignored.
std::string to_text(const GuardFinding& finding);
std::optional<GuardFinding> finding_in(std::string_view text);

/// A driver that finds writes outside of buffers, for checks of functions. Every piece of memory lies between two
/// guards, and is filled with the byte `poison` before it is used, as the guards are. Guards that were written to are
/// an error (kFaulted, GuardFinding) of the submission behind the launch, at the latest of the next read.
///
/// A view of an allocation that nothing was written to yet is a piece of memory of its own: executors place the buffers
/// of a run in one allocation, and guards must lie between them. Such views do not share bytes, even if they overlap.
/// Submitting waits for the launch before.
std::unique_ptr<Driver> create_guarded_driver(std::unique_ptr<Driver> driver, uint8_t poison);

}  // namespace quern::hal
