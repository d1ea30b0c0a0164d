// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "base/result.h"
#include "model/onnx/tensor.h"

namespace quern::model::onnx {

/// Whether a path names a file below a folder, as written: relative, of names that are neither empty nor `.` nor `..`,
/// and without backslashes and control characters.
bool stays_inside(std::string_view path);

/// The bytes of a tensor whose elements are in another file, as its keys `location`, `offset` and `length` say. Without
/// a length the bytes are those that the tensor needs. The key `checksum` is not verified: the version of a function is
/// the hash of all its files. kDenied for a path that leaves the folder; kInvalid for a range beyond the file.
Result<Span> external_bytes(const Tensor& tensor, uint64_t size_bytes, const ExternalFiles& files);

}  // namespace quern::model::onnx
