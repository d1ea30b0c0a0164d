// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"

namespace quern::model::ir {

namespace detail {
float fp16_to_float(uint16_t bits);
float bf16_to_float(uint16_t bits);
uint16_t fp16_of(double value);
uint16_t bf16_of(double value);
}  // namespace detail

/// An element of Dtype::kFp16: arithmetic happens in float, and the result is rounded to nearest even.
struct Fp16 {
  uint16_t bits = 0;
  Fp16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit Fp16(T value) : bits(detail::fp16_of(static_cast<double>(value))) {}
  operator float() const { return detail::fp16_to_float(bits); }
};

/// An element of Dtype::kBf16.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit Bf16(T value) : bits(detail::bf16_of(static_cast<double>(value))) {}
  operator float() const { return detail::bf16_to_float(bits); }
};

/// An element of Dtype::kBool: one byte, 0 or 1.
struct Bool {
  uint8_t byte = 0;
  Bool() = default;
  explicit Bool(bool value) : byte(value) {}
  operator bool() const { return byte != 0; }
};

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || std::same_as<T, Fp16> || std::same_as<T, Bf16>;

/// The type that arithmetic on a T happens in: float for the 16-bit floats, T itself for others.
template <class T>
using Computed = std::conditional_t<std::same_as<T, Fp16> || std::same_as<T, Bf16>, float,
                                    std::conditional_t<std::same_as<T, Bool>, bool, T>>;

/// The Dtype of an element type.
template <class T>
constexpr Dtype dtype_for() {
  if constexpr (std::same_as<T, Bool>) return Dtype::kBool;
  if constexpr (std::same_as<T, int8_t>) return Dtype::kInt8;
  if constexpr (std::same_as<T, int16_t>) return Dtype::kInt16;
  if constexpr (std::same_as<T, int32_t>) return Dtype::kInt32;
  if constexpr (std::same_as<T, int64_t>) return Dtype::kInt64;
  if constexpr (std::same_as<T, uint8_t>) return Dtype::kUint8;
  if constexpr (std::same_as<T, uint16_t>) return Dtype::kUint16;
  if constexpr (std::same_as<T, uint32_t>) return Dtype::kUint32;
  if constexpr (std::same_as<T, uint64_t>) return Dtype::kUint64;
  if constexpr (std::same_as<T, Fp16>) return Dtype::kFp16;
  if constexpr (std::same_as<T, Bf16>) return Dtype::kBf16;
  if constexpr (std::same_as<T, float>) return Dtype::kFp32;
  if constexpr (std::same_as<T, double>) return Dtype::kFp64;
}

/// Calls `body.operator()<T>()` with the element type of `dtype`.
template <class Body>
decltype(auto) with_element(Dtype dtype, Body&& body) {
  switch (dtype) {
    case Dtype::kBool:
      return body.template operator()<Bool>();
    case Dtype::kInt8:
      return body.template operator()<int8_t>();
    case Dtype::kInt16:
      return body.template operator()<int16_t>();
    case Dtype::kInt32:
      return body.template operator()<int32_t>();
    case Dtype::kInt64:
      return body.template operator()<int64_t>();
    case Dtype::kUint8:
      return body.template operator()<uint8_t>();
    case Dtype::kUint16:
      return body.template operator()<uint16_t>();
    case Dtype::kUint32:
      return body.template operator()<uint32_t>();
    case Dtype::kUint64:
      return body.template operator()<uint64_t>();
    case Dtype::kFp16:
      return body.template operator()<Fp16>();
    case Dtype::kBf16:
      return body.template operator()<Bf16>();
    case Dtype::kFp32:
      return body.template operator()<float>();
    case Dtype::kFp64:
      break;
  }
  return body.template operator()<double>();
}

/// Elements in memory that need not be aligned: weights lie in the model's file wherever their field put them.
template <class T>
class Elements {
 public:
  Elements(const std::byte* begin, size_t size) : begin_(begin), size_(size) {}
  T operator[](size_t i) const {
    T value;
    std::memcpy(static_cast<void*>(&value), begin_ + i * sizeof(T), sizeof(T));
    return value;
  }
  size_t size() const { return size_; }

 private:
  const std::byte* begin_;
  size_t size_;
};

}  // namespace quern::model::ir
