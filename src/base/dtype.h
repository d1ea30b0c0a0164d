// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern {

/// The type of an element: one list for manifests ("fp32"), the Open Inference Protocol ("FP32") and .npy ("<f4").
enum class Dtype : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
};
constexpr int kDtypes = 13;

uint32_t size_of(Dtype dtype);                         ///< bytes of one element
std::string_view name_of(Dtype dtype);                 ///< "fp32"
std::string_view protocol_name_of(Dtype dtype);        ///< "FP32"
std::string_view npy_name_of(Dtype dtype);             ///< "<f4"; bf16 has none: ""
std::optional<Dtype> dtype_of(std::string_view name);  ///< from "fp32"
std::optional<Dtype> dtype_of_protocol(std::string_view name);
std::optional<Dtype> dtype_of_npy(std::string_view name);
bool is_float(Dtype dtype);
bool is_signed(Dtype dtype);  ///< signed integers and floats

/// A scalar argument or parameter as the device gets it: `size_of(dtype)` bytes, little-endian, the rest zero.
struct Scalar {
  Dtype dtype = Dtype::kInt32;
  uint64_t bits = 0;
  bool operator==(const Scalar&) const = default;
};

/// Rounded once to the dtype; nothing if an integer dtype cannot hold it.
std::optional<Scalar> scalar_of(Dtype dtype, int64_t value);
std::optional<Scalar> scalar_of(Dtype dtype, uint64_t value);
/// Rounded once to the dtype (fp16 and bf16 to nearest even); integer dtypes take whole numbers in range only.
std::optional<Scalar> scalar_of(Dtype dtype, double value);
/// The number, for showing and comparing. Integers of 64 bits are rounded: use the bits where they must be exact.
double number_of(Scalar scalar);
/// Compares the numbers of two scalars, whose dtypes may differ. The result is exact: a double would round whole
/// numbers beyond 2^53. NaN is unordered.
std::partial_ordering compare_scalars(Scalar a, Scalar b);
/// The number in decimal, for error texts. A whole number has all its digits.
std::string text_of(Scalar scalar);
/// The whole numbers that an integer dtype holds, as "-128 to 127". Bool and floats have none: "".
std::string range_of(Dtype dtype);

}  // namespace quern
