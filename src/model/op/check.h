// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "model/ir/text.h"
#include "model/op/operator.h"

namespace quern::model::op {

/// Checks a node against its operator: the operator exists, the number of inputs and outputs, the attributes, of which
/// missing ones get their fallback, and the types of the inputs. Returns the types of the outputs and adds to the
/// requirements of the graph. An error does not name the node.
Result<std::vector<ir::Type>> check_node(ir::Graph& graph, ir::Node& node);

/// The elements of the first output of a checked node as expressions, if they are known.
std::optional<ir::Dims> contents_of_output(ir::Graph& graph, const ir::Node& node);

/// Infers the types that the text leaves out, and checks those that it states.
Result<ir::Graph> complete(ir::ParsedGraph parsed);

/// Checks a whole graph: every node, its place behind its inputs, and that the types of values are those inferred. A
/// pass that breaks a graph is found here, with its name if the caller adds it.
Status check_graph(const ir::Graph& graph);

}  // namespace quern::model::op
