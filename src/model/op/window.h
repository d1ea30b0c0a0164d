// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "model/op/node_import.h"

namespace quern::model::op {

/// The window of a convolution or pool over the spatial dimensions of a tensor [batch, channels, space…].
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  ir::Dims pads;   ///< those before each dimension, then those behind each
  ir::Dims sizes;  ///< of the output's space

  size_t rank() const { return kernel.size(); }
};

/// Reads the attributes `kernel_shape`, `strides`, `dilations`, `pads` and `auto_pad`, and `ceil_mode` if
/// `has_ceil_mode`, of a node whose input 0 is `x`. `kernel` are the sizes of the weights; empty: the attribute must be
/// there.
Result<Window> window_of(NodeImport& node, ir::ValueId x, std::vector<int64_t> kernel, bool has_ceil_mode = false);

/// The space of a tensor in three dimensions, of which leading ones are 1: one loop for all ranks.
using Space = std::array<int64_t, 3>;
Space space_of(const std::vector<int64_t>& sizes, int64_t missing);
/// The last `rank` numbers.
template <class T>
std::vector<T> spatial(const std::vector<T>& sizes) {
  return {sizes.begin() + 2, sizes.end()};
}

}  // namespace quern::model::op
