// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "hal/program.h"

namespace quern::hal::opencl {

/// The first text of every program. It computes get_group_id from what a launch at an offset does not change, so that a
/// slice sees the numbers of the whole; lines count from 1 behind it. Right for slices of launches that have no offset
/// of their own.
extern const char* const kPrelude;

/// LLVM 15, as Debian names it.
inline constexpr const char* kLlvmLibrary = "libLLVM-15.so.1";

/// What the code of one kernel shows.
struct KernelFacts {
  struct Argument {
    AddressSpace space = AddressSpace::kPrivate;
    Access access = Access::kUnknown;
  };
  std::vector<Argument> arguments;
  /// Why launches over parts of its range might not do what one over all of it does (EntryInfo::unsliceable); empty if
  /// they do.
  std::string unsliceable;
};

/// The kernels of a program by name, from bitcode for spir64 (portable_ir.h).
///
/// Whether a kernel can be sliced is decided by what it can reach: ids, local sizes and the number of dimensions are
/// the same in a slice; nothing else of the range may be looked at. Reads with `library`, LLVM 15, which comes with
/// clang-15. kUnavailable if there is none, kInvalid if LLVM cannot read the bitcode.
Result<std::map<std::string, KernelFacts>> read_kernels(std::span<const std::byte> bitcode,
                                                        const std::string& library = kLlvmLibrary);

}  // namespace quern::hal::opencl
