// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "base/result.h"

namespace quern::hal::opencl {

/// The first text of every program that PoCL builds. It computes get_group_id from what a launch at an offset does not
/// change, so that a slice sees the numbers of the whole; lines count from 1 behind it. Right for slices of launches
/// that have no offset of their own.
extern const char* const kPrelude;

/// What the compiler left of a program, kernel by kernel: why launches over parts of its range might not do what one
/// over all of it does (EntryInfo::unsliceable), empty where they do.
///
/// Decided by what a kernel can reach: ids, local sizes and the number of dimensions are the same in a slice; nothing
/// else of the range may be looked at. `bitcode` is PoCL's program.bc, read with the LLVM that PoCL itself brought.
/// kUnavailable if there is none in this process, kInvalid if it cannot read it.
Result<std::map<std::string, std::string>> read_unsliceable(std::span<const std::byte> bitcode);

}  // namespace quern::hal::opencl
