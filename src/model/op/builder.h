// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::op {

/// Appends nodes to a graph, each checked and typed. A small node whose inputs are constants is computed at once and
/// becomes a constant: shape arithmetic is known while the graph is built.
class Builder {
 public:
  /// `origins` are the ONNX nodes that the new nodes stand for; `name` is the prefix of the names of new values.
  Builder(ir::Graph& graph, std::vector<std::string> origins, std::string name)
      : graph_(graph), origins_(std::move(origins)), name_(std::move(name)) {}

  ir::Graph& graph() { return graph_; }
  const ir::Type& type(ir::ValueId id) const { return graph_.type(id); }
  ir::ValueId constant(ir::Tensor tensor) { return graph_.add_constant(std::move(tensor), fresh_name()); }
  /// One number in a dtype, of rank 0.
  ir::ValueId number(Dtype dtype, double value) { return constant(ir::Tensor::number(dtype, value)); }

  Result<ir::ValueId> emit(std::string_view op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {});
  Result<std::vector<ir::ValueId>> emit_all(std::string_view op, std::vector<ir::ValueId> inputs, size_t outputs,
                                            ir::Attributes attributes = {});

  /// Shorthands of what most decompositions need. Each returns its input if there is nothing to do.
  Result<ir::ValueId> reshape(ir::ValueId x, const ir::Dims& dims);
  Result<ir::ValueId> broadcast(ir::ValueId x, const ir::Dims& dims);
  Result<ir::ValueId> transpose(ir::ValueId x, const std::vector<int64_t>& order);
  Result<ir::ValueId> cast(ir::ValueId x, Dtype dtype);
  /// Two expressions must be equal: a requirement of the graph if only a call can tell, kInvalid if they never are.
  /// `what` is the object of the error.
  Status require(const ir::Dim& a, const ir::Dim& b, std::string_view what);

 private:
  std::string fresh_name();

  ir::Graph& graph_;
  std::vector<std::string> origins_;
  std::string name_;
  int next_ = 0;
};

}  // namespace quern::model::op
