// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "os/fd.h"

namespace quern::daemon {

/// As the core knows an object; never given twice. Any thread.
uint64_t new_object_number();

/// The number of a tensor that passes from call to call. Who holds it may name it; when nobody does any more, the core
/// hears that it is gone.
using PassingRef = std::shared_ptr<const uint64_t>;

/// Immutable bytes in host memory, sealed, that executors map: a constant, or a compiled binary. Shared by content.
struct HostObject {
  uint64_t number = 0;  ///< of a constant: as the core knows its content; never that of other content
  std::string hash;
  uint64_t size_bytes = 0;
  os::Fd fd;
};
using HostObjectRef = std::shared_ptr<const HostObject>;

/// A constant by name: its bytes are an object on disk, and in memory only while someone has a HostObject of them.
/// Shared by content; while a function has it, its number is that of its content.
struct Constant {
  uint64_t number = 0;
  std::string hash;
  uint64_t size_bytes = 0;
};
using ConstantRef = std::shared_ptr<const Constant>;

}  // namespace quern::daemon
