// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/onnx/tensor.h"
#include "model/op/builder.h"

namespace quern::model::op {

/// One ONNX node on its way into a graph: what a rule sees. Its inputs are values of the graph already. A rule reads
/// the attributes that it knows, emits nodes, and sets the outputs. An attribute that no rule read is refused, so that
/// nothing is ignored silently. Errors of these functions do not name the node; the importer does.
class NodeImport : public Builder {
 public:
  /// Attributes by name.
  using References = std::map<std::string_view, const onnx::Attribute*>;
  struct Place {
    const onnx::Node& node;
    int64_t version;                  ///< of the operators of the node's domain
    std::vector<ir::ValueId> inputs;  ///< kNone for those that are left out
    const onnx::ExternalFiles& files;
    const std::set<std::string, std::less<>>& wanted;  ///< names of outputs that something uses
    const References& attributes;  ///< of the call around, which those of a function's body refer to
  };
  NodeImport(ir::Graph& graph, std::vector<std::string> origins, std::string name, Place place);

  /// The name of the ONNX operator.
  std::string_view op() const { return place_.node.op; }
  int64_t version() const { return place_.version; }
  size_t inputs() const { return place_.inputs.size(); }
  bool has(size_t i) const { return i < place_.inputs.size() && place_.inputs[i] != ir::kNone; }
  /// An input that the operator needs; kInvalid if it is left out.
  Result<ir::ValueId> in(size_t i) const;
  /// An optional input; kNone if it is left out.
  ir::ValueId in_or_none(size_t i) const { return has(i) ? place_.inputs[i] : ir::kNone; }
  const ir::Type& type(ir::ValueId id) const { return Builder::type(id); }
  size_t rank(ir::ValueId id) const { return type(id).rank(); }

  size_t outputs() const { return place_.node.outputs.size(); }
  /// Output `i` has a name, and something uses it.
  bool wants(size_t i) const;
  void set(size_t i, ir::ValueId id);
  /// Sets output 0 to the one output of a new node.
  Status become(std::string_view op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {});
  const std::vector<ir::ValueId>& results() const { return results_; }

  /// Attributes. kInvalid if the type is another one. Without a fallback a missing attribute is kInvalid.
  bool states(std::string_view name) const { return find(name) != nullptr; }
  Result<int64_t> whole(std::string_view name, std::optional<int64_t> fallback = std::nullopt);
  Result<bool> flag(std::string_view name, bool fallback);
  Result<double> real(std::string_view name, std::optional<double> fallback = std::nullopt);
  Result<std::string> text(std::string_view name, std::optional<std::string> fallback = std::nullopt);
  Result<std::optional<std::vector<int64_t>>> wholes(std::string_view name);
  Result<std::optional<std::vector<double>>> reals(std::string_view name);
  Result<std::optional<ir::Tensor>> tensor(std::string_view name);
  /// An attribute that says nothing about the result: a hint, or one of old versions.
  void ignore(std::string_view name) { known_.insert(std::string(name)); }
  /// kUnsupported names the attributes that nothing read.
  Status check_attributes() const;

  /// The whole numbers that input `i` holds, as expressions over free dims. kUnsupported if only the data of a call
  /// tell them; `what` says what they are for: "the shape".
  Result<ir::Dims> numbers(size_t i, std::string_view what);
  /// The same, as numbers without free dims.
  Result<std::vector<int64_t>> fixed_numbers(size_t i, std::string_view what);
  /// The elements of input `i`, which must be a constant.
  Result<ir::Tensor> constant_input(size_t i, std::string_view what);
  /// The input whose elements the last kUnsupported of `numbers` and `constant_input` asked for; kNone if none did.
  ir::ValueId missing() const { return missing_; }

  /// An axis that may count from the end, for a tensor of this rank.
  static Result<size_t> axis(int64_t axis, size_t rank);
  /// The attribute `name` as such an axis.
  Result<size_t> axis_attribute(std::string_view name, size_t rank, std::optional<int64_t> fallback = std::nullopt);
  /// Axes that may count from the end, sorted; kInvalid if one comes twice.
  static Result<std::vector<int64_t>> axes(std::vector<int64_t> axes, size_t rank);

 private:
  const onnx::Attribute* find(std::string_view name) const;
  Result<const onnx::Attribute*> take(std::string_view name, onnx::Attribute::Type type, std::string_view kind);

  Place place_;
  std::vector<ir::ValueId> results_;
  std::set<std::string, std::less<>> known_;
  ir::ValueId missing_ = ir::kNone;
};

}  // namespace quern::model::op
