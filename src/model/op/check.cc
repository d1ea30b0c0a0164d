// SPDX-License-Identifier: Apache-2.0
#include "model/op/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/op/table.h"

namespace quern::model::op {
namespace {

std::string_view kind_of(const ir::Attribute& attribute) {
  constexpr std::string_view kKinds[] = {"a whole number", "a real number", "text", "a list of whole numbers",
                                         "a list of real numbers"};
  return kKinds[attribute.index()];
}

// A whole number stands for a real one where a real one is asked for, also in lists.
bool coerce(ir::Attribute& attribute, const ir::Attribute& like) {
  if (attribute.index() == like.index()) return true;
  if (std::holds_alternative<double>(like)) {
    const auto* dim = std::get_if<ir::Dim>(&attribute);
    if (!dim || !dim->is_fixed()) return false;
    attribute = static_cast<double>(dim->fixed());
    return true;
  }
  if (std::holds_alternative<std::vector<double>>(like)) {
    const auto* dims = std::get_if<ir::Dims>(&attribute);
    const auto fixed = dims ? ir::fixed_of(*dims) : std::nullopt;
    if (!fixed) return false;
    attribute = std::vector<double>(fixed->begin(), fixed->end());
    return true;
  }
  return false;
}

Status check_attributes(const Operator& op, ir::Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    const auto known = [&, key = std::string_view(name)](const AttributeRule& rule) { return rule.name == key; };
    if (std::none_of(op.attributes.begin(), op.attributes.end(), known))
      return invalid(fmt::format("{} has no attribute '{}'; leave it out", op.name, name));
  }
  for (const AttributeRule& rule : op.attributes) {
    const ir::Attribute* given = attributes.find(rule.name);
    if (!given && rule.is_required) return invalid(fmt::format("attribute '{}' is missing; state it", rule.name));
    ir::Attribute value = given ? *given : rule.fallback;
    if (!coerce(value, rule.fallback))
      return invalid(fmt::format("attribute '{}' is {}; give {}", rule.name, kind_of(value), kind_of(rule.fallback)));
    attributes.set(rule.name, std::move(value));
  }
  return {};
}

Site site_of(ir::Graph& graph, const ir::Node& node) {
  Site site{node.op, {}, node.attributes, node.outputs.size(), graph.requirements};
  for (const ir::ValueId id : node.inputs) site.inputs.push_back(id == ir::kNone ? nullptr : &graph.values[id]);
  return site;
}

Status check_type(const ir::Type& type) {
  ir::Dim elements = 1;
  for (const ir::Dim& dim : type.dims) {
    if (!dim.is_known())
      return unsupported("a size of its output is no expression of the free dims; fix the dims of the inputs");
    const ir::Dim::Range range = dim.range();
    if (range.high < 0) return invalid(fmt::format("its output has a size of {}; give larger inputs", dim.text()));
    if (range.low > ir::kLargestDim)
      return invalid(fmt::format("its output has a size of {}; the largest is {}", dim.text(), ir::kLargestDim));
    elements = elements * dim;
  }
  if (elements.is_fixed() ? elements.fixed() > ir::kMostElements : type.dims.size() > 0 && ir::fixed_of(type.dims))
    return invalid(fmt::format("its output {} has more than {} elements; give smaller inputs", ir::show_type(type),
                               ir::kMostElements));
  return {};
}

// A body works element by element: its operators are such, and its output has the sizes of the operator's.
Result<std::vector<ir::Type>> types_behind_body(ir::Graph& graph, const ir::Node& node, size_t own,
                                                std::vector<ir::Type> types) {
  if (node.outputs.size() != 1 || node.body->outputs.size() != 1)
    return invalid("a node with a body has not one output; give one");
  ir::Graph body = *node.body;
  const bool is_fused = node.op == kFused;
  if (!is_fused) body.values[body.inputs[0]].type = types[0];
  for (size_t i = is_fused ? 0 : 1; i < body.inputs.size(); ++i) {
    const ir::ValueId id = node.inputs[own + i - !is_fused];
    if (id == ir::kNone) return invalid("an input of the body is left out; give it");
    body.values[body.inputs[i]].type = graph.type(id);
  }
  for (ir::Node& inner : body.nodes) {
    const Operator* op = find_operator(inner.op);
    if (!op || !op->is_elementwise)
      return invalid(fmt::format("{} in a body does not work element by element", inner.op));
    QUERN_TRY(std::vector<ir::Type> made, check_node(body, inner));
    for (size_t i = 0; i < inner.outputs.size(); ++i) body.values[inner.outputs[i]].type = made[i];
  }
  graph.requirements.insert(graph.requirements.end(), body.requirements.begin(), body.requirements.end());
  const ir::Type& out = body.type(body.outputs[0].value);
  if (!is_fused && out.dims != types[0].dims)
    return invalid(fmt::format("the body makes {} of {}; it must keep the sizes", ir::show_dims(out.dims),
                               ir::show_dims(types[0].dims)));
  return std::vector{out};
}

}  // namespace

bool Site::same(const ir::Dim& a, const ir::Dim& b) {
  if (const auto known = ir::Dim::same(a, b)) return *known;
  for (const ir::Requirement& known : requirements)
    if ((known.a == a && known.b == b) || (known.a == b && known.b == a)) return true;
  requirements.push_back({a, b, ""});
  return true;
}

