// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ir/graph.h"
#include "model/op/builder.h"

namespace quern::model::pass {

/// A graph while it is rewritten. A rule looks at a node and at those that it reads from, emits other nodes, and says
/// which values they replace. Old nodes stay until `finish`, which drops those that nobody reads any more: a rule never
/// has to ask who else reads a value to stay correct.
class Rewriter {
 public:
  explicit Rewriter(ir::Graph& graph);

  ir::Graph& graph() { return graph_; }
  /// The value that stands for this one now.
  ir::ValueId now(ir::ValueId id) const;
  const ir::Type& type(ir::ValueId id) const { return graph_.type(now(id)); }
  const ir::Tensor* constant(ir::ValueId id) const { return id == ir::kNone ? nullptr : graph_.constant(now(id)); }
  /// The node that makes a value; null for inputs and constants. Valid until something is emitted.
  const ir::Node* maker(ir::ValueId id) const;
  /// The same if it is a node of this operator.
  const ir::Node* maker(ir::ValueId id, std::string_view op) const;
  /// How many nodes and outputs read the value, as counted when the sweep began and for every replacement since.
  uint32_t uses(ir::ValueId id) const { return uses_[now(id)]; }

  /// Emits nodes that compute what these nodes did: they get all their origins.
  op::Builder builder(std::span<const ir::Node* const> for_nodes);
  op::Builder builder(const ir::Node& node) {
    const ir::Node* one = &node;
    return builder(std::span(&one, 1));
  }
  /// From now on `to` stands for `from`. Both have the same dtype and sizes.
  void replace(ir::ValueId from, ir::ValueId to);

  /// Applies all replacements, drops what nobody needs, and orders the graph.
  Status finish();

 private:
  void catch_up();  // with nodes that a builder appended

  ir::Graph& graph_;
  std::vector<ir::ValueId> aliases_;  // of every value the one that replaces it, or itself
  std::vector<int64_t> makers_;       // of every value its node, or -1
  std::vector<uint32_t> uses_;
  size_t seen_nodes_ = 0;
};

/// A node of one output and without a body whose operator works element by element.
bool is_elementwise(const ir::Node& node);

/// A rule looks at nodes of one operator; empty: of all. It returns whether it replaced something.
struct Rule {
  std::string_view op;
  Result<bool> (*apply)(Rewriter& rewriter, const ir::Node& node);
};

/// Applies rules to every node until none does anything, at most kMostSweeps times over the graph. Returns whether any
/// rule did something.
Result<bool> apply_rules(ir::Graph& graph, std::span<const Rule> rules);
constexpr int kMostSweeps = 16;

}  // namespace quern::model::pass
