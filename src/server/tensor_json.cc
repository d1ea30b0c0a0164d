// SPDX-License-Identifier: Apache-2.0
#include "server/tensor_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "function/plan.h"

namespace quern::server {
namespace {

// The nearest value of T; nothing if the number is past its largest. Too small a number is zero or subnormal, as
// rounding has it: from_chars calls that out of range too, so only strtod can tell the two apart.
template <class T>
std::optional<T> real_of(std::string_view text) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec == std::errc() && end == text.data() + text.size()) return value;
  if (ec != std::errc::result_out_of_range) return std::nullopt;
  const std::string copy(text);
  if constexpr (std::is_same_v<T, float>)
    value = std::strtof(copy.c_str(), nullptr);
  else
    value = std::strtod(copy.c_str(), nullptr);
  if (std::isinf(value)) return std::nullopt;
  return value;
}

template <class T>
T element(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
bool append_element(std::string& out, T value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  const std::string_view shown(text, static_cast<size_t>(end - text));
  out.append(shown);
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return false;
    // "-0" would be read back as an integer, and lose its sign.
    if (shown.find_first_of(".e") == std::string_view::npos) out += ".0";
  }
  return true;
}

template <class T>
Status append_elements(std::string& out, std::string_view name, std::span<const std::byte> bytes, ElementRange range) {
  const uint64_t all = bytes.size() / sizeof(T);
  const uint64_t end = range.first + std::min(range.count, all - range.first);
  if (range.first == 0) out += '[';
  for (uint64_t i = range.first; i < end; ++i) {
    if (i > 0) out += ',';
    if constexpr (std::is_same_v<T, bool>) {
      out += bytes[i] != std::byte{0} ? "true" : "false";
    } else if (!append_element(out, element<T>(bytes, i))) {
      return invalid(
          fmt::format("output {}: element {} is {}, which JSON cannot say; ask for binary "
                      "(\"binary_data\": true)",
                      name, i, std::isnan(static_cast<double>(element<T>(bytes, i))) ? "NaN" : "infinite"));
    }
  }
  if (end == all) out += ']';
  return {};
}

}  // namespace

std::optional<uint64_t> elements_of(std::span<const int64_t> shape) {
  uint64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size != 0 && count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / static_cast<uint64_t>(size))
      return std::nullopt;
    count *= static_cast<uint64_t>(size);
  }
  return count;
}

TensorReader::TensorReader(std::string_view name, Dtype dtype, std::span<const int64_t> shape,
                           std::span<std::byte> into)
    : name_(name), dtype_(dtype), shape_(shape), into_(into), elements_(into.size() / size_of(dtype)) {}

bool TensorReader::fail(std::string text) {
  if (!error_) error_ = invalid(fmt::format("input {}: {}", name_, text));
  return false;
}

bool TensorReader::refuse(std::string_view shown) {
  return fail(fmt::format("element {}: {} is no {}", taken_, shown.substr(0, 40), protocol_name_of(dtype_)));
}

bool TensorReader::begin_array() {
  if (error_) return false;
  if (counts_.size() == 1 && taken_ == 0 && counts_[0] == 0) nested_ = true;
  if (!counts_.empty() && (!nested_ || counts_.size() >= shape_.size()))
    return fail(
        fmt::format("data is nested otherwise than shape {}; write it flat, or as the shape says", show_shape(shape_)));
  if (!counts_.empty()) ++counts_.back();
  counts_.push_back(0);
  return true;
}

bool TensorReader::end_array() {
  if (error_ || counts_.empty()) return false;
  const int64_t count = counts_.back();
  counts_.pop_back();
  const size_t level = counts_.size();
  if (nested_ && count != shape_[level])
    return fail(fmt::format("data has {} elements at level {}, but shape {} says {}", count, level, show_shape(shape_),
                            shape_[level]));
  if (level == 0 && taken_ != elements_)
    return fail(fmt::format("data has {} elements, but shape {} has {}", taken_, show_shape(shape_), elements_));
  return true;
}

bool TensorReader::may_take() {
  if (error_ || counts_.empty()) return false;
  if (nested_ && counts_.size() != shape_.size())
    return fail(
        fmt::format("data is nested otherwise than shape {}; write it flat, or as the shape says", show_shape(shape_)));
  if (taken_ >= elements_)
    return fail(fmt::format("data has more elements than the {} of shape {}", elements_, show_shape(shape_)));
  return true;
}

bool TensorReader::place(uint64_t bits) {
  const uint32_t size = size_of(dtype_);
  std::memcpy(into_.data() + taken_ * size, &bits, size);
  ++taken_;
  ++counts_.back();
  return true;
}

bool TensorReader::put_bool(bool value) {
  if (!may_take()) return false;
  return dtype_ == Dtype::kBool ? place(value) : refuse(value ? "true" : "false");
}

bool TensorReader::put_int64(int64_t value) {
  if (!may_take()) return false;
  const auto scalar = scalar_of(dtype_, value);
  return scalar ? place(scalar->bits) : refuse(fmt::format("{}", value));
}

bool TensorReader::put_uint64(uint64_t value) {
  if (!may_take()) return false;
  const auto scalar = scalar_of(dtype_, value);
  return scalar ? place(scalar->bits) : refuse(fmt::format("{}", value));
}

bool TensorReader::put_real(std::string_view text) {
  if (!may_take()) return false;
  if (dtype_ == Dtype::kFp32) {
    const auto value = real_of<float>(text);
    return value ? place(std::bit_cast<uint32_t>(*value)) : refuse(text);
  }
  const auto value = real_of<double>(text);
  if (!value) return refuse(text);
  if (dtype_ == Dtype::kFp64) return place(std::bit_cast<uint64_t>(*value));
  // 1.0 and 1e3 are whole; from 2^53 on the double no longer says which whole number was meant.
  if (std::fabs(*value) >= 0x1p53) return refuse(text);
  const auto scalar = scalar_of(dtype_, *value);
  return scalar ? place(scalar->bits) : refuse(text);
}

bool TensorReader::put_other(std::string_view what) { return may_take() && refuse(what); }

Status append_tensor(std::string& out, std::string_view name, Dtype dtype, std::span<const std::byte> bytes,
                     ElementRange range) {
  switch (dtype) {
    case Dtype::kBool:
      return append_elements<bool>(out, name, bytes, range);
    case Dtype::kInt8:
      return append_elements<int8_t>(out, name, bytes, range);
    case Dtype::kInt16:
      return append_elements<int16_t>(out, name, bytes, range);
    case Dtype::kInt32:
      return append_elements<int32_t>(out, name, bytes, range);
    case Dtype::kInt64:
      return append_elements<int64_t>(out, name, bytes, range);
    case Dtype::kUint8:
      return append_elements<uint8_t>(out, name, bytes, range);
    case Dtype::kUint16:
      return append_elements<uint16_t>(out, name, bytes, range);
    case Dtype::kUint32:
      return append_elements<uint32_t>(out, name, bytes, range);
    case Dtype::kUint64:
      return append_elements<uint64_t>(out, name, bytes, range);
    case Dtype::kFp32:
      return append_elements<float>(out, name, bytes, range);
    case Dtype::kFp64:
      return append_elements<double>(out, name, bytes, range);
    case Dtype::kFp16:
    case Dtype::kBf16:
      break;
  }
  return invalid(fmt::format("output {}: {} has no form in JSON; ask for binary (\"binary_data\": true)", name,
                             protocol_name_of(dtype)));
}

}  // namespace quern::server
