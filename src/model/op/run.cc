// SPDX-License-Identifier: Apache-2.0
#include "model/op/run.h"

#include <fmt/format.h>

#include <optional>

#include "model/op/table.h"

namespace quern::model::op {
namespace {

Result<ir::Tensor> make(const ir::Type& type, const ir::DimValues& dims) {
  ir::Sizes sizes;
  for (const ir::Dim& dim : type.dims) {
    QUERN_TRY(const int64_t size, dim.value(dims));
    if (size < 0 || size > ir::kLargestDim)
      return invalid(
          fmt::format("'{}' is {} for these dims; give sizes from 0 to {}", dim.text(), size, ir::kLargestDim));
    sizes.push_back(size);
  }
  if (!ir::elements_of(sizes))
    return invalid(fmt::format("{} has more than {} elements for these dims; give smaller ones", ir::show_type(type),
                               ir::kMostElements));
  return ir::Tensor::zeros(type.dtype, std::move(sizes));
}

}  // namespace

Result<std::vector<ir::Tensor>> run_node(const ir::Node& node, const std::vector<const ir::Tensor*>& inputs,
                                         const std::vector<ir::Type>& types, const ir::DimValues& dims) {
  const Operator* op = find_operator(node.op);
  QUERN_CHECK(op && op->reference, "a checked node has an operator");
  std::vector<ir::Tensor> outputs;
  if (node.op != kFused) {
    for (const ir::Type& type : types) {
      // With a body the operator may make another dtype than the node.
      const ir::Type& own = node.body ? ir::Type{node.body->type(node.body->inputs[0]).dtype, type.dims} : type;
      QUERN_TRY(ir::Tensor output, make(own, dims));
      outputs.push_back(std::move(output));
    }
    const ir::Attributes attributes = node.attributes.bound(dims);
    std::vector<const ir::Tensor*> operands = inputs;
    if (node.body) operands.resize(inputs.size() + 1 - node.body->inputs.size());
    Run run{node.op, std::move(operands), outputs, attributes};
    QUERN_TRY(op->reference(run));
  }
  if (!node.body) return outputs;
  for (size_t i = inputs.size() + outputs.size() - node.body->inputs.size(); i < inputs.size(); ++i)
    outputs.push_back(*inputs[i]);
  return run_graph(*node.body, std::move(outputs), dims);
}

Result<std::vector<ir::Tensor>> run_graph(const ir::Graph& graph, std::vector<ir::Tensor> inputs,
                                          const ir::DimValues& dims, const Observer& observer) {
  QUERN_CHECK(inputs.size() == graph.inputs.size(), "every input of a graph is given");
  std::vector<std::optional<ir::Tensor>> made(graph.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) made[graph.inputs[i]] = std::move(inputs[i]);
  std::vector<uint32_t> uses = graph.uses();
  for (const ir::Node& node : graph.nodes) {
    std::vector<const ir::Tensor*> operands;
    for (const ir::ValueId id : node.inputs) {
      const ir::Tensor* operand = graph.constant(id);
      if (id != ir::kNone && !operand) operand = &*made[id];
      operands.push_back(operand);
    }
    std::vector<ir::Type> types;
    for (const ir::ValueId id : node.outputs) types.push_back(graph.type(id));
    auto outputs = run_node(node, operands, types, dims);
    if (!outputs.ok())
      return Error{outputs.error().code, fmt::format("node '{}' ({}): {}", node.origins.empty() ? "" : node.origins[0],
                                                     node.op, outputs.error().text)};
    if (observer) observer(node, *outputs);
    for (size_t i = 0; i < node.outputs.size(); ++i) made[node.outputs[i]] = std::move((*outputs)[i]);
    for (const ir::ValueId id : node.inputs)
      if (id != ir::kNone && --uses[id] == 0) made[id].reset();
  }
  std::vector<ir::Tensor> out;
  for (const ir::Output& output : graph.outputs) {
    const ir::Tensor* constant = graph.constant(output.value);
    out.push_back(constant ? *constant : *made[output.value]);
  }
  return out;
}

}  // namespace quern::model::op
