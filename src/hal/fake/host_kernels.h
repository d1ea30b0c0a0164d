// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "hal/program.h"
#include "os/event.h"

namespace quern::hal::fake {

/// A launch as a host kernel sees it. Arguments are asked for by the name they have in the source.
struct HostLaunch {
  struct Value {
    std::byte* data = nullptr;  ///< of a buffer, or of the local memory of one group
    uint64_t size_bytes = 0;
    Scalar scalar;
  };
  const EntryInfo& entry;
  std::vector<Value> values;  ///< by argument
  Size3 offset, global, local;
  const os::Event& stop;  ///< signalled when the device ends

  /// Null if there is none.
  const Value* find(std::string_view name) const;
  /// A buffer as elements; the one of index `fallback` if no argument has this name.
  template <class T>
  T* buffer(std::string_view name, size_t fallback) const {
    const Value* value = find(name);
    return reinterpret_cast<T*>((value ? value : &values.at(fallback))->data);
  }
  /// `otherwise` if no argument has this name.
  template <class T>
  T scalar(std::string_view name, T otherwise) const {
    const Value* value = find(name);
    if (!value) return otherwise;
    T result;
    std::memcpy(&result, &value->scalar.bits, sizeof result);
    return result;
  }
  /// Calls `item` with every global id, offset included, group by group.
  void each(const std::function<void(const Size3& id)>& item) const;
};

/// Fails the timeline if it returns an error.
using HostKernel = Status (*)(const HostLaunch& launch);

/// Null if there is no host version of this name.
HostKernel find_host_kernel(std::string_view name);

/// EntryInfo::unsliceable of a host version, whatever the text of the kernel would do.
std::string_view unsliceable_of(std::string_view name);

/// Whether the device stamps launches of this host version with times that cannot be true.
bool is_misdated(std::string_view name);

}  // namespace quern::hal::fake
