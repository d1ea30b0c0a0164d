// SPDX-License-Identifier: Apache-2.0
#include "model/ir/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/result.h"

namespace quern::model::ir {

std::string show_sizes(std::span<const int64_t> sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

std::optional<int64_t> elements_of(std::span<const int64_t> sizes) {
  int64_t product = 1;
  // A size of 0 makes the product 0, whatever the others are: the limit is on what has to be stored.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(product, size, &product) || product > kMostElements || product < 0) return std::nullopt;
  return product;
}

Tensor Tensor::view(Dtype dtype, Sizes sizes, std::span<const std::byte> bytes) {
  const auto elements = elements_of(sizes);
  QUERN_CHECK(elements && static_cast<uint64_t>(*elements) * size_of(dtype) == bytes.size(), "the bytes fit the sizes");
  Tensor out;
  out.dtype_ = dtype;
  out.sizes_ = std::move(sizes);
  out.elements_ = static_cast<size_t>(*elements);
  out.bytes_ = bytes;
  return out;
}

Tensor Tensor::own(Dtype dtype, Sizes sizes, Bytes bytes) {
  auto owned = std::make_shared<Bytes>(std::move(bytes));
  Tensor out = view(dtype, std::move(sizes), *owned);
  out.owned_ = std::move(owned);
  return out;
}

Tensor Tensor::zeros(Dtype dtype, Sizes sizes) {
  const auto elements = elements_of(sizes);
  QUERN_CHECK(elements, "the sizes of a tensor are checked before it is made");
  return own(dtype, std::move(sizes), Bytes(static_cast<size_t>(*elements) * size_of(dtype)));
}

Tensor Tensor::number(Dtype dtype, double value) {
  Tensor out = zeros(dtype, {});
  with_element(dtype, [&]<class T>() {
    if constexpr (kIsFloat<T>)
      out.write<T>()[0] = static_cast<T>(value);
    else if constexpr (std::same_as<T, Bool>)
      out.write<T>()[0] = Bool(value != 0);
    else
      out.write<T>()[0] = static_cast<T>(static_cast<int64_t>(value));
  });
  return out;
}

double Tensor::real(size_t i) const {
  return with_element(dtype_, [&]<class T>() {
    const T value = read<T>()[i];
    return static_cast<double>(static_cast<Computed<T>>(value));
  });
}

int64_t Tensor::whole(size_t i) const {
  return with_element(dtype_, [&]<class T>() -> int64_t {
    const T value = read<T>()[i];
    if constexpr (kIsFloat<T>) {
      const auto real = static_cast<double>(static_cast<Computed<T>>(value));
      if (std::isnan(real)) return 0;
      return static_cast<int64_t>(std::clamp(real, -0x1p62, 0x1p62));
    } else {
      return static_cast<int64_t>(value);
    }
  });
}

std::vector<int64_t> Tensor::wholes() const {
  std::vector<int64_t> out(elements_);
  for (size_t i = 0; i < elements_; ++i) out[i] = whole(i);
  return out;
}

Tensor Tensor::reshaped(Sizes sizes) const {
  Tensor out = view(dtype_, std::move(sizes), bytes_);
  out.owned_ = owned_;
  return out;
}

bool Tensor::operator==(const Tensor& other) const {
  return dtype_ == other.dtype_ && sizes_ == other.sizes_ && std::ranges::equal(bytes_, other.bytes_);
}

void Tensor::check(Dtype dtype) const {
  QUERN_CHECK(dtype == dtype_, fmt::format("elements of {} are read as {}", name_of(dtype_), name_of(dtype)));
}

std::byte* Tensor::own_bytes() {
  QUERN_CHECK(owned_ && owned_.use_count() == 1, "only the maker of a tensor writes to it");
  return owned_->data();
}

}  // namespace quern::model::ir
