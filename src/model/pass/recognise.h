// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::pass {

/// Finds operators that exporters spelled out in smaller ones: layer_norm, gelu, swish, hard_swish, softmax, attention.
/// Works on canonical graphs.
Status recognise(ir::Graph& graph);

}  // namespace quern::model::pass
