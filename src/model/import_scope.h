// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/import.h"
#include "model/op/node_import.h"
#include "model/op/operator.h"

namespace quern::model {

/// What all scopes of one import share.
struct ImportContext {
  const onnx::Model& model;
  const onnx::ExternalFiles& files;
  Imported& out;
  size_t nodes_left;  ///< functions in functions grow without end otherwise
  int depth = 0;
  std::map<std::pair<std::string_view, std::string_view>, const onnx::Function*> functions =
      {};  ///< by domain and name
};

/// The names of one list of nodes: of the graph of a model, of a function's body at one call, or of a branch. A scope
/// imports the nodes that its outputs need, each behind those that it reads.
class ImportScope {
 public:
  using Versions = std::map<std::string_view, int64_t>;  // of operators, by domain

  /// `outer` is the scope around a branch, whose names are seen; null for others.
  ImportScope(ImportContext& context, const std::vector<onnx::Node>& nodes, Versions versions, ImportScope* outer,
              std::string prefix)
      : context_(context), nodes_(nodes), versions_(std::move(versions)), outer_(outer), prefix_(std::move(prefix)) {}

  /// A name that stands for a value of the graph. kInvalid if it stands for one already.
  Status define(std::string_view name, ir::ValueId id);
  Status define(const onnx::Tensor& weight);
  /// The attributes of the node that calls a function, for attributes of its body that refer to them.
  void bind(const op::NodeImport::References& attributes) { attributes_ = attributes; }

  /// Imports what these names need. kInvalid if nodes read in a circle or a name has two makers; refusals of nodes are
  /// collected in the context.
  Status import(const std::vector<std::string_view>& outputs);
  /// Whether a name depends on a node that was refused.
  bool is_refused(std::string_view name) const;
  /// A value by its name. A weight becomes a constant at its first use.
  Result<ir::ValueId> value_of(std::string_view name);

 private:
  Status order(const std::vector<std::string_view>& outputs);
  Status import(const onnx::Node& node);
  Status import_rule(const onnx::Node& node, const op::OnnxRule& rule, int64_t version,
                     std::vector<ir::ValueId> inputs);
  Status call(const onnx::Node& node, const onnx::Function& function, const std::vector<ir::ValueId>& inputs);
  Status choose(const onnx::Node& node, const std::vector<ir::ValueId>& inputs);
  Status take_results(const onnx::Node& node, ImportScope& inner, const std::vector<std::string_view>& results);
  void refuse(const onnx::Node& node, const Error& error, std::vector<std::string> inputs = {});
  void skip(const onnx::Node& node);
  std::string name_of(const onnx::Node& node) const;
  std::string object_of(const onnx::Node& node) const;
  std::vector<std::string> inputs_behind(ir::ValueId id) const;
  bool knows(std::string_view name) const;

  ImportContext& context_;
  const std::vector<onnx::Node>& nodes_;
  Versions versions_;
  ImportScope* outer_;
  std::string prefix_;  // of names for people: the calls around
  op::NodeImport::References attributes_;
  std::map<std::string_view, const onnx::Tensor*> weights_;
  std::map<std::string_view, uint32_t> makers_;  // by output, the node
  std::map<std::string_view, ir::ValueId> values_;
  std::vector<uint32_t> order_;
  std::set<std::string, std::less<>> wanted_;
  std::set<std::string, std::less<>> refused_;
};

}  // namespace quern::model
