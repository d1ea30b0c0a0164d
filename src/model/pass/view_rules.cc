// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "model/op/walk.h"
#include "model/pass/rules.h"

namespace quern::model::pass {
namespace {

// The value is what it is made of.
bool becomes(Rewriter& rewriter, const ir::Node& node, ir::ValueId id) {
  rewriter.replace(node.outputs[0], id);
  return true;
}

Result<bool> reshape_of_reshape(Rewriter& rewriter, const ir::Node& node) {
  const ir::Dims& shape = node.attributes.dims("shape");
  if (rewriter.type(node.inputs[0]).dims == shape) return becomes(rewriter, node, node.inputs[0]);
  const ir::Node* inner = rewriter.maker(node.inputs[0], "reshape");
  if (!inner) return false;
  const ir::ValueId x = rewriter.now(inner->inputs[0]);
  const ir::Node* both[] = {inner, &node};
  QUERN_TRY(const ir::ValueId y, rewriter.builder(both).reshape(x, shape));
  return becomes(rewriter, node, y);
}

Result<bool> transpose_of_transpose(Rewriter& rewriter, const ir::Node& node) {
  std::vector<int64_t> order = node.attributes.wholes("order");
  if (std::is_sorted(order.begin(), order.end())) return becomes(rewriter, node, node.inputs[0]);
  if (const ir::Node* inner = rewriter.maker(node.inputs[0], "transpose")) {
    const std::vector<int64_t> first = inner->attributes.wholes("order");
    for (int64_t& axis : order) axis = first[static_cast<size_t>(axis)];
    const ir::ValueId x = rewriter.now(inner->inputs[0]);
    const ir::Node* both[] = {inner, &node};
    QUERN_TRY(const ir::ValueId y, rewriter.builder(both).transpose(x, order));
    return becomes(rewriter, node, y);
  }
  // Where only sizes of 1 move, the elements stay where they are.
  const ir::Dims& from = rewriter.type(node.inputs[0]).dims;
  std::erase_if(order, [&](int64_t axis) { return from[static_cast<size_t>(axis)].is(1); });
  if (!std::is_sorted(order.begin(), order.end())) return false;
  QUERN_TRY(const ir::ValueId y, rewriter.builder(node).reshape(node.inputs[0], rewriter.type(node.outputs[0]).dims));
  return becomes(rewriter, node, y);
}

Result<bool> slice_of_all(Rewriter& rewriter, const ir::Node& node) {
  const ir::Dims& steps = node.attributes.dims("steps");
  if (node.attributes.dims("sizes") != rewriter.type(node.inputs[0]).dims) return false;
  for (const ir::Dim& step : steps)
    if (!step.is(1)) return false;
  return becomes(rewriter, node, node.inputs[0]);
}

Result<bool> broadcast_to_same(Rewriter& rewriter, const ir::Node& node) {
  if (node.attributes.dims("shape") != rewriter.type(node.inputs[0]).dims) return false;
  return becomes(rewriter, node, node.inputs[0]);
}

Result<bool> cast_to_same(Rewriter& rewriter, const ir::Node& node) {
  if (rewriter.type(node.inputs[0]).dtype != rewriter.type(node.outputs[0]).dtype) return false;
  return becomes(rewriter, node, node.inputs[0]);
}

Result<bool> concat_of_one(Rewriter& rewriter, const ir::Node& node) {
  if (node.inputs.size() == 1) return becomes(rewriter, node, node.inputs[0]);
  // An empty part adds nothing.
  const auto axis = static_cast<size_t>(node.attributes.whole("axis"));
  std::vector<ir::ValueId> parts;
  for (const ir::ValueId id : node.inputs)
    if (!rewriter.type(id).dims[axis].is(0)) parts.push_back(id);
  if (parts.size() == node.inputs.size() || parts.empty()) return false;
  QUERN_TRY(const ir::ValueId y, rewriter.builder(node).emit("concat", std::move(parts), node.attributes));
  return becomes(rewriter, node, y);
}

Result<bool> pad_by_nothing(Rewriter& rewriter, const ir::Node& node) {
  for (const char* name : {"begins", "ends"})
    for (const ir::Dim& pad : node.attributes.dims(name))
      if (!pad.is(0)) return false;
  return becomes(rewriter, node, node.inputs[0]);
}

constexpr Rule kViewRules[] = {
    {"reshape", reshape_of_reshape}, {"transpose", transpose_of_transpose},
    {"slice", slice_of_all},         {"broadcast", broadcast_to_same},
    {"cast", cast_to_same},          {"concat", concat_of_one},
    {"pad", pad_by_nothing},
};

}  // namespace

std::span<const Rule> view_rules() { return kViewRules; }

}  // namespace quern::model::pass
