// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

namespace quern {
namespace {

struct Row {
  std::string_view name, protocol, npy;
  uint32_t size;
};

// In the order of Dtype.
constexpr std::array<Row, kDtypes> kRows = {{
    {"bool", "BOOL", "|b1", 1},
    {"int8", "INT8", "|i1", 1},
    {"int16", "INT16", "<i2", 2},
    {"int32", "INT32", "<i4", 4},
    {"int64", "INT64", "<i8", 8},
    {"uint8", "UINT8", "|u1", 1},
    {"uint16", "UINT16", "<u2", 2},
    {"uint32", "UINT32", "<u4", 4},
    {"uint64", "UINT64", "<u8", 8},
    {"fp16", "FP16", "<f2", 2},
    {"bf16", "BF16", "", 2},
    {"fp32", "FP32", "<f4", 4},
    {"fp64", "FP64", "<f8", 8},
}};

const Row& row(Dtype dtype) { return kRows.at(static_cast<size_t>(dtype)); }

std::optional<Dtype> find(std::string_view Row::*field, std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].*field == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

// To nearest even, straight from fp64: going by way of fp32 would round twice.
uint16_t to_fp16(double value) {
  if (std::isnan(value)) return 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return sign | 0x7c00;
  int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // `steps` counts 2^(exponent-10); carrying into the next exponent is what the addition does.
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + steps);
}

uint16_t to_bf16(double value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (magnitude >= 0x1.ffp127) return sign | 0x7f80;
  int exponent = magnitude == 0 ? -126 : std::max(std::ilogb(magnitude), -126);
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 7 - exponent)));
  return sign | static_cast<uint16_t>(((exponent + 126) << 7) + steps);
}

