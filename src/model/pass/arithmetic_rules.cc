// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "model/pass/pattern.h"
#include "model/pass/rules.h"

namespace quern::model::pass {
namespace {

bool is_float_value(const Rewriter& rewriter, ir::ValueId id) { return is_float(rewriter.type(id).dtype); }

// A node may become one of its inputs if that has the sizes of the result.
bool becomes_input(Rewriter& rewriter, const ir::Node& node, ir::ValueId id) {
  if (rewriter.type(id).dims != rewriter.type(node.outputs[0]).dims) return false;
  rewriter.replace(node.outputs[0], id);
  return true;
}

Result<bool> becomes_node(Rewriter& rewriter, const ir::Node& node, std::string_view op,
                          std::vector<ir::ValueId> inputs) {
  QUERN_TRY(const ir::ValueId y, rewriter.builder(node).emit(op, std::move(inputs)));
  rewriter.replace(node.outputs[0], y);
  return true;
}

bool commutes(std::string_view op) { return op == "add" || op == "mul" || op == "min" || op == "max"; }

// Constants stand on the right.
Result<bool> constant_to_the_right(Rewriter& rewriter, const ir::Node& node) {
  if (!commutes(node.op) || !rewriter.constant(node.inputs[0]) || rewriter.constant(node.inputs[1])) return false;
  return becomes_node(rewriter, node, node.op, {node.inputs[1], node.inputs[0]});
}

Result<bool> neutral_constant(Rewriter& rewriter, const ir::Node& node) {
  const auto number = number_of(rewriter.constant(node.inputs[1]));
  if (!number) return false;
  const double neutral = node.op == "mul" || node.op == "div" || node.op == "pow" ? 1 : 0;
  return *number == neutral && becomes_input(rewriter, node, node.inputs[0]);
}

// x - c is x + -c, and x / c is x * (1 / c).
Result<bool> inverse_constant(Rewriter& rewriter, const ir::Node& node) {
  const ir::Tensor* constant = rewriter.constant(node.inputs[1]);
  if (!constant || rewriter.constant(node.inputs[0]) || !is_float_value(rewriter, node.inputs[0])) return false;
  const bool is_product = node.op == "div";
  ir::Tensor inverse = ir::Tensor::zeros(constant->dtype(), constant->sizes());
  bool is_finite = true;
  ir::with_element(constant->dtype(), [&]<class T>() {
    if constexpr (ir::kIsFloat<T>) {
      const auto to = inverse.write<T>();
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = static_cast<T>(is_product ? 1 / constant->real(i) : -constant->real(i));
        is_finite = is_finite && std::isfinite(static_cast<float>(to[i]));
      }
    }
  });
  if (!is_finite) return false;  // 1 / c overflows, or c is 0
  op::Builder builder = rewriter.builder(node);
  const ir::ValueId right = builder.constant(std::move(inverse));
  QUERN_TRY(const ir::ValueId y, builder.emit(is_product ? "mul" : "add", {node.inputs[0], right}));
  rewriter.replace(node.outputs[0], y);
  return true;
}

Result<bool> power_of_small_number(Rewriter& rewriter, const ir::Node& node) {
  const auto exponent = number_of(rewriter.constant(node.inputs[1]));
  const ir::ValueId x = node.inputs[0];
  if (!exponent || rewriter.type(x).dims != rewriter.type(node.outputs[0]).dims) return false;
  if (*exponent == 2) return becomes_node(rewriter, node, "mul", {x, x});
  if (!is_float_value(rewriter, x)) return false;
  if (*exponent == 0.5) return becomes_node(rewriter, node, "sqrt", {x});
  if (*exponent == -1) return becomes_node(rewriter, node, "reciprocal", {x});
  return false;
}

// (x * c) * d is x * (c * d); the same for add, min and max. Floats of add and mul are rounded differently then.
Result<bool> join_constants(Rewriter& rewriter, const ir::Node& node) {
  if (!commutes(node.op) || !rewriter.constant(node.inputs[1])) return false;
  const ir::Node* inner = rewriter.maker(node.inputs[0], node.op);
  if (!inner || inner->body || !rewriter.constant(inner->inputs[1]) || rewriter.constant(inner->inputs[0]))
    return false;
  const ir::ValueId x = rewriter.now(inner->inputs[0]), c = rewriter.now(inner->inputs[1]);
  const ir::Node* both[] = {inner, &node};
  op::Builder builder = rewriter.builder(both);
  QUERN_TRY(const ir::ValueId joined, builder.emit(node.op, {c, node.inputs[1]}));
  if (!rewriter.graph().constant(joined)) return false;  // too large to be computed here
  QUERN_TRY(const ir::ValueId y, builder.emit(node.op, {x, joined}));
  rewriter.replace(node.outputs[0], y);
  return true;
}

// (x * c) * y is (x * y) * c for a single number c: products of the same factors get one form.
Result<bool> number_outside(Rewriter& rewriter, const ir::Node& node) {
  if (rewriter.constant(node.inputs[1])) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ir::Node* inner = rewriter.maker(node.inputs[side], "mul");
    if (!inner || inner->body || !number_of(rewriter.constant(inner->inputs[1])) ||
        rewriter.uses(node.inputs[side]) > 1)
      continue;
    const ir::ValueId x = rewriter.now(inner->inputs[0]), c = rewriter.now(inner->inputs[1]),
                      other = node.inputs[1 - side];
    // Not where the number would be multiplied into a larger tensor than before.
    if (rewriter.constant(x) || rewriter.type(x).dims != rewriter.type(node.outputs[0]).dims ||
        rewriter.type(c).rank() > 0)
      continue;
    const ir::Node* both[] = {inner, &node};
    op::Builder builder = rewriter.builder(both);
    QUERN_TRY(const ir::ValueId product, builder.emit("mul", {x, other}));
    QUERN_TRY(const ir::ValueId y, builder.emit("mul", {product, c}));
    rewriter.replace(node.outputs[0], y);
    return true;
  }
  return false;
}

