// SPDX-License-Identifier: Apache-2.0
//
// Losses, which some models have at their end. They are made of other operators and have none of their own.
#include <fmt/format.h>

#include "model/op/families.h"
#include "model/op/node_import.h"

namespace quern::model::op {
namespace {

// The loss of log-probabilities [batch, classes, …] for classes [batch, …].
Result<ir::ValueId> emit_loss(NodeImport& node, ir::ValueId logs, ir::ValueId target, ir::ValueId weights) {
  const ir::Dims dims = node.type(logs).dims;
  const Dtype dtype = node.type(logs).dtype, of_target = node.type(target).dtype;
  if (dims.size() < 2 || node.rank(target) + 1 != dims.size())
    return invalid(fmt::format("scores {} and classes {} do not fit; give a class for each place", ir::show_dims(dims),
                               ir::show_dims(node.type(target).dims)));
  QUERN_TRY(const std::string reduction, node.text("reduction", "mean"));
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return invalid(fmt::format("attribute 'reduction' is '{}'; give none, sum or mean", reduction));
  ir::ValueId is_ignored = ir::kNone;
  if (node.states("ignore_index")) {
    QUERN_TRY(const int64_t ignored, node.whole("ignore_index"));
    const ir::ValueId one = node.number(of_target, static_cast<double>(ignored)), none = node.number(of_target, 0);
    QUERN_TRY(is_ignored, node.emit("equal", {target, one}));
    QUERN_TRY(target, node.emit("where", {is_ignored, none, target}));
  }
  const ir::ValueId zero = node.number(dtype, 0);
  ir::Dims one_class = dims;
  one_class[1] = 1;
  const ir::Dims places = node.type(target).dims;
  QUERN_TRY(const ir::ValueId index, node.reshape(target, one_class));
  QUERN_TRY(ir::ValueId loss, node.emit("gather_elements", {logs, index}, {{"axis", ir::Dim(1)}}));
  QUERN_TRY(loss, node.reshape(loss, places));
  QUERN_TRY(loss, node.emit("neg", {loss}));
  ir::ValueId weight = ir::kNone;
  if (weights != ir::kNone) {
    QUERN_TRY(weight, node.emit("gather", {weights, target}, {{"axis", ir::Dim(0)}}));
  } else if (reduction == "mean" || is_ignored != ir::kNone) {
    QUERN_TRY(weight, node.broadcast(node.number(dtype, 1), places));
  }
  if (is_ignored != ir::kNone) {
    QUERN_TRY(weight, node.emit("where", {is_ignored, zero, weight}));
  }
  if (weight != ir::kNone) {
    QUERN_TRY(loss, node.emit("mul", {loss, weight}));
  }
  if (reduction == "none") return loss;
  ir::Dims axes;
  for (size_t d = 0; d < places.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  const ir::Attributes all{{"axes", axes}, {"keep", ir::Dim(0)}};
  QUERN_TRY(loss, node.emit("reduce_sum", {loss}, all));
  if (reduction == "sum") return loss;
  QUERN_TRY(const ir::ValueId sum, node.emit("reduce_sum", {weight}, all));
  return node.emit("div", {loss, sum});
}

Status import_loss(NodeImport& node) {
  QUERN_TRY(ir::ValueId scores, node.in(0));
  QUERN_TRY(const ir::ValueId target, node.in(1));
  if (node.op() == "SoftmaxCrossEntropyLoss") {
    QUERN_TRY(scores, node.emit("log_softmax", {scores}, {{"axis", ir::Dim(1)}}));
    node.set(1, scores);
  }
  QUERN_TRY(const ir::ValueId loss, emit_loss(node, scores, target, node.in_or_none(2)));
  node.set(0, loss);
  return {};
}

}  // namespace

const Family& loss_family() {
  static const Family family{"losses",
                             {},
                             {{.op = "NegativeLogLikelihoodLoss", .since = 12, .import = import_loss},
                              {.op = "SoftmaxCrossEntropyLoss", .since = 12, .import = import_loss}}};
  return family;
}

}  // namespace quern::model::op
