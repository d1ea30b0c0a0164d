// SPDX-License-Identifier: Apache-2.0
//
// TensorProto has one field of elements per width, and `raw_data` for any type. Small types ride in `int32_data`, one
// element a number: floats of 16 bits as their bits.
#include "model/onnx/tensor.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "base/printable.h"
#include "model/onnx/external.h"

namespace quern::model::onnx {
namespace {

struct TypeRow {
  std::string_view name;
  std::optional<Dtype> dtype;
  uint32_t field;  // of elements that are not raw
};
// In the order of TensorProto.DataType.
constexpr std::array<TypeRow, 27> kTypes = {{
    {"UNDEFINED", std::nullopt, 0},      {"FLOAT", Dtype::kFp32, 4},      {"UINT8", Dtype::kUint8, 5},
    {"INT8", Dtype::kInt8, 5},           {"UINT16", Dtype::kUint16, 5},   {"INT16", Dtype::kInt16, 5},
    {"INT32", Dtype::kInt32, 5},         {"INT64", Dtype::kInt64, 7},     {"STRING", std::nullopt, 6},
    {"BOOL", Dtype::kBool, 5},           {"FLOAT16", Dtype::kFp16, 5},    {"DOUBLE", Dtype::kFp64, 10},
    {"UINT32", Dtype::kUint32, 11},      {"UINT64", Dtype::kUint64, 11},  {"COMPLEX64", std::nullopt, 4},
    {"COMPLEX128", std::nullopt, 10},    {"BFLOAT16", Dtype::kBf16, 5},   {"FLOAT8E4M3FN", std::nullopt, 5},
    {"FLOAT8E4M3FNUZ", std::nullopt, 5}, {"FLOAT8E5M2", std::nullopt, 5}, {"FLOAT8E5M2FNUZ", std::nullopt, 5},
    {"UINT4", std::nullopt, 5},          {"INT4", std::nullopt, 5},       {"FLOAT4E2M1", std::nullopt, 5},
    {"FLOAT8E8M0", std::nullopt, 5},     {"UINT2", std::nullopt, 5},      {"INT2", std::nullopt, 5},
}};
constexpr uint32_t kRawData = 9;

std::string object_of(const Tensor& tensor) { return fmt::format("tensor '{}'", printable(tensor.name)); }

Error wrong_count(const Tensor& tensor, uint64_t have, uint64_t want, std::string_view unit) {
  return invalid(fmt::format("{}: has {} {} of data, and its sizes {} ask for {}; write the model again",
                             object_of(tensor), have, unit, ir::show_sizes(tensor.dims), want));
}

// Elements from the field of their width, each a number of the wire.
class Typed {
 public:
  Typed(const Tensor& tensor, Dtype dtype, size_t elements) : tensor_(tensor), dtype_(dtype), want_(elements) {
    // A number takes at least one byte of the message: sizes that ask for more are refused before they cost memory.
    if (elements <= tensor.message.size()) bytes_.reserve(elements * size_of(dtype));
  }

  Status take(const Field& field) {
    bool fits = false;
    switch (field.number) {
      case 4:
        fits = each_fixed<uint32_t>(field, [&](uint32_t bits) { return put(bits); });
        break;
      case 10:
        fits = each_fixed<uint64_t>(field, [&](uint64_t bits) { return put(bits); });
        break;
      default:
        fits = each_varint(field, [&](uint64_t bits) { return put(bits); });
    }
    if (fits || have_ > want_) return {};
    return invalid(fmt::format("{}: its data end within a number; the file is damaged", object_of(tensor_)));
  }
  Result<ir::Tensor> finish() {
    if (have_ != want_) return wrong_count(tensor_, have_, want_, "elements");
    return ir::Tensor::own(dtype_, tensor_.dims, std::move(bytes_));
  }

 private:
  bool put(uint64_t bits) {
    if (++have_ > want_) return false;
    const size_t at = bytes_.size();
    bytes_.resize(at + size_of(dtype_));
    std::memcpy(bytes_.data() + at, &bits, size_of(dtype_));
    return true;
  }

  const Tensor& tensor_;
  Dtype dtype_;
  size_t want_, have_ = 0;
  Bytes bytes_;
};

Status check_bools(const Tensor& tensor, const ir::Tensor& out) {
  if (out.dtype() != Dtype::kBool) return {};
  for (const std::byte byte : out.bytes())
    if (std::to_integer<uint8_t>(byte) > 1)
      return invalid(
          fmt::format("{}: holds a bool of {}; write 0 or 1", object_of(tensor), std::to_integer<int>(byte)));
  return {};
}

Result<ir::Tensor> from_bytes(const Tensor& tensor, Dtype dtype, size_t elements, Span bytes) {
  if (bytes.size() != elements * size_of(dtype))
    return wrong_count(tensor, bytes.size(), elements * size_of(dtype), "bytes");
  auto out = ir::Tensor::view(dtype, tensor.dims, bytes);
  QUERN_TRY(check_bools(tensor, out));
  return out;
}

}  // namespace

std::optional<Dtype> dtype_of(int32_t data_type) {
  if (data_type < 0 || static_cast<size_t>(data_type) >= kTypes.size()) return std::nullopt;
  return kTypes[static_cast<size_t>(data_type)].dtype;
}

std::string name_of_data_type(int32_t data_type) {
  if (data_type < 0 || static_cast<size_t>(data_type) >= kTypes.size()) return fmt::format("type {}", data_type);
  return std::string(kTypes[static_cast<size_t>(data_type)].name);
}

Result<ir::Tensor> decode(const Tensor& tensor, const ExternalFiles& files) {
  const auto dtype = dtype_of(tensor.data_type);
  if (!dtype)
    return unsupported(fmt::format("{}: elements of {} are not supported; convert the model to fp32 or integers",
                                   object_of(tensor), name_of_data_type(tensor.data_type)));
  const auto count = ir::elements_of(tensor.dims);
  if (!count)
    return exhausted(fmt::format("{}: sizes {} are more than {} elements; split it", object_of(tensor),
                                 ir::show_sizes(tensor.dims), ir::kMostElements));
  const auto elements = static_cast<size_t>(*count);
  if (tensor.is_external) {
    QUERN_TRY(Span bytes, external_bytes(tensor, elements * size_of(*dtype), files));
    return from_bytes(tensor, *dtype, elements, bytes);
  }
  const uint32_t field_of_elements = kTypes[static_cast<size_t>(tensor.data_type)].field;
  const bool is_wide_float = *dtype == Dtype::kFp32 || *dtype == Dtype::kFp64;
  std::optional<Span> raw;
  Typed typed(tensor, *dtype, elements);
  WireReader reader(tensor.message);
  for (Field field; reader.next(field);) {
    if (field.number == kRawData && field.wire == Wire::kBytes) {
      raw = field.bytes;
    } else if (field.number == field_of_elements) {
      // The usual case of floats that are not raw: all in one packed field, which is laid out as the tensor is.
      if (is_wide_float && field.wire == Wire::kBytes && field.bytes.size() == elements * size_of(*dtype))
        raw = field.bytes;
      else
        QUERN_TRY(typed.take(field));
    }
  }
  if (raw) return from_bytes(tensor, *dtype, elements, *raw);
  QUERN_TRY(ir::Tensor out, typed.finish());
  QUERN_TRY(check_bools(tensor, out));
  return out;
}

}  // namespace quern::model::onnx
