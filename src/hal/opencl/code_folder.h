// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "hal/opencl/pocl_binary.h"
#include "os/guarded.h"

namespace quern::hal::opencl {

/// A file of machine code, and whose it is.
struct CodeFile {
  std::string path;
  std::string entry;
};

/// Writes the code of a stripped binary where PoCL will look for it, each variant once, with its other names as links.
///
/// PoCL would do it itself, but syncs every file to disk, stores every variant four times, and reports success when the
/// disk is full only to abort at the first launch. `written` are the files of this process: PoCL finds code by the hash
/// of its source, so what is there already is what it would use anyway. kExhausted or kUnavailable if the folder cannot
/// take them. Returns the files that hold code, without the links.
Result<std::vector<CodeFile>> unpack_code(const PoclBinary& binary, std::span<const Size3> group_sizes,
                                          const std::string& cache_folder,
                                          os::Guarded<std::map<std::string, uint64_t>>& written);

}  // namespace quern::hal::opencl
