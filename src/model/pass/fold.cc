// SPDX-License-Identifier: Apache-2.0
#include "model/pass/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "model/ir/text.h"
#include "model/op/run.h"
#include "model/pass/rewriter.h"

namespace quern::model::pass {
namespace {

constexpr uint64_t kSmallBytes = uint64_t{1} << 20;

uint64_t bytes_of(const ir::Type& type, uint64_t limit) {
  const auto sizes = ir::fixed_of(type.dims);
  const auto elements = sizes ? ir::elements_of(*sizes) : std::nullopt;
  if (!elements || static_cast<uint64_t>(*elements) > limit) return limit + 1;
  return static_cast<uint64_t>(*elements) * size_of(type.dtype);
}

bool is_fixed(const ir::Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    if (const auto* dim = std::get_if<ir::Dim>(&value); dim && !dim->is_fixed()) return false;
    if (const auto* dims = std::get_if<ir::Dims>(&value); dims && !ir::fixed_of(*dims)) return false;
  }
  return true;
}

Result<bool> fold_constants(Rewriter& rewriter, const ir::Node& node) {
  if (!is_fixed(node.attributes)) return false;
  std::vector<const ir::Tensor*> inputs;
  uint64_t input_bytes = 0;
  for (const ir::ValueId id : node.inputs) {
    inputs.push_back(rewriter.constant(id));
    if (id != ir::kNone && !inputs.back()) return false;
    if (inputs.back()) input_bytes += inputs.back()->bytes().size();
  }
  // What takes more than a few operations per element is computed here only if it is small.
  constexpr std::string_view kHeavy[] = {"matmul",       "conv",     "conv_transpose", "attention", "max_pool",
                                         "average_pool", "sum_pool", "resize",         "top_k"};
  if (input_bytes > kSmallBytes && std::find(std::begin(kHeavy), std::end(kHeavy), node.op) != std::end(kHeavy))
    return false;
  const uint64_t limit = std::max(kSmallBytes, 2 * input_bytes);
  std::vector<ir::Type> types;
  uint64_t output_bytes = 0;
  for (const ir::ValueId id : node.outputs) {
    types.push_back(rewriter.type(id));
    output_bytes += bytes_of(types.back(), limit);
  }
  if (output_bytes > limit) return false;
  QUERN_TRY(std::vector<ir::Tensor> results, op::run_node(node, inputs, types, {}));
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string name = rewriter.graph().at(node.outputs[i]).name;
    rewriter.replace(node.outputs[i], rewriter.graph().add_constant(std::move(results[i]), name));
  }
  return true;
}

// What sizes alone determine is made from sizes.
Result<bool> fold_contents(Rewriter& rewriter, const ir::Node& node) {
  if (node.op == "dims" || node.outputs.size() != 1) return false;
  const ir::Value value = rewriter.graph().at(node.outputs[0]);
  if (!value.contents || value.type.dtype == Dtype::kBool || !ir::fixed_of(value.type.dims)) return false;
  QUERN_TRY(const ir::ValueId made, rewriter.builder(node).emit("dims", {},
                                                                {{"values", *value.contents},
                                                                 {"shape", value.type.dims},
                                                                 {"dtype", std::string(name_of(value.type.dtype))}}));
  rewriter.replace(node.outputs[0], made);
  return true;
}

// Two nodes that do the same to the same values are one. Constants of the same elements are one as well, found by the
// hash of their bytes.
class Duplicates {
 public:
  explicit Duplicates(ir::Graph& graph) : graph_(graph) {}

  Status merge() {
    std::vector<ir::ValueId> first(graph_.values.size());
    std::map<std::string, ir::ValueId> constants;
    for (ir::ValueId id = 0; id < graph_.values.size(); ++id) {
      first[id] = id;
      const ir::Tensor* constant = graph_.constant(id);
      if (!constant || constant->bytes().size() > kSmallBytes) continue;
      first[id] = constants.emplace(fmt::format("{} {}", ir::show_type(graph_.type(id)), sha256(constant->bytes())), id)
                      .first->second;
    }
    std::map<std::string, std::vector<ir::ValueId>> nodes;
    for (ir::Node& node : graph_.nodes) {
      std::string key = node.op + ir::show_attributes(node.attributes) + fmt::format(" {}", node.outputs.size());
      for (ir::ValueId& input : node.inputs) {
        if (input != ir::kNone) input = first[input];
        key += fmt::format(" {}", input);
      }
      if (node.body) continue;  // bodies are made when duplicates are gone
      const auto [known, is_new] = nodes.emplace(std::move(key), node.outputs);
      if (is_new) continue;
      for (size_t i = 0; i < node.outputs.size(); ++i) first[node.outputs[i]] = known->second[i];
    }
    for (ir::Output& output : graph_.outputs) output.value = first[output.value];
    QUERN_TRY(graph_.order());
    graph_.compact();
    return {};
  }

 private:
  ir::Graph& graph_;
};

constexpr Rule kFoldRules[] = {{"", fold_constants}, {"", fold_contents}};

}  // namespace

Status fold(ir::Graph& graph) {
  QUERN_TRY(apply_rules(graph, kFoldRules));
  return Duplicates(graph).merge();
}

}  // namespace quern::model::pass
