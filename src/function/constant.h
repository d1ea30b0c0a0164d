// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "function/plan.h"

namespace quern {

/// The elements of a constant, here or, of a large file, elsewhere.
struct ConstantElements {
  std::span<const std::byte> bytes;  ///< if `slice` is null
  const LargeFile::Slice* slice = nullptr;
};

/// The elements of a constant: those in the manifest, a file as it is, or behind the header of an .npy or .safetensors
/// whose dtype and shape must match. They live in `buffer` or in `files`.
Result<ConstantElements> constant_elements(const BufferDecl& buffer, const PlannedBuffer& planned, const Files& files);

/// How many bytes at the beginning of a file of this name say what tensors are in it.
size_t head_bytes_of(std::string_view file_name);
/// Where the elements of tensors lie in a file of which the first head_bytes_of(file_name) bytes are here; without
/// their hashes. A file without a header is one slice; one whose header makes no sense has none.
std::vector<LargeFile::Slice> slices_of(std::string_view file_name, std::span<const std::byte> head,
                                        uint64_t file_bytes);

}  // namespace quern
