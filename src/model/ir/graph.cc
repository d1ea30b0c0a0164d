// SPDX-License-Identifier: Apache-2.0
#include "model/ir/graph.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace quern::model::ir {

std::string show_type(const Type& type) { return fmt::format("{}{}", name_of(type.dtype), show_dims(type.dims)); }

ValueId Graph::add(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(Tensor tensor, std::string name) {
  Value value;
  value.name = std::move(name);
  value.type = {tensor.dtype(), dims_of(tensor.sizes())};
  value.constant = std::move(tensor);
  return add(std::move(value));
}

void Graph::replace(ValueId from, ValueId to) {
  for (Node& node : nodes)
    for (ValueId& input : node.inputs)
      if (input == from) input = to;
  for (Output& output : outputs)
    if (output.value == from) output.value = to;
}

std::vector<std::optional<uint32_t>> Graph::makers() const {
  std::vector<std::optional<uint32_t>> out(values.size());
  for (uint32_t i = 0; i < nodes.size(); ++i)
    for (const ValueId id : nodes[i].outputs) out[id] = i;
  return out;
}

std::vector<uint32_t> Graph::uses() const {
  std::vector<uint32_t> out(values.size());
  for (const Node& node : nodes)
    for (const ValueId id : node.inputs)
      if (id != kNone) ++out[id];
  for (const Output& output : outputs) ++out[output.value];
  return out;
}

// Depth first from the outputs, inputs of a node from the left, without recursion: a stranger's graph may be deep.
Status Graph::order() {
  const auto maker = makers();
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(nodes.size(), Mark::kNew);
  std::vector<Node> ordered;
  ordered.reserve(nodes.size());
  struct Visit {
    uint32_t node;
    size_t next_input = 0;
  };
  std::vector<Visit> stack;
  const auto enter = [&](ValueId id) -> Status {
    if (id == kNone || !maker[id]) return {};
    const uint32_t node = *maker[id];
    if (marks[node] == Mark::kDone) return {};
    if (marks[node] == Mark::kOpen)
      return invalid(
          fmt::format("graph: node '{}' reads what is computed from its own output; write a graph without "
                      "circles",
                      nodes[node].origins.empty() ? nodes[node].op : nodes[node].origins[0]));
    marks[node] = Mark::kOpen;
    stack.push_back({node});
    return {};
  };
  for (const Output& output : outputs) {
    QUERN_TRY(enter(output.value));
    while (!stack.empty()) {
      Visit& top = stack.back();
      Node& node = nodes[top.node];
      if (top.next_input < node.inputs.size()) {
        QUERN_TRY(enter(node.inputs[top.next_input++]));
        continue;
      }
      marks[top.node] = Mark::kDone;
      ordered.push_back(std::move(node));
      stack.pop_back();
    }
  }
  nodes = std::move(ordered);
  return {};
}

void Graph::compact() {
  std::vector<bool> is_used(values.size());
  for (const ValueId id : inputs) is_used[id] = true;
  for (const Output& output : outputs) is_used[output.value] = true;
  for (const Node& node : nodes) {
    for (const ValueId id : node.inputs)
      if (id != kNone) is_used[id] = true;
    for (const ValueId id : node.outputs) is_used[id] = true;
  }
  std::vector<ValueId> renamed(values.size(), kNone);
  std::vector<Value> kept;
  for (ValueId id = 0; id < values.size(); ++id) {
    if (!is_used[id]) continue;
    renamed[id] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(values[id]));
  }
  values = std::move(kept);
  const auto rename = [&](ValueId& id) {
    if (id != kNone) id = renamed[id];
  };
  for (ValueId& id : inputs) rename(id);
  for (Output& output : outputs) rename(output.value);
  for (Node& node : nodes) {
    for (ValueId& id : node.inputs) rename(id);
    for (ValueId& id : node.outputs) rename(id);
  }
}

std::optional<Dims> contents_of(const Value& value) {
  if (value.contents) return value.contents;
  if (!value.constant || value.constant->elements() > kMostContents) return std::nullopt;
  Dims out;
  for (size_t i = 0; i < value.constant->elements(); ++i) {
    if (is_float(value.type.dtype)) {
      const double real = value.constant->real(i);
      if (real != std::floor(real) || std::fabs(real) > 0x1p53) return std::nullopt;
    }
    const int64_t whole = value.constant->whole(i);
    if (value.type.dtype == Dtype::kUint64 && whole < 0) return std::nullopt;  // beyond an int64_t
    out.push_back(whole);
  }
  return out;
}

}  // namespace quern::model::ir
