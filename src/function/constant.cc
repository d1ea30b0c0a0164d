// SPDX-License-Identifier: Apache-2.0
#include "function/constant.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/suggest.h"
#include "function/npy.h"
#include "function/safetensors.h"

namespace quern {
namespace {

Error problem(const BufferDecl& buffer, ErrorCode code, std::string_view what) {
  return Error{code, fmt::format("constant '{}': file '{}': {}", buffer.name, buffer.file, what)};
}

Status check_kind(const BufferDecl& buffer, const PlannedBuffer& planned, Dtype dtype, const Shape& shape) {
  if (dtype != planned.dtype)
    return problem(buffer, ErrorCode::kInvalid,
                   fmt::format("has dtype {} but the manifest says {}", name_of(dtype), name_of(planned.dtype)));
  if (shape != planned.shape)
    return problem(buffer, ErrorCode::kInvalid,
                   fmt::format("has shape {} but the manifest says {}", show_shape(shape), show_shape(planned.shape)));
  return {};
}

Result<std::span<const std::byte>> npy_bytes(const BufferDecl& buffer, const PlannedBuffer& planned,
                                             std::span<const std::byte> file) {
  auto npy = read_npy_header(file);
  if (!npy.ok()) return problem(buffer, npy.error().code, npy.error().text);
  // bf16 has no name in .npy files: its bits come as uint16.
  const bool is_bf16 = planned.dtype == Dtype::kBf16 && npy->dtype == Dtype::kUint16;
  QUERN_TRY(check_kind(buffer, planned, is_bf16 ? Dtype::kBf16 : npy->dtype, npy->shape));
  return file.subspan(npy->data_offset);
}

Result<std::span<const std::byte>> safetensors_bytes(const BufferDecl& buffer, const PlannedBuffer& planned,
                                                     std::span<const std::byte> file) {
  auto tensors = read_safetensors(file);
  if (!tensors.ok()) return problem(buffer, tensors.error().code, tensors.error().text);
  const auto found =
      std::find_if(tensors->begin(), tensors->end(), [&](const SafeTensor& one) { return one.name == buffer.tensor; });
  if (found == tensors->end()) {
    std::vector<std::string> names;
    for (const SafeTensor& tensor : *tensors) names.push_back(tensor.name);
    return problem(
        buffer, ErrorCode::kInvalid,
        fmt::format("has no tensor '{:.64}' of a dtype we know{}", buffer.tensor, did_you_mean(buffer.tensor, names)));
  }
  QUERN_TRY(check_kind(buffer, planned, found->dtype, found->shape));
  return file.subspan(found->offset, found->size_bytes);
}

}  // namespace

Result<std::span<const std::byte>> constant_bytes(const BufferDecl& buffer, const PlannedBuffer& planned,
                                                  const Files& files) {
  if (buffer.data) {
    if (buffer.data->size() != planned.size_bytes)
      return invalid(fmt::format("constant '{}': data has {} elements, but shape {} needs {}", buffer.name,
                                 buffer.data->size() / size_of(buffer.dtype), show_shape(planned.shape),
                                 planned.size_bytes / size_of(buffer.dtype)));
    return std::span<const std::byte>(*buffer.data);
  }
  const auto found = files.find(buffer.file);
  if (found == files.end()) return problem(buffer, ErrorCode::kNotFound, "is not in the folder; add it");
  const std::span<const std::byte> file = found->second;
  if (buffer.file.ends_with(".npy")) return npy_bytes(buffer, planned, file);
  if (buffer.file.ends_with(".safetensors")) return safetensors_bytes(buffer, planned, file);
  if (file.size() != planned.size_bytes)
    return problem(buffer, ErrorCode::kInvalid,
                   fmt::format("is {} bytes, but {} {} needs {}", file.size(), name_of(planned.dtype),
                               show_shape(planned.shape), planned.size_bytes));
  return file;
}

}  // namespace quern
