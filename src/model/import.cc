// SPDX-License-Identifier: Apache-2.0
#include "model/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/printable.h"
#include "model/import_scope.h"

namespace quern::model {
namespace {

bool is_identifier(std::string_view name) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_word);
}

class Importer {
 public:
  Importer(const onnx::Model& model, const onnx::ExternalFiles& files, const Binding& binding)
      : model_(model), files_(files), binding_(binding) {}

  Result<Imported> run() {
    QUERN_TRY(read_versions());
    const onnx::Graph& graph = model_.graph;
    if (graph.has_sparse_initialisers)
      return unsupported("onnx: the graph has sparse initialisers; write them as dense tensors");
    QUERN_TRY(choose_outputs());
    ImportContext context{model_, files_, out_, onnx::Limits().nodes};
    for (const onnx::Function& function : model_.functions)
      context.functions[{function.domain, function.name}] = &function;
    ImportScope scope(context, graph.nodes, versions_, nullptr, "");
    std::set<std::string_view> weights;
    for (const onnx::Tensor& tensor : graph.initialisers) {
      weights.insert(tensor.name);
      QUERN_TRY(scope.define(tensor));
    }
    for (const onnx::ValueInfo& input : graph.inputs) {
      if (weights.count(input.name)) continue;  // an input of old versions that has a value already
      QUERN_TRY(const ir::ValueId id, add_input(input));
      QUERN_TRY(scope.define(input.name, id));
    }
    std::vector<std::string_view> names;
    for (const onnx::ValueInfo* output : outputs_) names.push_back(output->name);
    QUERN_TRY(scope.import(names));
    if (out_.refusals.empty())
      for (const onnx::ValueInfo* output : outputs_) {
        QUERN_TRY(const ir::ValueId id, scope.value_of(output->name));
        QUERN_TRY(check_output(*output, id));
        out_.graph.outputs.push_back({std::string(output->name), id});
      }
    if (out_.refusals.empty()) {
      QUERN_TRY(out_.graph.order());
      out_.graph.compact();
    }
    return std::move(out_);
  }

 private:
  Status read_versions() {
    for (const onnx::Opset& opset : model_.opsets) {
      versions_[opset.domain] = opset.version;
      if (opset.domain.empty() && (opset.version < kOldestOpset || opset.version > kNewestOpset))
        return unsupported(
            fmt::format("onnx: the model uses version {} of the operators; convert it to one from {} to "
                        "{} (onnx.version_converter)",
                        opset.version, kOldestOpset, kNewestOpset));
    }
    if (versions_.count("") == 0) return invalid("onnx: the model states no version of the operators; write it again");
    return {};
  }

