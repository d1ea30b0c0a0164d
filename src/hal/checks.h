// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hal/caps.h"
#include "hal/program.h"
#include "hal/queue.h"

namespace quern::hal {

// What every driver refuses before a vendor sees it, and in the same words. All give kInvalid.

/// [offset, offset + size) lies in a buffer of `buffer_bytes`, and is not empty.
Status check_range(std::string_view what, uint64_t buffer_bytes, uint64_t offset, uint64_t size_bytes);

/// The range fits, and starts where a buffer may start.
Status check_view(uint64_t buffer_bytes, uint64_t offset, uint64_t size_bytes, uint64_t alignment_bytes);

/// Both ranges fit, and do not overlap if they are of one buffer.
Status check_copy(uint64_t source_bytes, uint64_t source_offset, uint64_t target_bytes, uint64_t target_offset,
                  uint64_t size_bytes, bool is_one_buffer);

Status check_fill(uint64_t buffer_bytes, uint64_t offset, uint64_t size_bytes, uint64_t pattern_bytes);

/// The local size to launch with: the launch's, the entry's required one if the launch has none, or zeros (the driver
/// picks). kUnsupported for an offset where the device has none.
Result<Size3> check_sizes(const Launch& launch, const EntryInfo& entry, const Caps& caps, uint64_t max_group_size);

/// Bytes of a scalar type by its name in OpenCL C; 0 if it is no plain one.
uint32_t scalar_bytes_of(std::string_view type);

/// Whether arguments are those of an entry, prepared once so that each launch pays some nanoseconds.
class ArgumentCheck {
 public:
  explicit ArgumentCheck(EntryInfo entry);

  const EntryInfo& entry() const { return entry_; }
  /// kInvalid with the number of the argument, what it is and what it should be.
  Status operator()(std::span<const Argument> arguments, uint64_t device_local_bytes) const;
  Error wrong(size_t i, std::string_view what) const;

 private:
  // Constant after construction.
  EntryInfo entry_;
  std::vector<uint32_t> scalar_bytes_;  // what the type takes; 0: not known by its name, the vendor decides
};

}  // namespace quern::hal
