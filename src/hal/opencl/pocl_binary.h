// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "hal/program.h"

namespace quern::hal::opencl {

/// PoCL's program binary (format 9, PoCL 3.x), taken apart strictly.
///
/// PoCL's own loader trusts what it reads: a wrong size is an assert, a name with ".." is written outside its folder.
/// So nothing reaches it that was not taken apart here and put together again. The spans point into what was parsed.
struct PoclFile {
  std::string name;  ///< below the program's folder: "saxpy/64-1-1/saxpy.so"
  std::span<const std::byte> content;
};
struct PoclKernel {
  std::string name;
  std::span<const std::byte> metadata;  ///< counts, required size, attributes, arguments: checked, kept as it is
  uint32_t argument_bytes = 0;          ///< the last part of `metadata`
  std::vector<PoclFile> files;
};
struct PoclBinary {
  uint64_t device_id = 0;
  uint32_t version = 0;
  uint64_t flags = 0;
  std::string folder;           ///< "HH/HASH", where PoCL looks for the program below its cache folder
  std::vector<PoclFile> roots;  ///< the program's bitcode, as long as it has some
  std::vector<PoclKernel> kernels;
};

/// kInvalid for anything that PoCL 3.1 would not have written: sizes that do not add up, names that leave the folder.
Result<PoclBinary> parse_pocl(std::span<const std::byte> bytes);
Bytes write_pocl(const PoclBinary& binary);

/// "64-1-1"
std::string variant_of(const Size3& group_size);

/// The names under which PoCL looks for the code of one local size, by offset and grid. The first is what builders
/// make, and is right for all of them; the generic one ("0-0-0") has no other names.
std::vector<std::string> variants_of(const Size3& group_size);

/// Takes out the bitcode, without which PoCL cannot compile and uses the generic code for sizes that have none of
/// their own, and all variants but the generic and those of `group_sizes`. kInternal if one of these is missing.
Status strip_pocl(PoclBinary& binary, std::span<const Size3> group_sizes);

}  // namespace quern::hal::opencl
