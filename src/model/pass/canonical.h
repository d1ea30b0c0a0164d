// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::pass {

/// Gives graphs that mean the same one form: views that do nothing go, two in a row become one, constants stand on the
/// right and are joined, divisions by constants become products. Products and sums with constants go into the weights
/// of the convolution or matrix product before them, and pads into convolutions. Results may differ in the last bits.
Status canonical(ir::Graph& graph);

}  // namespace quern::model::pass
