// SPDX-License-Identifier: Apache-2.0
//
// A group is a list of nodes that become one: an anchor (a convolution, a matrix product, …) or nothing, and nodes that
// work element by element. Nodes are visited in order. A node joins the group of an operand if it is that operand's
// only reader and has its sizes. Of several such operands it takes the one that comes last in the graph, so that the
// others are there when the group runs; the groups of other operands join it if they have no anchor.
#include "model/pass/fuse.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "model/op/operator.h"
#include "model/pass/rewriter.h"

namespace quern::model::pass {
namespace {

// Operators that can work on their result before they store it.
bool is_anchor(const ir::Node& node) {
  constexpr std::string_view kAnchors[] = {"conv",         "conv_transpose", "matmul",    "layer_norm", "softmax",
                                           "average_pool", "max_pool",       "attention", "reduce_sum", "reduce_mean",
                                           "reduce_max",   "reduce_min",     "resize",    "gather",     "slice",
                                           "transpose",    "broadcast"};
  return node.outputs.size() == 1 && !node.body &&
         std::find(std::begin(kAnchors), std::end(kAnchors), node.op) != std::end(kAnchors);
}

class Fuser {
 public:
  explicit Fuser(ir::Graph& graph)
      : graph_(graph), makers_(graph.makers()), uses_(graph.uses()), group_(graph.nodes.size()) {
    std::iota(group_.begin(), group_.end(), 0);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) members_.push_back({i});
  }

  Status run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_elementwise(graph_.nodes[i])) join_operands(i);
    std::vector<ir::Node> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      // The last member makes the output of the group, and stands where all that it reads was made.
      const std::vector<size_t>& members = members_[group_[i]];
      if (members.back() != i) continue;
      nodes.push_back(members.size() == 1 ? graph_.nodes[i] : joined(members));
    }
    graph_.nodes = std::move(nodes);
    QUERN_TRY(graph_.order());
    graph_.compact();
    return {};
  }

 private:
  bool has_anchor(size_t group) const { return is_anchor(graph_.nodes[members_[group][0]]); }

  // The values that a set of nodes reads from outside, numbers left out: those are literals of a kernel.
  std::vector<ir::ValueId> inputs_of(const std::vector<size_t>& members, size_t from) const {
    std::vector<ir::ValueId> out;
    for (size_t m = from; m < members.size(); ++m)
      for (const ir::ValueId id : graph_.nodes[members[m]].inputs) {
        if (id == ir::kNone || is_literal(id)) continue;
        const bool is_inside = makers_[id] && std::find(members.begin(), members.end(), *makers_[id]) != members.end();
        if (!is_inside && std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
      }
    return out;
  }
  bool is_literal(ir::ValueId id) const {
    const ir::Tensor* constant = graph_.constant(id);
    return constant && constant->rank() == 0;
  }

  void join_operands(size_t i) {
    const ir::Node& node = graph_.nodes[i];
    // Groups that end in an operand whose only reader this node is, the latest first.
    std::vector<size_t> candidates;
    for (const ir::ValueId id : node.inputs) {
      if (id == ir::kNone || !makers_[id]) continue;
      const size_t maker = *makers_[id], group = group_[maker];
      const auto reads = static_cast<uint32_t>(std::count(node.inputs.begin(), node.inputs.end(), id));
      const bool fits = uses_[id] == reads && graph_.type(id).dims == graph_.type(node.outputs[0]).dims &&
                        (is_elementwise(graph_.nodes[maker]) || is_anchor(graph_.nodes[maker]));
      if (fits && std::find(candidates.begin(), candidates.end(), group) == candidates.end())
        candidates.push_back(group);
    }
    std::sort(candidates.begin(), candidates.end(),
              [&](size_t a, size_t b) { return members_[a].back() > members_[b].back(); });
    bool is_anchored = false;
    for (const size_t group : candidates) {
      if (has_anchor(group) && is_anchored) continue;
      std::vector<size_t> all = members_[group];
      all.insert(all.end(), members_[group_[i]].begin(), members_[group_[i]].end());
      std::sort(all.begin(), all.end());
      if (has_anchor(group)) {  // it stays first
        std::erase(all, members_[group][0]);
        all.insert(all.begin(), members_[group][0]);
      } else if (is_anchored) {
        const size_t anchor = members_[group_[i]][0];
        std::erase(all, anchor);
        all.insert(all.begin(), anchor);
      }
      const bool anchored = is_anchored || has_anchor(group);
      if (all.size() > kMostFusedNodes || inputs_of(all, anchored).size() > kMostFusedInputs) continue;
      is_anchored = anchored;
      const size_t own = group_[i];
      members_[own] = std::move(all);
      for (const size_t member : members_[own]) group_[member] = own;
    }
  }

  // One node for the members of a group. The first is the anchor, if the group has one.
  ir::Node joined(const std::vector<size_t>& members) const {
    const bool anchored = is_anchor(graph_.nodes[members[0]]);
    const ir::Node& last = graph_.nodes[members.back()];
    ir::Node out;
    auto body = std::make_shared<ir::Graph>();
    std::map<ir::ValueId, ir::ValueId> inner;
    const auto add = [&](ir::ValueId id) {
      ir::Value value = graph_.at(id);
      value.contents.reset();
      return inner[id] = body->add(std::move(value));
    };
    if (anchored) {
      const ir::Node& anchor = graph_.nodes[members[0]];
      out.op = anchor.op;
      out.attributes = anchor.attributes;
      out.inputs = anchor.inputs;
      body->inputs.push_back(add(anchor.outputs[0]));
    } else {
      out.op = op::kFused;
    }
    for (const ir::ValueId id : inputs_of(members, anchored)) {
      out.inputs.push_back(id);
      // A constant that is no literal comes in as any other input.
      const ir::ValueId copy = add(id);
      body->values[copy].constant.reset();
      body->inputs.push_back(copy);
    }
    for (size_t m = 0; m < members.size(); ++m) {
      const ir::Node& member = graph_.nodes[members[m]];
      for (const std::string& origin : member.origins)
        if (std::find(out.origins.begin(), out.origins.end(), origin) == out.origins.end())
          out.origins.push_back(origin);
      if (anchored && m == 0) continue;
      ir::Node node = member;
      node.origins.clear();
      for (ir::ValueId& id : node.inputs) {
        const auto known = inner.find(id);
        id = known == inner.end() ? add(id) : known->second;
      }
      node.outputs[0] = add(member.outputs[0]);
      body->nodes.push_back(std::move(node));
    }
    body->outputs.push_back({graph_.at(last.outputs[0]).name, inner[last.outputs[0]]});
    out.outputs = last.outputs;
    out.body = std::move(body);
    return out;
  }

  ir::Graph& graph_;
  std::vector<std::optional<uint32_t>> makers_;
  std::vector<uint32_t> uses_;
  std::vector<size_t> group_;                 // of every node
  std::vector<std::vector<size_t>> members_;  // of every group, in the order of the graph, an anchor first
};

}  // namespace

Status fuse(ir::Graph& graph) { return Fuser(graph).run(); }

}  // namespace quern::model::pass