  // The name of a free dim in our graph: that of the model if it is an identifier, else made from input and axis.
  ir::Dim free_dim(const onnx::ValueInfo& input, size_t axis) {
    const onnx::Dimension& dimension = input.shape[axis];
    if (dimension.value >= 0) return dimension.value;
    std::string name(dimension.name);
    if (!is_identifier(name)) {
      const bool is_anonymous = name.empty() || name == "?" || name[0] == '-';
      if (is_anonymous) name = fmt::format("{}_{}", input.name, axis);
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      if (std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(name.begin(), '_');
      // The same name of the model is the same dim; two that only look alike now are two.
      const std::string key = is_anonymous ? fmt::format("{}:{}", input.name, axis) : std::string(dimension.name);
      const auto known = renamed_.find(key);
      if (known != renamed_.end()) {
        name = known->second;
      } else {
        while (std::any_of(out_.graph.dims.begin(), out_.graph.dims.end(),
                           [&](const ir::FreeDim& dim) { return dim.name == name; }))
          name += '_';
        renamed_.emplace(key, name);
      }
    }
    if (const auto fixed = binding_.dims.find(name); fixed != binding_.dims.end()) return fixed->second;
    ir::FreeDim free{name};
    if (const auto bounds = binding_.bounds.find(name); bounds != binding_.bounds.end()) {
      free.low = bounds->second.low;
      free.high = bounds->second.high;
    }
    const bool is_new = std::none_of(out_.graph.dims.begin(), out_.graph.dims.end(),
                                     [&](const ir::FreeDim& dim) { return dim.name == name; });
    if (is_new) out_.graph.dims.push_back(free);
    return ir::Dim::symbol(name, free.low, free.high);
  }

  Result<ir::ValueId> add_input(const onnx::ValueInfo& input) {
    using Kind = onnx::ValueInfo::Kind;
    const std::string shown = printable(input.name);
    if (input.kind != Kind::kTensor)
      return unsupported(fmt::format("onnx: input '{}' is no tensor; models take and give tensors", shown));
    const auto dtype = onnx::dtype_of(input.data_type);
    if (!dtype)
      return unsupported(fmt::format("onnx: input '{}' has elements of {}; give a model that takes numbers", shown,
                                     onnx::name_of_data_type(input.data_type)));
    if (!input.has_shape)
      return unsupported(fmt::format("onnx: input '{}' has no shape; state one, with names for free sizes", shown));
    ir::Value value;
    value.name = input.name;
    value.type.dtype = *dtype;
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      value.type.dims.push_back(free_dim(input, axis));
      if (value.type.dims.back().range().low > ir::kLargestDim)
        return invalid(fmt::format("onnx: input '{}' has a size of {}; the largest is {}", shown,
                                   value.type.dims.back().text(), ir::kLargestDim));
    }
    const ir::ValueId id = out_.graph.add(std::move(value));
    out_.graph.inputs.push_back(id);
    const auto bound = binding_.inputs.find(input.name);
    if (bound == binding_.inputs.end()) return id;
    // The input stays, so that the graph takes what the model takes; its uses see a constant.
    if (bound->second.dtype() != *dtype || bound->second.rank() != input.shape.size())
      return invalid(fmt::format("onnx: input '{}' is bound to a tensor of another type; give {}", shown,
                                 ir::show_type(out_.graph.type(id))));
    return out_.graph.add_constant(bound->second, std::string(input.name));
  }

  Status choose_outputs() {
    const auto& all = model_.graph.outputs;
    if (binding_.outputs.empty())
      for (const onnx::ValueInfo& output : all) outputs_.push_back(&output);
    for (const std::string& name : binding_.outputs) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const auto& output) { return output.name == name; });
      if (found == all.end())
        return not_found(fmt::format("onnx: the model has no output '{}'; ask for one that it has", printable(name)));
      outputs_.push_back(&*found);
    }
    if (outputs_.empty()) return invalid("onnx: the model has no outputs; state what it computes");
    return {};
  }

  // What the model says about its output must not contradict what its nodes give.
  Status check_output(const onnx::ValueInfo& output, ir::ValueId id) const {
    const auto dtype = onnx::dtype_of(output.data_type);
    if (output.kind == onnx::ValueInfo::Kind::kTensor && dtype && *dtype != out_.graph.type(id).dtype)
      return invalid(fmt::format("onnx: output '{}' is {}, and the model states {}; write the model again",
                                 printable(output.name), quern::name_of(out_.graph.type(id).dtype),
                                 quern::name_of(*dtype)));
    return {};
  }

  const onnx::Model& model_;
  const onnx::ExternalFiles& files_;
  const Binding& binding_;
  ImportScope::Versions versions_;
  std::map<std::string, std::string> renamed_;  // names of dims that are no identifiers
  std::vector<const onnx::ValueInfo*> outputs_;
  Imported out_;
};

}  // namespace

Result<Imported> import_model(const onnx::Model& model, const onnx::ExternalFiles& files, const Binding& binding) {
  return Importer(model, files, binding).run();
}

Error error_of(const std::vector<Refusal>& refusals, size_t most) {
  std::string text = refusals.size() == 1 ? "" : fmt::format("{} nodes are not supported:\n", refusals.size());
  for (size_t i = 0; i < refusals.size() && i < most; ++i) text += (i == 0 ? "" : "\n") + refusals[i].text;
  if (refusals.size() > most) text += fmt::format("\nand {} more", refusals.size() - most);
  return unsupported(std::move(text));
}

}  // namespace quern::model