double from_small_float(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

uint64_t mask(Dtype dtype) {
  const uint32_t size = size_of(dtype);
  return size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
}

// A double that a dtype of at most 24 bits rounds as it would round `value`: what does not fit 53 bits is kept as one
// bit that says "a little more", so that nothing is rounded twice.
double sticky(uint64_t magnitude) {
  constexpr uint64_t kLost = 0x7ff;
  if (magnitude >> 53 != 0 && (magnitude & kLost) != 0) magnitude = (magnitude & ~kLost) | (kLost + 1);
  return static_cast<double>(magnitude);
}
double sticky(int64_t value) {
  return value < 0 ? -sticky(~static_cast<uint64_t>(value) + 1) : sticky(static_cast<uint64_t>(value));
}

using Exact = std::variant<int64_t, uint64_t, double>;

Exact exact_of(Scalar scalar) {
  if (is_float(scalar.dtype)) return number_of(scalar);
  if (scalar.dtype == Dtype::kInt64) return static_cast<int64_t>(scalar.bits);
  if (is_signed(scalar.dtype)) return static_cast<int64_t>(number_of(scalar));  // at most 32 bits: not rounded
  return scalar.bits;
}

std::partial_ordering compare_exact(double a, double b) { return a <=> b; }

template <class Whole>
std::partial_ordering compare_exact(Whole a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  // Both limits are powers of two or 0, which a double holds exactly.
  if (b < static_cast<double>(std::numeric_limits<Whole>::min())) return std::partial_ordering::greater;
  if (b >= std::ldexp(1.0, std::numeric_limits<Whole>::digits)) return std::partial_ordering::less;
  const double below = std::floor(b);
  const auto whole = static_cast<Whole>(below);
  if (a != whole) return a <=> whole;
  return below < b ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

template <class Whole>
std::partial_ordering compare_exact(double a, Whole b) {
  return 0 <=> compare_exact(b, a);
}

template <std::integral One, std::integral Other>
std::partial_ordering compare_exact(One a, Other b) {
  if (std::cmp_less(a, b)) return std::partial_ordering::less;
  return std::cmp_greater(a, b) ? std::partial_ordering::greater : std::partial_ordering::equivalent;
}

}  // namespace

uint32_t size_of(Dtype dtype) { return row(dtype).size; }
std::string_view name_of(Dtype dtype) { return row(dtype).name; }
std::string_view protocol_name_of(Dtype dtype) { return row(dtype).protocol; }
std::string_view npy_name_of(Dtype dtype) { return row(dtype).npy; }
std::optional<Dtype> dtype_of(std::string_view name) { return find(&Row::name, name); }
std::optional<Dtype> dtype_of_protocol(std::string_view name) { return find(&Row::protocol, name); }
std::optional<Dtype> dtype_of_npy(std::string_view name) { return find(&Row::npy, name); }
bool is_float(Dtype dtype) { return dtype >= Dtype::kFp16; }
bool is_signed(Dtype dtype) { return is_float(dtype) || (dtype >= Dtype::kInt8 && dtype <= Dtype::kInt64); }

std::optional<Scalar> scalar_of(Dtype dtype, int64_t value) {
  if (is_float(dtype)) {
    if (dtype == Dtype::kFp32) return Scalar{dtype, std::bit_cast<uint32_t>(static_cast<float>(value))};
    return scalar_of(dtype, dtype == Dtype::kFp64 ? static_cast<double>(value) : sticky(value));
  }
  if (dtype == Dtype::kBool)
    return value == 0 || value == 1 ? std::optional(Scalar{dtype, static_cast<uint64_t>(value)}) : std::nullopt;
  const uint32_t bits = 8 * size_of(dtype);
  if (is_signed(dtype)) {
    if (bits < 64 && (value < -(int64_t{1} << (bits - 1)) || value >= (int64_t{1} << (bits - 1)))) return std::nullopt;
  } else if (value < 0 || (bits < 64 && value >= (int64_t{1} << bits))) {
    return std::nullopt;
  }
  return Scalar{dtype, static_cast<uint64_t>(value) & mask(dtype)};
}

std::optional<Scalar> scalar_of(Dtype dtype, uint64_t value) {
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return scalar_of(dtype, static_cast<int64_t>(value));
  if (dtype == Dtype::kUint64) return Scalar{dtype, value};
  if (dtype == Dtype::kFp32) return Scalar{dtype, std::bit_cast<uint32_t>(static_cast<float>(value))};
  if (dtype == Dtype::kFp64) return Scalar{dtype, std::bit_cast<uint64_t>(static_cast<double>(value))};
  if (is_float(dtype)) return scalar_of(dtype, sticky(value));
  return std::nullopt;
}

std::optional<Scalar> scalar_of(Dtype dtype, double value) {
  switch (dtype) {
    case Dtype::kFp16:
      return Scalar{dtype, to_fp16(value)};
    case Dtype::kBf16:
      return Scalar{dtype, to_bf16(value)};
    case Dtype::kFp32:
      return Scalar{dtype, std::bit_cast<uint32_t>(static_cast<float>(value))};
    case Dtype::kFp64:
      return Scalar{dtype, std::bit_cast<uint64_t>(value)};
    default:
      break;
  }
  if (value != std::floor(value)) return std::nullopt;  // NaN too: it equals nothing
  if (dtype == Dtype::kUint64 && value >= 0 && value < 0x1p64) return Scalar{dtype, static_cast<uint64_t>(value)};
  if (value < -0x1p63 || value >= 0x1p63) return std::nullopt;
  return scalar_of(dtype, static_cast<int64_t>(value));
}

double number_of(Scalar scalar) {
  switch (scalar.dtype) {
    case Dtype::kFp16:
      return from_small_float(static_cast<uint16_t>(scalar.bits), 5, 10);
    case Dtype::kBf16:
      return from_small_float(static_cast<uint16_t>(scalar.bits), 8, 7);
    case Dtype::kFp32:
      return std::bit_cast<float>(static_cast<uint32_t>(scalar.bits));
    case Dtype::kFp64:
      return std::bit_cast<double>(scalar.bits);
    case Dtype::kInt8:
      return static_cast<int8_t>(scalar.bits);
    case Dtype::kInt16:
      return static_cast<int16_t>(scalar.bits);
    case Dtype::kInt32:
      return static_cast<int32_t>(scalar.bits);
    case Dtype::kInt64:
      return static_cast<double>(static_cast<int64_t>(scalar.bits));
    default:
      return static_cast<double>(scalar.bits);
  }
}

std::partial_ordering compare_scalars(Scalar a, Scalar b) {
  return std::visit([](auto one, auto other) { return compare_exact(one, other); }, exact_of(a), exact_of(b));
}

std::string text_of(Scalar scalar) {
  return std::visit([](auto number) { return fmt::format("{}", number); }, exact_of(scalar));
}

std::string range_of(Dtype dtype) {
  if (is_float(dtype) || dtype == Dtype::kBool) return "";
  const uint64_t largest = mask(dtype) >> (is_signed(dtype) ? 1 : 0);
  return is_signed(dtype) ? "-" + std::to_string(largest + 1) + " to " + std::to_string(largest)
                          : "0 to " + std::to_string(largest);
}

}  // namespace quern
