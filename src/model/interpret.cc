// SPDX-License-Identifier: Apache-2.0
#include "model/interpret.h"

#include <fmt/format.h>

namespace quern::model {

Result<ir::DimValues> bind_dims(const ir::Graph& graph, const Tensors& inputs) {
  ir::DimValues out;
  const auto wrong = [&](const ir::Value& value, const ir::Tensor& tensor) {
    return invalid(fmt::format("input '{}': is {}{}, and the model takes {}; send that", value.name,
                               name_of(tensor.dtype()), ir::show_sizes(tensor.sizes()), ir::show_type(value.type)));
  };
  const auto tensor_of = [&](const ir::Value& value) -> Result<const ir::Tensor*> {
    const auto found = inputs.find(value.name);
    if (found == inputs.end()) return invalid(fmt::format("input '{}': is missing; send it", value.name));
    if (found->second.dtype() != value.type.dtype || found->second.rank() != value.type.rank())
      return wrong(value, found->second);
    return &found->second;
  };
  // First the sizes that are names, then the expressions over them.
  for (const ir::ValueId id : graph.inputs) {
    QUERN_TRY(const ir::Tensor* tensor, tensor_of(graph.at(id)));
    for (size_t d = 0; d < tensor->rank(); ++d)
      if (const std::string name = graph.type(id).dims[d].name(); !name.empty()) out.emplace(name, tensor->sizes()[d]);
  }
  for (const ir::ValueId id : graph.inputs) {
    QUERN_TRY(const ir::Tensor* tensor, tensor_of(graph.at(id)));
    for (size_t d = 0; d < tensor->rank(); ++d) {
      QUERN_TRY(const int64_t size, graph.type(id).dims[d].value(out));
      if (size != tensor->sizes()[d]) return wrong(graph.at(id), *tensor);
    }
  }
  for (const ir::FreeDim& dim : graph.dims)
    if (const auto found = out.find(dim.name); found != out.end())
      if (found->second < dim.low || found->second > dim.high)
        return invalid(
            fmt::format("dim '{}': is {}; send sizes from {} to {}", dim.name, found->second, dim.low, dim.high));
  for (const ir::Requirement& requirement : graph.requirements) {
    QUERN_TRY(const int64_t a, requirement.a.value(out));
    QUERN_TRY(const int64_t b, requirement.b.value(out));
    if (a != b)
      return invalid(fmt::format("node '{}': {} is {} and {} is {} for these inputs; send inputs where they are equal",
                                 requirement.reason, requirement.a.text(), a, requirement.b.text(), b));
  }
  return out;
}

Result<Tensors> interpret(const ir::Graph& graph, const Tensors& inputs, const op::Observer& observer) {
  QUERN_TRY(const ir::DimValues dims, bind_dims(graph, inputs));
  std::vector<ir::Tensor> operands;
  for (const ir::ValueId id : graph.inputs) operands.push_back(inputs.find(graph.at(id).name)->second);
  QUERN_TRY(std::vector<ir::Tensor> outputs, op::run_graph(graph, std::move(operands), dims, observer));
  Tensors out;
  for (size_t i = 0; i < outputs.size(); ++i) out[graph.outputs[i].name] = std::move(outputs[i]);
  return out;
}

}  // namespace quern::model
