// SPDX-License-Identifier: Apache-2.0
#pragma once
namespace quern::hal::opencl {

/// Lets PoCL count who uses which code, or keeps it from counting where it counts wrong (Traits::counts_code_wrong).
/// Called before the first launch of the process. Does nothing in a process without PoCL.
void let_pocl_count(bool counts_wrong);

}  // namespace quern::hal::opencl
