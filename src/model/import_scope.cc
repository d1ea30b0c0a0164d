// SPDX-License-Identifier: Apache-2.0
#include "model/import_scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "model/op/table.h"

namespace quern::model {
namespace {

constexpr int kDeepestCall = 32;
constexpr size_t kMostRefusals = 10'000;

Error made_twice(std::string_view name) {
  return invalid(fmt::format("onnx: '{}' is made twice; give every value one maker", printable(name)));
}

// The names that the graphs in the attributes of a node may read from around it.
void add_names_inside(const onnx::Node& node, std::vector<std::string_view>& names) {
  for (const onnx::Attribute& attribute : node.attributes)
    for (const onnx::Graph& graph : attribute.graphs) {
      for (const onnx::ValueInfo& output : graph.outputs) names.push_back(output.name);
      for (const onnx::Node& inner : graph.nodes) {
        names.insert(names.end(), inner.inputs.begin(), inner.inputs.end());
        add_names_inside(inner, names);  // as deep as the reader allows
      }
    }
}

}  // namespace

Status ImportScope::define(std::string_view name, ir::ValueId id) {
  if (values_.emplace(name, id).second && weights_.count(name) == 0) return {};
  return made_twice(name);
}

Status ImportScope::define(const onnx::Tensor& weight) {
  if (weights_.emplace(weight.name, &weight).second && values_.count(weight.name) == 0) return {};
  return made_twice(weight.name);
}

bool ImportScope::knows(std::string_view name) const {
  return values_.count(name) != 0 || weights_.count(name) != 0 || makers_.count(name) != 0 ||
         (outer_ && outer_->knows(name));
}

// Depth first from the outputs, without recursion.
Status ImportScope::order(const std::vector<std::string_view>& outputs) {
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    for (const std::string_view name : nodes_[i].outputs)
      if (!name.empty() && (values_.count(name) || weights_.count(name) || !makers_.emplace(name, i).second))
        return made_twice(name);
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(nodes_.size(), Mark::kNew);
  struct Visit {
    uint32_t node;
    std::vector<std::string_view> reads;
    size_t next = 0;
  };
  std::vector<Visit> stack;
  const auto enter = [&](std::string_view name) -> Status {
    wanted_.emplace(name);
    const auto maker = makers_.find(name);
    if (maker == makers_.end()) return {};
    Mark& mark = marks[maker->second];
    if (mark == Mark::kOpen)
      return invalid(fmt::format("onnx: {} reads what is computed from its own output; write a graph without circles",
                                 object_of(nodes_[maker->second])));
    if (mark == Mark::kDone) return {};
    mark = Mark::kOpen;
    const onnx::Node& node = nodes_[maker->second];
    stack.push_back({maker->second, node.inputs});
    std::vector<std::string_view> inside;
    add_names_inside(node, inside);
    for (const std::string_view name_inside : inside)
      if (makers_.count(name_inside)) stack.back().reads.push_back(name_inside);
    return {};
  };
  for (const std::string_view output : outputs) {
    QUERN_TRY(enter(output));
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next < top.reads.size()) {
        QUERN_TRY(enter(top.reads[top.next++]));
        continue;
      }
      marks[top.node] = Mark::kDone;
      order_.push_back(top.node);
      stack.pop_back();
    }
  }
  return {};
}

Status ImportScope::import(const std::vector<std::string_view>& outputs) {
  if (++context_.depth > kDeepestCall)
    return exhausted(
        fmt::format("onnx: functions and branches are nested more than {} deep; flatten the model", kDeepestCall));
  QUERN_TRY(order(outputs));
  for (const uint32_t i : order_) QUERN_TRY(import(nodes_[i]));
  --context_.depth;
  return {};
}

std::string ImportScope::name_of(const onnx::Node& node) const {
  std::string name = printable(node.name);
  for (const std::string_view output : node.outputs)
    if (name.empty()) name = printable(output);
  return prefix_ + name;
}

std::string ImportScope::object_of(const onnx::Node& node) const {
  return fmt::format("node '{}' ({})", name_of(node), printable(node.op));
}

bool ImportScope::is_refused(std::string_view name) const {
  if (refused_.count(name)) return true;
  return outer_ && !values_.count(name) && !weights_.count(name) && !makers_.count(name) && outer_->is_refused(name);
}

