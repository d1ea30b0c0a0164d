// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>

#include "base/result.h"
#include "model/ir/graph.h"
#include "model/op/run.h"

namespace quern::model {

using Tensors = std::map<std::string, ir::Tensor, std::less<>>;

/// The sizes of free dims for inputs of these sizes, by input. kInvalid if an input is missing or of another dtype or
/// shape, if two inputs contradict each other, if a dim is out of its bounds, or if a requirement of the graph does not
/// hold.
Result<ir::DimValues> bind_dims(const ir::Graph& graph, const Tensors& inputs);

/// Runs a graph with the references of its operators, on the host and in no hurry: the oracle that kernels and passes
/// are compared with. Returns the outputs by name. A value is dropped behind its last use.
Result<Tensors> interpret(const ir::Graph& graph, const Tensors& inputs, const op::Observer& observer = {});

}  // namespace quern::model
