// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::pass {

/// Joins nodes that work element by element with what they follow: a convolution with its bias, residual and
/// activation, and any chain of them with itself. The joined nodes become bodies. A value that several nodes read is
/// not computed twice, so it ends a chain.
Status fuse(ir::Graph& graph);

/// A body has at most so many nodes, and so many inputs: what a kernel can hold in registers.
constexpr size_t kMostFusedNodes = 32, kMostFusedInputs = 8;

}  // namespace quern::model::pass
