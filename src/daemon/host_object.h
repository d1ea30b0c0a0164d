// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "os/fd.h"

namespace quern::daemon {

/// Immutable bytes in host memory, sealed, that executors map: a constant, or a compiled binary. Shared by content.
struct HostObject {
  uint64_t number = 0;  ///< of its content, as the core knows it; never that of other content
  std::string hash;
  uint64_t size_bytes = 0;
  os::Fd fd;
};
using HostObjectRef = std::shared_ptr<const HostObject>;

}  // namespace quern::daemon
