// SPDX-License-Identifier: Apache-2.0
//
// A spelling is a pattern over canonical graphs: constants on the right, single numbers outside of products, x * x for
// squares, products with reciprocals for divisions by constants.
#include "model/pass/recognise.h"

#include <algorithm>
#include <cmath>

#include "model/pass/fold.h"
#include "model/pass/pattern.h"

namespace quern::model::pass {
namespace {

bool has_same_sizes(const Rewriter& rewriter, ir::ValueId a, ir::ValueId b) {
  return rewriter.type(a).dims == rewriter.type(b).dims;
}

Result<bool> becomes(Rewriter& rewriter, const Match& match, std::string_view op, std::vector<ir::ValueId> inputs,
                     ir::Attributes attributes = {}) {
  const ir::ValueId root = match.all[0]->outputs[0];
  std::vector<const ir::Node*> nodes(match.all.rbegin(), match.all.rend());
  QUERN_TRY(const ir::ValueId y, rewriter.builder(nodes).emit(op, std::move(inputs), std::move(attributes)));
  if (!has_same_sizes(rewriter, y, root)) return false;
  rewriter.replace(root, y);
  return true;
}

// The first pattern of the list that matches.
template <size_t N>
std::optional<Match> first_match(const Pattern (&patterns)[N], const Rewriter& rewriter, const ir::Node& node) {
  for (const Pattern& pattern : patterns)
    if (auto match = pattern.match(rewriter, node)) return match;
  return std::nullopt;
}

Result<bool> spelled_gelu(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kExact[] = {
      Pattern("mul(mul(x, add(erf(mul(x, 0.70710678)), 1)), 0.5)"),
      Pattern("mul(x, add(mul(erf(mul(x, 0.70710678)), 0.5), 0.5))"),
  };
  static const Pattern kTanh[] = {
      Pattern("mul(mul(x, add(tanh(mul(add(x, mul(pow(x, 3), 0.044715)), 0.79788456)), 1)), 0.5)"),
      Pattern("mul(mul(x, add(tanh(mul(add(x, mul(mul(mul(x, x), x), 0.044715)), 0.79788456)), 1)), 0.5)"),
      Pattern("mul(mul(x, add(tanh(mul(mul(x, add(mul(mul(x, x), 0.044715), 1)), 0.79788456)), 1)), 0.5)"),
  };
  if (const auto match = first_match(kExact, rewriter, node))
    return becomes(rewriter, *match, "gelu", {match->value("x")});
  if (const auto match = first_match(kTanh, rewriter, node))
    return becomes(rewriter, *match, "gelu_tanh", {match->value("x")});
  return false;
}

Result<bool> spelled_swish(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kPlain("mul(x, sigmoid(x))"), kScaled("mul(x, sigmoid(mul(x, ?a)))");
  if (const auto match = kPlain.match(rewriter, node))
    return becomes(rewriter, *match, "swish", {match->value("x")}, {{"alpha", 1.0}});
  if (const auto match = kScaled.match(rewriter, node))
    return becomes(rewriter, *match, "swish", {match->value("x")}, {{"alpha", match->number("a")}});
  return false;
}

Result<bool> spelled_mish(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kMish("mul(x, tanh(softplus(x)))");
  const auto match = kMish.match(rewriter, node);
  return match ? becomes(rewriter, *match, "mish", {match->value("x")}) : Result<bool>(false);
}

Result<bool> spelled_hard_sigmoid(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kHard[] = {Pattern("mul(min(relu(add(x, 3)), 6), 0.16666667)"),
                                  Pattern("mul(max(min(add(x, 3), 6), 0), 0.16666667)")};
  const auto match = first_match(kHard, rewriter, node);
  if (!match) return false;
  return becomes(rewriter, *match, "hard_sigmoid", {match->value("x")}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}

Result<bool> spelled_hard_swish(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kSwish[] = {Pattern("mul(x, h:hard_sigmoid(x))")};
  static const Pattern kSpelled[] = {Pattern("mul(mul(x, min(relu(add(x, 3)), 6)), 0.16666667)"),
                                     Pattern("mul(mul(x, max(min(add(x, 3), 6), 0)), 0.16666667)")};
  if (const auto match = first_match(kSpelled, rewriter, node))
    return becomes(rewriter, *match, "hard_swish", {match->value("x")});
  const auto match = first_match(kSwish, rewriter, node);
  if (!match) return false;
  const ir::Attributes& attributes = match->node("h").attributes;
  if (!is_close(attributes.real("alpha"), 1.0 / 6) || !is_close(attributes.real("beta"), 0.5)) return false;
  return becomes(rewriter, *match, "hard_swish", {match->value("x")});
}

// The axis from which on a reduction that keeps its dimensions takes all of them; nothing for any other.
std::optional<size_t> trailing_axis(const Rewriter& rewriter, const ir::Node& node) {
  std::vector<int64_t> axes = node.attributes.wholes("axes");
  std::sort(axes.begin(), axes.end());
  const size_t rank = rewriter.type(node.inputs[0]).rank();
  if (axes.empty() || !node.attributes.flag("keep")) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(rank - axes.size() + i)) return std::nullopt;
  return rank - axes.size();
}

Result<bool> spelled_layer_norm(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kCentred(
      "div(sub(x, m:reduce_mean(x)), "
      "sqrt(add(v:reduce_mean(mul(sub(x, m:reduce_mean(x)), sub(x, m:reduce_mean(x)))), ?e)))");
  static const Pattern kPlain("div(x, sqrt(add(v:reduce_mean(mul(x, x)), ?e)))");
  auto match = kCentred.match(rewriter, node);
  const bool is_centred = match.has_value();
  if (!match) match = kPlain.match(rewriter, node);
  if (!match) return false;
  const auto axis = trailing_axis(rewriter, match->node("v"));
  if (!axis || (is_centred && trailing_axis(rewriter, match->node("m")) != axis)) return false;
  return becomes(rewriter, *match, "layer_norm", {match->value("x")},
                 {{"axis", ir::Dim(static_cast<int64_t>(*axis))},
                  {"epsilon", match->number("e")},
                  {"centre", ir::Dim(is_centred)}});
}

// layer_norm(x) * scale, and layer_norm(x, scale) + bias, of constants that repeat along the normalised dimensions.
Result<bool> layer_norm_takes(Rewriter& rewriter, const ir::Node& node) {
  const ir::Node* made = rewriter.maker(node.inputs[0], "layer_norm");
  const bool is_scale = node.op == "mul";
  if (!made || rewriter.uses(node.inputs[0]) > 1 || !rewriter.constant(node.inputs[1])) return false;
  const size_t inputs = made->inputs.size();
  if (is_scale ? inputs > 1 : inputs > 2) return false;
  const ir::Type& x = rewriter.type(made->inputs[0]);
  if (rewriter.type(node.inputs[1]).rank() > x.rank() - made->attributes.dim("axis").fixed()) return false;
  if (!has_same_sizes(rewriter, node.outputs[0], node.inputs[0])) return false;
  std::vector<ir::ValueId> operands;
  for (const ir::ValueId id : made->inputs) operands.push_back(rewriter.now(id));
  if (!is_scale && operands.size() == 1) operands.push_back(ir::kNone);
  operands.push_back(node.inputs[1]);
  const ir::Attributes attributes = made->attributes;
  const ir::Node* both[] = {made, &node};
  QUERN_TRY(const ir::ValueId y, rewriter.builder(both).emit("layer_norm", std::move(operands), attributes));
  rewriter.replace(node.outputs[0], y);
  return true;
}

Result<bool> spelled_softmax(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kSoftmax("div(exp(sub(x, m:reduce_max(x))), s:reduce_sum(exp(sub(x, m:reduce_max(x)))))");
  const auto match = kSoftmax.match(rewriter, node);
  if (!match) return false;
  const ir::Attributes &max = match->node("m").attributes, &sum = match->node("s").attributes;
  const std::vector<int64_t> axes = sum.wholes("axes");
  if (axes.size() != 1 || max.wholes("axes") != axes || !max.flag("keep") || !sum.flag("keep")) return false;
  return becomes(rewriter, *match, "softmax", {match->value("x")}, {{"axis", ir::Dim(axes[0])}});
}

// softmax(q k' * scale + mask) v along the last axis. A transposed k is what attention takes.
Result<bool> spelled_attention(Rewriter& rewriter, const ir::Node& node) {
  static const Pattern kAttention[] = {
      Pattern("o:matmul(s:softmax(add(mul(p:matmul(q, k), ?scale), mask)), v)"),
      Pattern("o:matmul(s:softmax(add(p:matmul(q, k), mask)), v)"),
      Pattern("o:matmul(s:softmax(mul(p:matmul(q, k), ?scale)), v)"),
      Pattern("o:matmul(s:softmax(p:matmul(q, k)), v)"),
  };
  const auto match = first_match(kAttention, rewriter, node);
  if (!match) return false;
  const ir::Node &product = match->node("p"), &result = match->node("o");
  const size_t rank = rewriter.type(product.outputs[0]).rank();
  const auto last = static_cast<int64_t>(rank - 1);
  if (match->node("s").attributes.whole("axis") != last || product.attributes.flag("trans_a") ||
      result.attributes.flag("trans_a") || result.attributes.flag("trans_b"))
    return false;
  const ir::ValueId q = match->value("q"), k = match->value("k"), v = match->value("v");
  // Batches that repeat are left to plain products.
  for (const ir::ValueId id : {k, v}) {
    const ir::Dims &a = rewriter.type(q).dims, &b = rewriter.type(id).dims;
    if (a.size() != b.size() || !std::equal(a.begin(), a.end() - 2, b.begin())) return false;
  }
  if (!is_float(rewriter.type(q).dtype)) return false;
  std::vector<const ir::Node*> nodes(match->all.rbegin(), match->all.rend());
  const ir::ValueId root = node.outputs[0];
  const bool is_transposed = product.attributes.flag("trans_b");
  const bool has_scale = match->numbers.count("scale") != 0, has_mask = match->values.count("mask") != 0;
  op::Builder builder = rewriter.builder(nodes);
  ir::ValueId keys = k;
  if (!is_transposed) {
    std::vector<int64_t> order;
    for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
    std::swap(order[rank - 1], order[rank - 2]);
    QUERN_TRY(keys, builder.transpose(k, order));
  }
  std::vector<ir::ValueId> inputs = {q, keys, v};
  if (has_mask) inputs.push_back(match->value("mask"));
  QUERN_TRY(const ir::ValueId y,
            builder.emit("attention", std::move(inputs), {{"scale", has_scale ? match->number("scale") : 1.0}}));
  rewriter.replace(root, y);
  return true;
}

constexpr Rule kRecogniseRules[] = {
    {"mul", spelled_gelu},       {"mul", spelled_swish},        {"mul", spelled_mish},    {"mul", spelled_hard_sigmoid},
    {"mul", spelled_hard_swish}, {"div", spelled_layer_norm},   {"div", spelled_softmax}, {"mul", layer_norm_takes},
    {"add", layer_norm_takes},   {"matmul", spelled_attention},
};

}  // namespace

Status recognise(ir::Graph& graph) {
  QUERN_TRY(apply_rules(graph, kRecogniseRules));
  return fold(graph);
}

}  // namespace quern::model::pass
