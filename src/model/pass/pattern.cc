// SPDX-License-Identifier: Apache-2.0
#include "model/pass/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quern::model::pass {

std::optional<double> number_of(const ir::Tensor* constant) {
  if (!constant || constant->elements() == 0 || constant->dtype() == Dtype::kBool) return std::nullopt;
  const double first = constant->real(0);
  for (size_t i = 1; i < constant->elements(); ++i)
    if (constant->real(i) != first) return std::nullopt;
  return first;
}

bool is_close(double a, double b) { return std::fabs(a - b) <= 1e-5 * std::max(std::fabs(a), std::fabs(b)); }

/// A match as far as it got. It is copied where two orders of operands are tried.
struct Pattern::Trial {
  const Rewriter& rewriter;
  Match match;
  std::map<ir::ValueId, uint32_t> inner;  // values of inner nodes, and how often the pattern reads them
};

Pattern::Pattern(std::string_view text) {
  root_ = parse(text);
  QUERN_CHECK(text.empty() && parts_[root_].kind == Part::Kind::kNode, "a pattern is one tree");
}

size_t Pattern::parse(std::string_view& text) {
  const auto skip = [&] { text.remove_prefix(std::min(text.find_first_not_of(' '), text.size())); };
  const auto word = [&] {
    skip();
    const size_t end = std::min(text.find_first_of(" (),:"), text.size());
    const std::string_view out = text.substr(0, end);
    text.remove_prefix(end);
    skip();
    return std::string(out);
  };
  const auto take = [&](char c) {
    skip();
    if (text.empty() || text[0] != c) return false;
    text.remove_prefix(1);
    return true;
  };
  Part part;
  std::string first = word();
  QUERN_CHECK(!first.empty(), "a pattern has no empty parts");
  if (take(':')) {
    part.name = std::move(first);
    first = word();
  }
  if (take('(')) {
    part.kind = Part::Kind::kNode;
    part.op = std::move(first);
    do part.operands.push_back(parse(text));
    while (take(','));
    QUERN_CHECK(take(')'), "a pattern closes its parentheses");
  } else if (first[0] == '?') {
    part.kind = Part::Kind::kAnyNumber;
    part.name = first.substr(1);
  } else if (first[0] == '-' || (first[0] >= '0' && first[0] <= '9')) {
    part.kind = Part::Kind::kNumber;
    part.number = std::strtod(first.c_str(), nullptr);
  } else {
    part.name = std::move(first);
  }
  parts_.push_back(std::move(part));
  return parts_.size() - 1;
}

bool Pattern::match_value(Trial& trial, size_t index, ir::ValueId id) const {
  if (id == ir::kNone) return false;
  const Part& part = parts_[index];
  id = trial.rewriter.now(id);
  switch (part.kind) {
    case Part::Kind::kValue:
      return trial.match.values.emplace(part.name, id).first->second == id;
    case Part::Kind::kNumber: {
      const auto number = number_of(trial.rewriter.constant(id));
      return number && (*number == part.number || is_close(*number, part.number));
    }
    case Part::Kind::kAnyNumber: {
      const auto number = number_of(trial.rewriter.constant(id));
      return number && trial.match.numbers.emplace(part.name, *number).first->second == *number;
    }
    case Part::Kind::kNode:
      break;
  }
  const ir::Node* node = trial.rewriter.maker(id, part.op);
  if (!node || node->outputs.size() != 1) return false;
  // Seen again, a node was matched already as the same tree: its operands must be the same values.
  ++trial.inner[id];
  return match_node(trial, part, *node);
}

bool Pattern::match_node(Trial& trial, const Part& part, const ir::Node& node) const {
  if (node.inputs.size() != part.operands.size() || node.body) return false;
  trial.match.all.push_back(&node);
  if (!part.name.empty() && trial.match.nodes.emplace(part.name, &node).first->second != &node) return false;
  const bool commutes =
      part.operands.size() == 2 && (part.op == "add" || part.op == "mul" || part.op == "min" || part.op == "max");
  if (commutes) {
    const Match saved = trial.match;
    const auto saved_inner = trial.inner;
    if (match_value(trial, part.operands[0], node.inputs[1]) && match_value(trial, part.operands[1], node.inputs[0]))
      return true;
    trial.match = saved;
    trial.inner = saved_inner;
  }
  for (size_t i = 0; i < part.operands.size(); ++i)
    if (!match_value(trial, part.operands[i], node.inputs[i])) return false;
  return true;
}

std::optional<Match> Pattern::match(const Rewriter& rewriter, const ir::Node& root) const {
  if (root.op != parts_[root_].op || root.outputs.size() != 1) return std::nullopt;
  Trial trial{rewriter, {}, {}};
  if (!match_node(trial, parts_[root_], root)) return std::nullopt;
  // Nodes that the pattern names twice count their readers once for each time they are matched.
  std::map<ir::ValueId, uint32_t> readers;
  std::vector<const ir::Node*> distinct = trial.match.all;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const ir::Node* node : distinct)
    for (const ir::ValueId id : node->inputs)
      if (id != ir::kNone) ++readers[rewriter.now(id)];
  for (const auto& [id, count] : trial.inner)
    if (rewriter.uses(id) > readers[id]) return std::nullopt;
  return std::move(trial.match);
}

}  // namespace quern::model::pass
