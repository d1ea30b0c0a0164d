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

/// A constant's file, of which all is here or only the head.
struct ConstantFile {
  std::span<const std::byte> here;
  const LargeFile* large = nullptr;

  uint64_t size_bytes() const { return large ? large->size_bytes : here.size(); }
};

ConstantElements elements_at(const ConstantFile& file, uint64_t offset, uint64_t size_bytes) {
  if (!file.large) return {file.here.subspan(offset, size_bytes)};
  if (size_bytes == 0) return {};
  const auto& slices = file.large->slices;
  const auto slice = std::find_if(slices.begin(), slices.end(), [&](const LargeFile::Slice& one) {
    return one.offset == offset && one.size_bytes == size_bytes;
  });
  QUERN_CHECK(slice != slices.end(), "a header has tensors that slices_of did not find");
  return {{}, &*slice};
}

Result<ConstantElements> npy_elements(const BufferDecl& buffer, const PlannedBuffer& planned,
                                      const ConstantFile& file) {
  auto npy = read_npy_header(file.here, file.size_bytes());
  if (!npy.ok()) return problem(buffer, npy.error().code, npy.error().text);
  // bf16 has no name in .npy files: its bits come as uint16.
  const bool is_bf16 = planned.dtype == Dtype::kBf16 && npy->dtype == Dtype::kUint16;
  QUERN_TRY(check_kind(buffer, planned, is_bf16 ? Dtype::kBf16 : npy->dtype, npy->shape));
  return elements_at(file, npy->data_offset, file.size_bytes() - npy->data_offset);
}

Result<ConstantElements> safetensors_elements(const BufferDecl& buffer, const PlannedBuffer& planned,
                                              const ConstantFile& file) {
  auto tensors = read_safetensors(file.here, file.size_bytes());
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
  return elements_at(file, found->offset, found->size_bytes);
}

bool is_npy(std::string_view file_name) { return file_name.ends_with(".npy"); }
bool is_safetensors(std::string_view file_name) { return file_name.ends_with(".safetensors"); }

}  // namespace

Result<ConstantElements> constant_elements(const BufferDecl& buffer, const PlannedBuffer& planned, const Files& files) {
  if (buffer.data) {
    if (buffer.data->size() != planned.size_bytes)
      return invalid(fmt::format("constant '{}': data has {} elements, but shape {} needs {}", buffer.name,
                                 buffer.data->size() / size_of(buffer.dtype), show_shape(planned.shape),
                                 planned.size_bytes / size_of(buffer.dtype)));
    return ConstantElements{*buffer.data};
  }
  const auto found = files.find(buffer.file);
  if (found == files.end()) return problem(buffer, ErrorCode::kNotFound, "is not in the folder; add it");
  const auto large = files.large.find(buffer.file);
  const ConstantFile file{found->second, large == files.large.end() ? nullptr : &large->second};
  if (is_npy(buffer.file)) return npy_elements(buffer, planned, file);
  if (is_safetensors(buffer.file)) return safetensors_elements(buffer, planned, file);
  if (file.size_bytes() != planned.size_bytes)
    return problem(buffer, ErrorCode::kInvalid,
                   fmt::format("is {} bytes, but {} {} needs {}", file.size_bytes(), name_of(planned.dtype),
                               show_shape(planned.shape), planned.size_bytes));
  return elements_at(file, 0, file.size_bytes());
}

size_t head_bytes_of(std::string_view file_name) {
  if (is_npy(file_name)) return kLongestNpyHead;
  return is_safetensors(file_name) ? kLongestSafetensorsHead : 0;
}

std::vector<LargeFile::Slice> slices_of(std::string_view file_name, std::span<const std::byte> head,
                                        uint64_t file_bytes) {
  std::vector<LargeFile::Slice> slices;
  if (is_npy(file_name)) {
    if (const auto npy = read_npy_header(head, file_bytes); npy.ok())
      slices.push_back({npy->data_offset, file_bytes - npy->data_offset});
  } else if (is_safetensors(file_name)) {
    if (const auto tensors = read_safetensors(head, file_bytes); tensors.ok())
      for (const SafeTensor& tensor : *tensors) slices.push_back({tensor.offset, tensor.size_bytes});
  } else {
    slices.push_back({0, file_bytes});
  }
  std::erase_if(slices, [](const auto& slice) { return slice.size_bytes == 0; });
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return slices;
}

}  // namespace quern