Result<bool> max_with_zero(Rewriter& rewriter, const ir::Node& node) {
  if (number_of(rewriter.constant(node.inputs[1])) != 0.0) return false;
  if (rewriter.type(node.inputs[0]).dims != rewriter.type(node.outputs[0]).dims) return false;
  return becomes_node(rewriter, node, "relu", {node.inputs[0]});
}

Result<bool> one_over(Rewriter& rewriter, const ir::Node& node) {
  if (number_of(rewriter.constant(node.inputs[0])) != 1.0 || !is_float_value(rewriter, node.inputs[1])) return false;
  if (rewriter.type(node.inputs[1]).dims != rewriter.type(node.outputs[0]).dims) return false;
  return becomes_node(rewriter, node, "reciprocal", {node.inputs[1]});
}

// x * (1 / y) is x / y.
Result<bool> times_reciprocal(Rewriter& rewriter, const ir::Node& node) {
  for (size_t side = 0; side < 2; ++side) {
    const ir::Node* inner = rewriter.maker(node.inputs[side], "reciprocal");
    if (!inner || rewriter.uses(node.inputs[side]) > 1) continue;
    const ir::ValueId y = rewriter.now(inner->inputs[0]);
    return becomes_node(rewriter, node, "div", {node.inputs[1 - side], y});
  }
  return false;
}

// A number stands for itself in any sizes that the other operand has.
Result<bool> number_without_sizes(Rewriter& rewriter, const ir::Node& node) {
  if (!is_elementwise(node)) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ir::Tensor* constant = rewriter.constant(node.inputs[i]);
    if (!constant || constant->rank() == 0 || !number_of(constant)) continue;
    bool keeps_sizes = false;
    for (size_t j = 0; j < node.inputs.size(); ++j)
      keeps_sizes =
          keeps_sizes || (j != i && rewriter.type(node.inputs[j]).dims == rewriter.type(node.outputs[0]).dims);
    if (!keeps_sizes) continue;
    const size_t size = size_of(constant->dtype());
    const auto first = constant->bytes().first(size);
    op::Builder builder = rewriter.builder(node);
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[i] = builder.constant(ir::Tensor::own(constant->dtype(), {}, Bytes(first.begin(), first.end())));
    QUERN_TRY(const ir::ValueId y, builder.emit(node.op, std::move(inputs), node.attributes));
    rewriter.replace(node.outputs[0], y);
    return true;
  }
  return false;
}

// What is repeated only to meet a tensor of those sizes need not be.
Result<bool> operand_repeats_itself(Rewriter& rewriter, const ir::Node& node) {
  if (!is_elementwise(node)) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ir::Node* inner = rewriter.maker(node.inputs[i], "broadcast");
    if (!inner) continue;
    bool keeps_sizes = false;
    for (size_t j = 0; j < node.inputs.size(); ++j)
      keeps_sizes =
          keeps_sizes || (j != i && rewriter.type(node.inputs[j]).dims == rewriter.type(node.outputs[0]).dims);
    if (!keeps_sizes) continue;
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[i] = rewriter.now(inner->inputs[0]);
    QUERN_TRY(const ir::ValueId y, rewriter.builder(node).emit(node.op, std::move(inputs), node.attributes));
    rewriter.replace(node.outputs[0], y);
    return true;
  }
  return false;
}

constexpr Rule kArithmeticRules[] = {
    {"", operand_repeats_itself},   {"", number_without_sizes},
    {"add", constant_to_the_right}, {"mul", constant_to_the_right},
    {"min", constant_to_the_right}, {"max", constant_to_the_right},
    {"add", neutral_constant},      {"sub", neutral_constant},
    {"mul", neutral_constant},      {"div", neutral_constant},
    {"pow", neutral_constant},      {"sub", inverse_constant},
    {"div", inverse_constant},      {"div", one_over},
    {"pow", power_of_small_number}, {"mul", times_reciprocal},
    {"max", max_with_zero},         {"add", join_constants},
    {"mul", join_constants},        {"min", join_constants},
    {"max", join_constants},        {"mul", number_outside},
};

}  // namespace

std::span<const Rule> arithmetic_rules() { return kArithmeticRules; }

}  // namespace quern::model::pass
