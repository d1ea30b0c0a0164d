// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::op {

/// Runs the reference of a node, and its body, on inputs that are here, at these sizes of free dims. `types` are those
/// of the outputs.
Result<std::vector<ir::Tensor>> run_node(const ir::Node& node, const std::vector<const ir::Tensor*>& inputs,
                                         const std::vector<ir::Type>& types, const ir::DimValues& dims);

/// Sees every node with its outputs, in the order of the graph.
using Observer = std::function<void(const ir::Node& node, const std::vector<ir::Tensor>& outputs)>;

/// Runs all nodes of a checked graph, whose inputs are given in its order, and returns its outputs. A value is dropped
/// behind its last use. An error names the node.
Result<std::vector<ir::Tensor>> run_graph(const ir::Graph& graph, std::vector<ir::Tensor> inputs,
                                          const ir::DimValues& dims, const Observer& observer = {});

}  // namespace quern::model::op
