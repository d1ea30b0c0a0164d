// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace quern::hal {

/// Memory that kernels see: allocated on the device, or a host range imported in place.
///
/// Released with its last owner; the owner keeps it until every point that uses it is reached.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual uint64_t size_bytes() const = 0;
};

}  // namespace quern::hal