Result<ir::ValueId> ImportScope::value_of(std::string_view name) {
  if (const auto known = values_.find(name); known != values_.end()) return known->second;
  if (const auto weight = weights_.find(name); weight != weights_.end()) {
    QUERN_TRY(ir::Tensor tensor, onnx::decode(*weight->second, context_.files));
    return values_[name] = context_.out.graph.add_constant(std::move(tensor), std::string(name));
  }
  if (outer_ && !makers_.count(name)) return outer_->value_of(name);
  return invalid(fmt::format("onnx: '{}' is neither an input, nor a weight, nor made by a node; write the model again",
                             printable(name)));
}

// What a refused node would have made is refused as well, without a reason of its own.
void ImportScope::skip(const onnx::Node& node) {
  for (const std::string_view output : node.outputs) refused_.emplace(output);
}

void ImportScope::refuse(const onnx::Node& node, const Error& error, std::vector<std::string> inputs) {
  skip(node);
  if (context_.out.refusals.size() >= kMostRefusals) return;
  context_.out.refusals.push_back(
      {name_of(node), std::string(node.op), fmt::format("{}: {}", object_of(node), error.text), std::move(inputs)});
}

Status ImportScope::import(const onnx::Node& node) {
  if (context_.nodes_left-- == 0)
    return exhausted("onnx: its functions and branches expand to too many nodes; write a smaller model");
  std::vector<ir::ValueId> inputs;
  for (const std::string_view name : node.inputs) {
    if (is_refused(name)) return skip(node), Status();
    if (name.empty()) {
      inputs.push_back(ir::kNone);
      continue;
    }
    auto id = value_of(name);
    if (!id.ok()) return refuse(node, id.error()), Status();
    inputs.push_back(*id);
  }
  if (const auto function = context_.functions.find({node.domain, node.op}); function != context_.functions.end())
    return call(node, *function->second, inputs);
  if (node.domain.empty() && node.op == "If") return choose(node, inputs);
  const auto version = versions_.find(node.domain);
  const op::OnnxRule* rule =
      version == versions_.end() ? nullptr : op::find_rule(node.domain, node.op, version->second);
  if (rule) return import_rule(node, *rule, version->second, std::move(inputs));
  const std::string domain = node.domain.empty() ? "" : fmt::format(" of domain '{}'", printable(node.domain));
  refuse(node, unsupported(fmt::format("the operator{} is not supported{}; see docs/onnx.md", domain,
                                       op::similar_rule(node.domain, node.op))));
  return {};
}

Status ImportScope::import_rule(const onnx::Node& node, const op::OnnxRule& rule, int64_t version,
                                std::vector<ir::ValueId> inputs) {
  ir::Graph& graph = context_.out.graph;
  const size_t first_new = graph.values.size();
  const std::string name = node.outputs.empty() ? name_of(node) : std::string(node.outputs[0]);
  op::NodeImport imported(graph, {name_of(node)}, name,
                          {node, version, std::move(inputs), context_.files, wanted_, attributes_});
  Status status;
  if (rule.import) {
    status = rule.import(imported);
  } else {
    std::vector<ir::ValueId> operands;
    for (size_t i = 0; i < imported.inputs(); ++i) operands.push_back(imported.in_or_none(i));
    status = imported.become(rule.becomes, std::move(operands));
  }
  if (status.ok()) status = imported.check_attributes();
  if (!status.ok()) return refuse(node, status.error(), inputs_behind(imported.missing())), Status();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const ir::ValueId id = imported.results()[i];
    if (id != ir::kNone) {
      values_[node.outputs[i]] = id;
      if (id >= first_new) graph.values[id].name = node.outputs[i];
    } else if (wanted_.count(node.outputs[i])) {
      return refuse(node, unsupported(fmt::format("output {} is not supported; use the others", i))), Status();
    }
  }
  return {};
}

Status ImportScope::take_results(const onnx::Node& node, ImportScope& inner,
                                 const std::vector<std::string_view>& results) {
  for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (inner.is_refused(results[i])) {
      refused_.emplace(node.outputs[i]);
      continue;
    }
    auto id = inner.value_of(results[i]);
    if (!id.ok()) return refuse(node, id.error()), Status();
    values_[node.outputs[i]] = *id;
  }
  return {};
}