Result<std::vector<ir::Type>> check_node(ir::Graph& graph, ir::Node& node) {
  const Operator* op = find_operator(node.op);
  if (!op) return invalid(fmt::format("there is no operator '{}'; see src/model/op", node.op));
  const auto wrong_count = [&](std::string_view what, size_t have) {
    return invalid(fmt::format("{} {} are given to {}; give what the operator takes", have, what, op->name));
  };
  const bool is_fused = node.op == kFused;
  if (is_fused && !node.body) return invalid("fused has no body; give one");
  if (node.body && node.inputs.size() + !is_fused < node.body->inputs.size())
    return invalid("the body takes more inputs than there are; give them");
  // The last inputs are those of the body, but for its first, which is the output of the operator.
  const size_t own = !node.body ? node.inputs.size() : is_fused ? 0 : node.inputs.size() + 1 - node.body->inputs.size();
  if (own < op->least_inputs || own > op->most_inputs) return wrong_count("inputs", own);
  if (node.outputs.empty() || node.outputs.size() > op->most_outputs)
    return wrong_count("outputs", node.outputs.size());
  for (size_t i = 0; i < op->least_inputs; ++i)
    if (node.inputs[i] == ir::kNone) return invalid(fmt::format("input {} is left out; give it", i));
  QUERN_TRY(check_attributes(*op, node.attributes));
  const size_t before = graph.requirements.size();
  Site site = site_of(graph, node);
  site.inputs.resize(own);
  QUERN_TRY(std::vector<ir::Type> types, op->infer(site));
  if (node.body) {
    QUERN_TRY(types, types_behind_body(graph, node, own, std::move(types)));
  }
  QUERN_CHECK(types.size() >= node.outputs.size(), fmt::format("{} infers all its outputs", op->name));
  for (const ir::Type& type : types) QUERN_TRY(check_type(type));
  for (size_t i = before; i < graph.requirements.size(); ++i)
    graph.requirements[i].reason = node.origins.empty() ? node.op : node.origins[0];
  return types;
}

std::optional<ir::Dims> contents_of_output(ir::Graph& graph, const ir::Node& node) {
  const Operator* op = find_operator(node.op);
  if (!op || !op->contents || node.body) return std::nullopt;
  std::optional<ir::Dims> out = op->contents(site_of(graph, node));
  if (!out || out->size() > ir::kMostContents) return std::nullopt;
  for (const ir::Dim& dim : *out)
    if (!dim.is_known()) return std::nullopt;
  return out;
}

Result<ir::Graph> complete(ir::ParsedGraph parsed) {
  ir::Graph& graph = parsed.graph;
  for (ir::Node& node : graph.nodes) {
    const auto prefixed = [&](const Error& error) {
      return Error{error.code, fmt::format("node '{}': {}", node.op, error.text)};
    };
    auto types = check_node(graph, node);
    if (!types.ok()) return prefixed(types.error());
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ir::ValueId id = node.outputs[i];
      ir::Value& value = graph.values[id];
      if (parsed.has_type[id] && value.type != (*types)[i])
        return prefixed(invalid(fmt::format("'{}' is {}, and the text states {}; correct it", value.name,
                                            ir::show_type((*types)[i]), ir::show_type(value.type))));
      value.type = (*types)[i];
    }
    graph.values[node.outputs[0]].contents = contents_of_output(graph, node);
  }
  return std::move(graph);
}

Status check_graph(const ir::Graph& graph) {
  std::vector<bool> is_made(graph.values.size());
  for (const ir::ValueId id : graph.inputs) is_made[id] = true;
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].constant) is_made[id] = true;
  ir::Graph scratch = graph;  // checking adds requirements that the graph has already
  for (ir::Node& node : scratch.nodes) {
    for (const ir::ValueId id : node.inputs)
      if (id != ir::kNone && !is_made[id])
        return internal(fmt::format("node '{}' reads '{}' before it is made", node.op, graph.values[id].name));
    auto types = check_node(scratch, node);
    if (!types.ok()) return internal(fmt::format("node '{}': {}", node.op, types.error().text));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ir::ValueId id = node.outputs[i];
      if (is_made[id]) return internal(fmt::format("'{}' is made twice", graph.values[id].name));
      is_made[id] = true;
      if (graph.type(id).dtype != (*types)[i].dtype || graph.type(id).rank() != (*types)[i].rank())
        return internal(fmt::format("'{}' of node '{}' is {}, and the graph says {}", graph.values[id].name, node.op,
                                    ir::show_type((*types)[i]), ir::show_type(graph.type(id))));
      for (size_t d = 0; d < graph.type(id).rank(); ++d)
        if (ir::Dim::same(graph.type(id).dims[d], (*types)[i].dims[d]) == false)
          return internal(fmt::format("'{}' of node '{}' is {}, and the graph says {}", graph.values[id].name, node.op,
                                      ir::show_type((*types)[i]), ir::show_type(graph.type(id))));
    }
  }
  for (const ir::Output& output : graph.outputs)
    if (!is_made[output.value]) return internal(fmt::format("output '{}' is not made", output.name));
  return {};
}

}  // namespace quern::model::op
