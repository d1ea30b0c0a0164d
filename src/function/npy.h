// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "function/plan.h"

namespace quern {

/// What an .npy file holds: where its elements start, in C order, little-endian.
struct Npy {
  Dtype dtype = Dtype::kFp32;
  Shape shape;
  size_t data_offset = 0;
};

/// As much of a file as its header can take.
constexpr size_t kLongestNpyHead = 64 * 1024 + 12;

/// Versions 1 to 3; Fortran order and big-endian are kUnsupported; data shorter or longer than the shape is kInvalid.
Result<Npy> read_npy_header(std::span<const std::byte> file);
/// The same of a file of which only the first kLongestNpyHead bytes are here.
Result<Npy> read_npy_header(std::span<const std::byte> head, uint64_t file_bytes);

/// The header of a version 1 file, padded to 64 bytes; the elements follow it. kUnsupported for bf16.
Result<std::string> npy_header(Dtype dtype, std::span<const int64_t> shape);

}  // namespace quern
