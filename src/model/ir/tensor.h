// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "model/ir/element.h"

namespace quern::model::ir {

/// The sizes of a tensor's dimensions, as numbers.
using Sizes = std::vector<int64_t>;

/// "[2, 3]"
std::string show_sizes(std::span<const int64_t> sizes);

/// The product of the sizes; nothing if it is beyond kMostElements.
std::optional<int64_t> elements_of(std::span<const int64_t> sizes);
constexpr int64_t kMostElements = int64_t{1} << 40;

/// A tensor whose elements are here: a weight, or a value that the interpreter computed. Elements are in C order and
/// little-endian. A copy shares the elements, so a tensor is cheap to pass and is changed by its maker only.
class Tensor {
 public:
  Tensor() = default;
  /// All elements are 0. The product of the sizes is at most kMostElements.
  static Tensor zeros(Dtype dtype, Sizes sizes);
  /// The elements stay where they are, and must outlive the tensor and its copies. The size of `bytes` fits the sizes.
  static Tensor view(Dtype dtype, Sizes sizes, std::span<const std::byte> bytes);
  /// Takes bytes over, whose size fits the sizes.
  static Tensor own(Dtype dtype, Sizes sizes, Bytes bytes);
  /// `values` are rounded to the dtype.
  template <class T>
  static Tensor of(Sizes sizes, std::span<const T> values) {
    Tensor out = zeros(dtype_for<T>(), std::move(sizes));
    std::memcpy(out.owned_->data(), values.data(), out.bytes_.size());
    return out;
  }
  template <class T>
  static Tensor scalar(T value) {
    return of<T>({}, std::span<const T>(&value, 1));
  }
  /// The list of whole numbers as an int64 tensor of rank 1.
  static Tensor list(std::span<const int64_t> values) {
    return of<int64_t>({static_cast<int64_t>(values.size())}, values);
  }
  /// One number in any dtype. The number is rounded; whole numbers out of range wrap around.
  static Tensor number(Dtype dtype, double value);

  Dtype dtype() const { return dtype_; }
  const Sizes& sizes() const { return sizes_; }
  size_t rank() const { return sizes_.size(); }
  size_t elements() const { return elements_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// The elements for reading. T is the element type of the dtype.
  template <class T>
  Elements<T> read() const {
    check(dtype_for<T>());
    return {bytes_.data(), elements_};
  }
  /// The elements for writing, of a tensor that `zeros`, `of` or `own` made and that was not copied yet.
  template <class T>
  std::span<T> write() {
    check(dtype_for<T>());
    return {reinterpret_cast<T*>(own_bytes()), elements_};
  }
  std::span<std::byte> write_bytes() { return {own_bytes(), bytes_.size()}; }

  /// Element `i` as a double, or as a whole number: floats are truncated.
  double real(size_t i) const;
  int64_t whole(size_t i) const;
  /// All elements as whole numbers.
  std::vector<int64_t> wholes() const;
  /// The same elements in other sizes, whose product is the same.
  Tensor reshaped(Sizes sizes) const;
  /// Dtype, sizes and bytes are the same.
  bool operator==(const Tensor& other) const;

 private:
  void check(Dtype dtype) const;
  std::byte* own_bytes();

  Dtype dtype_ = Dtype::kFp32;
  Sizes sizes_;
  size_t elements_ = 0;
  std::span<const std::byte> bytes_;
  std::shared_ptr<Bytes> owned_;
};

}  // namespace quern::model::ir
