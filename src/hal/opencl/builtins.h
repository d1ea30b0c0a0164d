// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace quern::hal::opencl {

/// What a built-in function of OpenCL C does with the range of a launch, by its name without its types.
enum class BuiltinKind : uint8_t {
  kNone,   ///< no built-in that is known here
  kSame,   ///< gives the same in a slice of a launch as in the whole
  kOther,  ///< shows the range: a slice is another range
};
BuiltinKind kind_of_builtin(std::string_view name);

/// What a built-in does with memory behind a pointer that is its argument number `argument`, counted from 0.
struct PointerUse {
  bool reads = false, writes = false;
};
PointerUse use_of_pointer(std::string_view name, unsigned argument);

}  // namespace quern::hal::opencl
