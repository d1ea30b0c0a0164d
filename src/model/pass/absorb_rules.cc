// SPDX-License-Identifier: Apache-2.0
//
// What a convolution or matrix product can do on the way: products and sums with constants per output channel become
// part of its weights and bias, pads part of its pads, transposed operands part of its flags. Only where the product
// has no other reader, else it would be computed twice.
#include <algorithm>

#include "model/pass/pattern.h"
#include "model/pass/rules.h"

namespace quern::model::pass {
namespace {

// A constant that repeats along everything but `axis` of a tensor of this rank, as a tensor of rank 1: as many elements
// as the axis, or one.
std::optional<ir::Tensor> per_channel(const ir::Tensor* constant, size_t rank, size_t axis) {
  if (!constant || !is_float(constant->dtype()) || constant->rank() > rank) return std::nullopt;
  const size_t missing = rank - constant->rank();
  for (size_t d = 0; d < constant->rank(); ++d)
    if (missing + d != axis && constant->sizes()[d] != 1) return std::nullopt;
  return constant->reshaped({static_cast<int64_t>(constant->elements())});
}

const ir::Node* only_reader_of(const Rewriter& rewriter, ir::ValueId id, std::string_view op) {
  const ir::Node* made = rewriter.maker(id, op);
  return made && !made->body && rewriter.uses(id) == 1 ? made : nullptr;
}

// [C] as [C, 1, 1, 1] or as [1, C, 1, 1] of weights, a tensor of `rank`.
Result<ir::ValueId> along(op::Builder& builder, const ir::Tensor& channels, size_t rank, size_t axis) {
  ir::Sizes sizes(rank, 1);
  sizes[axis] = static_cast<int64_t>(channels.elements());
  return builder.constant(channels.reshaped(std::move(sizes)));
}

// conv(x, w, b) * c, and conv(x, w, b) + c.
Result<bool> into_conv(Rewriter& rewriter, const ir::Node& node, std::string_view op) {
  const ir::Node* made = only_reader_of(rewriter, node.inputs[0], op);
  if (!made || rewriter.type(node.outputs[0]).dims != rewriter.type(node.inputs[0]).dims) return false;
  const ir::Node conv = *made;
  const ir::ValueId w = rewriter.now(conv.inputs[1]);
  ir::ValueId b = conv.inputs.size() > 2 ? rewriter.now(conv.inputs[2]) : ir::kNone;
  const bool is_product = node.op == "mul", is_plain = op == "conv";
  const size_t rank = rewriter.type(w).rank();
  const auto c = per_channel(rewriter.constant(node.inputs[1]), rank, 1);
  if (!c || !rewriter.constant(w) || (b != ir::kNone && !rewriter.constant(b))) return false;
  // The output channels of a transposed convolution with groups lie along two dimensions of its weights.
  if (!is_plain && is_product && conv.attributes.whole("group") != 1) return false;
  const int64_t channels =
      rewriter.type(node.inputs[0]).dims[1].is_fixed() ? rewriter.type(node.inputs[0]).dims[1].fixed() : -1;
  if (channels < 0) return false;
  const ir::Node* both[] = {made, &node};
  op::Builder builder = rewriter.builder(both);
  std::vector<ir::ValueId> inputs = {rewriter.now(conv.inputs[0]), w};
  const ir::ValueId flat = builder.constant(*c);
  if (is_product) {
    QUERN_TRY(const ir::ValueId factor, along(builder, *c, rank, is_plain ? 0 : 1));
    QUERN_TRY(inputs[1], builder.emit("mul", {w, factor}));
    if (b != ir::kNone) {
      QUERN_TRY(b, builder.emit("mul", {b, flat}));
    }
  } else if (b != ir::kNone) {
    QUERN_TRY(b, builder.emit("add", {b, flat}));
  } else {
    QUERN_TRY(b, builder.broadcast(flat, {channels}));
  }
  if (b != ir::kNone) inputs.push_back(b);
  QUERN_TRY(const ir::ValueId y, builder.emit(conv.op, std::move(inputs), conv.attributes));
  rewriter.replace(node.outputs[0], y);
  return true;
}
Result<bool> into_plain_conv(Rewriter& rewriter, const ir::Node& node) { return into_conv(rewriter, node, "conv"); }
Result<bool> into_transposed_conv(Rewriter& rewriter, const ir::Node& node) {
  return into_conv(rewriter, node, "conv_transpose");
}

// matmul(x, w) * c for weights that are one matrix.
Result<bool> into_matmul(Rewriter& rewriter, const ir::Node& node) {
  const ir::Node* made = only_reader_of(rewriter, node.inputs[0], "matmul");
  if (!made || rewriter.type(node.outputs[0]).dims != rewriter.type(node.inputs[0]).dims) return false;
  const ir::Node matmul = *made;
  const ir::ValueId w = rewriter.now(matmul.inputs[1]);
  const size_t rank = rewriter.type(node.outputs[0]).rank();
  const auto c = per_channel(rewriter.constant(node.inputs[1]), rank, rank - 1);
  if (!c || !rewriter.constant(w) || rewriter.type(w).rank() != 2) return false;
  const ir::Node* both[] = {made, &node};
  op::Builder builder = rewriter.builder(both);
  QUERN_TRY(const ir::ValueId factor, along(builder, *c, 2, matmul.attributes.flag("trans_b") ? 0 : 1));
  QUERN_TRY(const ir::ValueId scaled, builder.emit("mul", {w, factor}));
  QUERN_TRY(const ir::ValueId y, builder.emit("matmul", {rewriter.now(matmul.inputs[0]), scaled}, matmul.attributes));
  rewriter.replace(node.outputs[0], y);
  return true;
}

// conv(pad(x)) with zeros around the space.
Result<bool> pad_into_conv(Rewriter& rewriter, const ir::Node& node) {
  const ir::Node* made = only_reader_of(rewriter, node.inputs[0], "pad");
  if (!made || node.body || made->attributes.text("mode") != "constant") return false;
  if (made->inputs.size() > 1 && number_of(rewriter.constant(made->inputs[1])) != 0.0) return false;
  const ir::Dims begins = made->attributes.dims("begins"), ends = made->attributes.dims("ends");
  for (size_t d = 0; d < 2; ++d)
    if (!begins[d].is(0) || !ends[d].is(0)) return false;
  ir::Attributes attributes = node.attributes;
  ir::Dims pads = attributes.dims("pads");
  const size_t rank = pads.size() / 2;
  for (size_t d = 0; d < rank; ++d) {
    pads[d] = pads[d] + begins[d + 2];
    pads[rank + d] = pads[rank + d] + ends[d + 2];
  }
  attributes.set("pads", pads);
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[0] = rewriter.now(made->inputs[0]);
  const ir::Node* both[] = {made, &node};
  QUERN_TRY(const ir::ValueId y, rewriter.builder(both).emit(node.op, std::move(inputs), attributes));
  rewriter.replace(node.outputs[0], y);
  return true;
}

// matmul of a matrix whose last two dimensions were exchanged before.
Result<bool> transpose_into_matmul(Rewriter& rewriter, const ir::Node& node) {
  for (size_t side = 0; side < 2; ++side) {
    const ir::Node* made = rewriter.maker(node.inputs[side], "transpose");
    if (!made || node.body) continue;
    std::vector<int64_t> order = made->attributes.wholes("order");
    if (order.size() < 2) continue;
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    if (!std::is_sorted(order.begin(), order.end())) continue;
    ir::Attributes attributes = node.attributes;
    const char* flag = side == 0 ? "trans_a" : "trans_b";
    attributes.set(flag, ir::Dim(!attributes.flag(flag)));
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[side] = rewriter.now(made->inputs[0]);
    const ir::Node* both[] = {made, &node};
    QUERN_TRY(const ir::ValueId y, rewriter.builder(both).emit("matmul", std::move(inputs), attributes));
    rewriter.replace(node.outputs[0], y);
    return true;
  }
  return false;
}

constexpr Rule kAbsorbRules[] = {
    {"mul", into_plain_conv},          {"add", into_plain_conv}, {"mul", into_transposed_conv},
    {"add", into_transposed_conv},     {"mul", into_matmul},     {"conv", pad_into_conv},
    {"matmul", transpose_into_matmul},
};

}  // namespace

std::span<const Rule> absorb_rules() { return kAbsorbRules; }

}  // namespace quern::model::pass
