// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quern::os {

/// A shared library opened at run time and never closed: vendors' libraries leave threads behind.
class Dylib {
 public:
  /// kUnavailable if it cannot be opened.
  static Result<Dylib> open(const std::string& name);
  /// One that this process has loaded already, by how its file's name begins. kUnavailable if it has none.
  static Result<Dylib> find(std::string_view name);

  /// Null if neither it nor what it was linked with has such a symbol.
  void* symbol(const char* name) const;

 private:
  explicit Dylib(void* handle) : handle_(handle) {}
  void* handle_;
};

/// The address range of executable code of a library that is loaded (or is now) from `path`.
struct CodeSegment {
  uintptr_t begin = 0, end = 0;
};
Result<CodeSegment> load_code(const std::string& path);

}  // namespace quern::os
