// SPDX-License-Identifier: Apache-2.0
#include "model/pass/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/op/table.h"

namespace quern::model::pass {

Rewriter::Rewriter(ir::Graph& graph) : graph_(graph), uses_(graph.uses()) { catch_up(); }

void Rewriter::catch_up() {
  const size_t known = aliases_.size();
  aliases_.resize(graph_.values.size());
  std::iota(aliases_.begin() + static_cast<ptrdiff_t>(known), aliases_.end(), static_cast<ir::ValueId>(known));
  makers_.resize(graph_.values.size(), -1);
  uses_.resize(graph_.values.size());
  for (; seen_nodes_ < graph_.nodes.size(); ++seen_nodes_)
    for (const ir::ValueId id : graph_.nodes[seen_nodes_].outputs) makers_[id] = static_cast<int64_t>(seen_nodes_);
}

ir::ValueId Rewriter::now(ir::ValueId id) const {
  if (id == ir::kNone) return id;
  while (id < aliases_.size() && aliases_[id] != id) id = aliases_[id];
  return id;
}

const ir::Node* Rewriter::maker(ir::ValueId id) const {
  if (id == ir::kNone) return nullptr;
  const ir::ValueId value = now(id);
  if (value < makers_.size()) return makers_[value] < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(makers_[value])];
  // Emitted since the last replacement.
  for (size_t i = seen_nodes_; i < graph_.nodes.size(); ++i)
    for (const ir::ValueId made : graph_.nodes[i].outputs)
      if (made == value) return &graph_.nodes[i];
  return nullptr;
}

const ir::Node* Rewriter::maker(ir::ValueId id, std::string_view op) const {
  const ir::Node* node = maker(id);
  return node && node->op == op ? node : nullptr;
}

op::Builder Rewriter::builder(std::span<const ir::Node* const> for_nodes) {
  std::vector<std::string> origins;
  std::string name;
  for (const ir::Node* node : for_nodes)
    for (const std::string& origin : node->origins)
      if (std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
  if (!for_nodes.empty()) name = graph_.at(for_nodes.back()->outputs[0]).name;
  return {graph_, std::move(origins), std::move(name)};
}

void Rewriter::replace(ir::ValueId from, ir::ValueId to) {
  catch_up();
  from = now(from);
  to = now(to);
  if (from == to) return;
  QUERN_CHECK(graph_.type(from).dtype == graph_.type(to).dtype && graph_.type(from).rank() == graph_.type(to).rank(),
              fmt::format("'{}' of {} is replaced by {}", graph_.at(from).name, ir::show_type(graph_.type(from)),
                          ir::show_type(graph_.type(to))));
  aliases_[from] = to;
  uses_[to] += uses_[from];
}

Status Rewriter::finish() {
  catch_up();
  for (ir::Node& node : graph_.nodes)
    for (ir::ValueId& input : node.inputs) input = now(input);
  for (ir::Output& output : graph_.outputs) output.value = now(output.value);
  QUERN_TRY(graph_.order());
  graph_.compact();
  return {};
}

bool is_elementwise(const ir::Node& node) {
  const op::Operator* op = op::find_operator(node.op);
  return op && op->is_elementwise && !node.body && node.outputs.size() == 1;
}

Result<bool> apply_rules(ir::Graph& graph, std::span<const Rule> rules) {
  bool is_ever_changed = false;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    Rewriter rewriter(graph);
    bool is_changed = false;
    const size_t nodes = graph.nodes.size();
    for (size_t i = 0; i < nodes; ++i) {
      // A copy, whose inputs are those of now: emitting moves the nodes of the graph.
      ir::Node node = graph.nodes[i];
      for (ir::ValueId& input : node.inputs) input = rewriter.now(input);
      if (rewriter.now(node.outputs[0]) != node.outputs[0]) continue;
      for (const Rule& rule : rules) {
        if (!rule.op.empty() && rule.op != node.op) continue;
        QUERN_TRY(const bool applied, rule.apply(rewriter, node));
        if (!applied) continue;
        is_changed = true;
        break;
      }
    }
    QUERN_TRY(rewriter.finish());
    if (!is_changed) break;
    is_ever_changed = true;
  }
  return is_ever_changed;
}

}  // namespace quern::model::pass