// The body of a function in place of its call.
Status ImportScope::call(const onnx::Node& node, const onnx::Function& function,
                         const std::vector<ir::ValueId>& inputs) {
  if (inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    return refuse(node, invalid("it has more inputs or outputs than its function; correct the call")), Status();
  Versions versions;
  for (const onnx::Opset& opset : function.opsets) versions[opset.domain] = opset.version;
  ImportScope inner(context_, function.nodes, std::move(versions), nullptr, fmt::format("{}/", name_of(node)));
  op::NodeImport::References attributes;
  for (const onnx::Attribute& attribute : function.attributes_or_default) attributes[attribute.name] = &attribute;
  for (const onnx::Attribute& attribute : node.attributes) {
    const onnx::Attribute* given = &attribute;
    if (!attribute.reference.empty()) {
      const auto outer = attributes_.find(attribute.reference);
      if (outer == attributes_.end()) continue;  // not given either
      given = outer->second;
    }
    attributes[attribute.name] = given;
  }
  inner.bind(attributes);
  for (size_t i = 0; i < function.inputs.size(); ++i)
    QUERN_TRY(inner.define(function.inputs[i], i < inputs.size() ? inputs[i] : ir::kNone));
  std::vector<std::string_view> results;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (wanted_.count(node.outputs[i])) results.push_back(function.outputs[i]);
  QUERN_TRY(inner.import(results));
  return take_results(node, inner, function.outputs);
}

// One branch of an If whose condition is known.
Status ImportScope::choose(const onnx::Node& node, const std::vector<ir::ValueId>& inputs) {
  const ir::ValueId condition = inputs.empty() ? ir::kNone : inputs[0];
  const auto known = condition == ir::kNone ? std::nullopt : ir::contents_of(context_.out.graph.at(condition));
  if (!known || known->size() != 1 || !(*known)[0].is_fixed())
    return refuse(node, unsupported("which branch runs is known only when it is called; export the model without If"),
                  inputs_behind(condition)),
           Status();
  const std::string_view chosen = (*known)[0].is(0) ? "else_branch" : "then_branch";
  for (const onnx::Attribute& attribute : node.attributes) {
    if (attribute.name != chosen || attribute.graphs.size() != 1) continue;
    const onnx::Graph& graph = attribute.graphs[0];
    ImportScope inner(context_, graph.nodes, versions_, this, fmt::format("{}/", name_of(node)));
    inner.bind(attributes_);
    for (const onnx::Tensor& weight : graph.initialisers) QUERN_TRY(inner.define(weight));
    std::vector<std::string_view> results;
    for (const onnx::ValueInfo& output : graph.outputs) results.push_back(output.name);
    QUERN_TRY(inner.import(results));
    return take_results(node, inner, results);
  }
  return refuse(node, invalid(fmt::format("attribute '{}' is missing; state it", chosen))), Status();
}

// The inputs of the graph that a value is computed from, if all of them are small: their elements can be bound.
std::vector<std::string> ImportScope::inputs_behind(ir::ValueId id) const {
  constexpr int64_t kMostBoundElements = 64;
  constexpr size_t kMostWalks = 64;  // each walk may pass the whole graph
  if (id == ir::kNone || context_.out.refusals.size() >= kMostWalks) return {};
  const ir::Graph& graph = context_.out.graph;
  std::set<ir::ValueId> seen;
  std::vector<ir::ValueId> open = {id};
  std::vector<std::string> names;
  const auto makers = graph.makers();
  while (!open.empty()) {
    const ir::ValueId at = open.back();
    open.pop_back();
    if (at == ir::kNone || !seen.insert(at).second) continue;
    if (makers[at]) {
      const ir::Node& node = graph.nodes[*makers[at]];
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    } else if (!graph.values[at].constant) {
      const auto sizes = ir::fixed_of(graph.type(at).dims);
      const auto elements = sizes ? ir::elements_of(*sizes) : std::nullopt;
      if (!elements || *elements > kMostBoundElements) return {};
      names.push_back(graph.values[at].name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace quern::model
