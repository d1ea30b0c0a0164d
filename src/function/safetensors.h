// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "function/plan.h"

namespace quern {

/// One tensor of a .safetensors file: where its elements lie, in C order, little-endian.
struct SafeTensor {
  std::string name;
  Dtype dtype = Dtype::kFp32;
  Shape shape;
  size_t offset = 0, size_bytes = 0;  ///< in the file
};

/// Longer headers are refused: a megabyte describes ten thousand tensors.
constexpr size_t kLongestSafetensorsHeader = size_t{1} << 20;

constexpr size_t kLongestSafetensorsHead = kLongestSafetensorsHeader + 8;

/// In the order of the header. Dtypes we have no name for are kUnsupported only when they are asked for: they are left
/// out here. Every range lies in the file and fits its shape, else kInvalid.
Result<std::vector<SafeTensor>> read_safetensors(std::span<const std::byte> file);
/// The same of a file of which only the first kLongestSafetensorsHead bytes are here.
Result<std::vector<SafeTensor>> read_safetensors(std::span<const std::byte> head, uint64_t file_bytes);

}  // namespace quern
