// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/ir/tensor.h"

namespace quern::model::op {

/// How far apart, in elements, neighbours along each dimension are in C order.
inline std::vector<int64_t> strides_of(const ir::Sizes& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  return strides;
}

/// The strides of a tensor that is read as if it had the larger `sizes`: 0 along the dimensions that it repeats.
inline std::vector<int64_t> repeated_strides(const ir::Sizes& own, const ir::Sizes& sizes) {
  const std::vector<int64_t> strides = strides_of(own);
  std::vector<int64_t> out(sizes.size());
  const size_t missing = sizes.size() - own.size();
  for (size_t i = 0; i < own.size(); ++i) out[missing + i] = own[i] == 1 ? 0 : strides[i];
  return out;
}

/// Calls `body(i, offsets)` for every element of `sizes` in C order: `i` counts, and `offsets` are the places of the
/// element in N tensors of these strides.
template <size_t N, class Body>
void walk(const ir::Sizes& sizes, const std::array<std::vector<int64_t>, N>& strides, Body body) {
  for (const int64_t size : sizes)
    if (size == 0) return;
  std::array<int64_t, N> offsets{};
  ir::Sizes at(sizes.size());
  for (size_t i = 0;; ++i) {
    body(i, offsets);
    size_t d = sizes.size();
    while (true) {
      if (d-- == 0) return;
      for (size_t n = 0; n < N; ++n) offsets[n] += strides[n][d];
      if (++at[d] < sizes[d]) break;
      for (size_t n = 0; n < N; ++n) offsets[n] -= strides[n][d] * sizes[d];
      at[d] = 0;
    }
  }
}

}  // namespace quern::model::op
