// SPDX-License-Identifier: Apache-2.0
//
// Elements seen against those beside them: softmax and its logarithm along one axis, and layer_norm, which takes the
// mean out of trailing dimensions and divides by their deviation. Batch, instance and group normalisation are
// arithmetic around them. Everything is computed in double.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

Result<std::vector<ir::Type>> infer_softmax(Site& site) {
  if (!is_float(site.type(0).dtype))
    return unsupported(
        fmt::format("{} of {} is not supported; cast it to a float", site.op, name_of(site.type(0).dtype)));
  QUERN_TRY(NodeImport::axis(site.attributes.whole("axis"), site.type(0).rank()));
  return std::vector{site.type(0)};
}

Status reference_softmax(Run& run) {
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  ir::Sizes lines = run.in(0).sizes();
  const std::vector<int64_t> strides = strides_of(lines);
  const int64_t length = std::exchange(lines[axis], 1), stride = strides[axis];
  const bool is_log = run.op == "log_softmax";
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    if constexpr (ir::kIsFloat<T>) {
      const auto x = run.in(0).read<T>();
      const auto y = run.out().write<T>();
      walk(lines, std::array{strides}, [&](size_t, const auto& at) {
        const auto place = [&](int64_t i) { return static_cast<size_t>(at[0] + i * stride); };
        const auto element = [&](int64_t i) { return static_cast<double>(static_cast<ir::Computed<T>>(x[place(i)])); };
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t i = 0; i < length; ++i) largest = std::max(largest, element(i));
        for (int64_t i = 0; i < length; ++i) sum += std::exp(element(i) - largest);
        for (int64_t i = 0; i < length; ++i)
          y[place(i)] =
              static_cast<T>(is_log ? element(i) - largest - std::log(sum) : std::exp(element(i) - largest) / sum);
      });
    }
  });
  return {};
}

// layer_norm: the dimensions from `axis` on are one group. Scale and bias, which may be left out, repeat along the
// input. Without `centre` the mean stays, and the deviation is from 0.

Result<std::vector<ir::Type>> infer_layer_norm(Site& site) {
  const ir::Type& x = site.type(0);
  if (!is_float(x.dtype))
    return unsupported(fmt::format("layer_norm of {} is not supported; cast it to a float", name_of(x.dtype)));
  QUERN_TRY(NodeImport::axis(site.attributes.whole("axis"), x.rank()));
  for (size_t i = 1; i < 3; ++i) {
    if (!site.has(i)) continue;
    const ir::Dims& dims = site.dims(i);
    bool fits = dims.size() <= x.rank() && site.type(i).dtype == x.dtype;
    for (size_t d = 0; fits && d < dims.size(); ++d)
      fits = dims[d].is(1) || site.same(dims[d], x.dims[x.rank() - dims.size() + d]);
    if (!fits)
      return invalid(fmt::format("its scale or bias {} does not repeat along {}; give one that does",
                                 ir::show_type(site.type(i)), ir::show_type(x)));
  }
  return std::vector{x};
}

Status reference_layer_norm(Run& run) {
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const double epsilon = run.attributes.real("epsilon");
  const bool is_centred = run.attributes.flag("centre");
  const ir::Sizes& sizes = run.in(0).sizes();
  size_t group = 1;
  for (size_t d = axis; d < sizes.size(); ++d) group *= static_cast<size_t>(sizes[d]);
  if (group == 0) return {};
  const ir::Sizes none(sizes.size(), 1);
  const std::array strides{repeated_strides(run.has(1) ? run.in(1).sizes() : none, sizes),
                           repeated_strides(run.has(2) ? run.in(2).sizes() : none, sizes)};
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    if constexpr (ir::kIsFloat<T>) {
      const auto x = run.in(0).read<T>();
      const auto y = run.out().write<T>();
      const auto element = [&](size_t i) { return static_cast<double>(static_cast<ir::Computed<T>>(x[i])); };
      double mean = 0, factor = 0;
      walk(sizes, strides, [&](size_t i, const auto& at) {
        if (i % group == 0) {
          double sum = 0, squares = 0;
          for (size_t k = 0; k < group; ++k) sum += element(i + k);
          mean = is_centred ? sum / static_cast<double>(group) : 0;
          for (size_t k = 0; k < group; ++k) squares += (element(i + k) - mean) * (element(i + k) - mean);
          factor = 1 / std::sqrt(squares / static_cast<double>(group) + epsilon);
        }
        double value = (element(i) - mean) * factor;
        if (run.has(1)) value *= run.in(1).real(static_cast<size_t>(at[0]));
        if (run.has(2)) value += run.in(2).real(static_cast<size_t>(at[1]));
        y[i] = static_cast<T>(value);
      });
    }
  });
  return {};
}

// Rules of ONNX.

Status import_softmax(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const std::string_view op = node.op() == "Softmax" ? "softmax" : "log_softmax";
  const ir::Dims dims = node.type(x).dims;
  const bool is_flattened = node.version() < 13;
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", dims.size(), is_flattened ? 1 : -1));
  // Before version 13 all dimensions from the axis on are one.
  if (!is_flattened || axis + 1 == dims.size())
    return node.become(op, {x}, {{"axis", ir::Dim(static_cast<int64_t>(axis))}});
  const auto middle = dims.begin() + static_cast<ptrdiff_t>(axis);
  QUERN_TRY(ir::ValueId y, node.reshape(x, {ir::product_of(ir::Dims(dims.begin(), middle)),
                                            ir::product_of(ir::Dims(middle, dims.end()))}));
  QUERN_TRY(y, node.emit(op, {y}, {{"axis", ir::Dim(1)}}));
  QUERN_TRY(y, node.reshape(y, dims));
  node.set(0, y);
  return {};
}

// Sizes that repeat a value per channel along a tensor of this rank: [C, 1, 1].
ir::Dims per_channel(const ir::Dim& channels, size_t rank) {
  ir::Dims out(rank - 1, 1);
  out[0] = channels;
  return out;
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias, written as one factor and one summand per channel, both of them
// constants where the four are.
Status import_batch_norm(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(ir::ValueId scale, node.in(1));
  QUERN_TRY(ir::ValueId bias, node.in(2));
  QUERN_TRY(ir::ValueId mean, node.in(3));
  QUERN_TRY(ir::ValueId variance, node.in(4));
  QUERN_TRY(const double epsilon, node.real("epsilon", 1e-5));
  node.ignore("momentum");  // is about training
  if (node.version() < 9) {
    QUERN_TRY(const int64_t spatial, node.whole("spatial", 1));
    if (spatial != 1) return unsupported("attribute 'spatial' is 0; normalise per channel");
  }
  if (node.version() >= 14) {
    QUERN_TRY(const bool trains, node.flag("training_mode", false));
    if (trains) return unsupported("training is not supported; export the model for inference");
  }
  const size_t rank = node.rank(x);
  if (rank < 2) return invalid("the input has fewer than 2 dimensions; give batch and channels");
  for (const ir::ValueId id : {scale, bias, mean, variance}) {
    if (node.rank(id) != 1)
      return invalid("scale, bias, mean and variance have not one dimension; give one per channel");
    QUERN_TRY(node.require(node.type(id).dims[0], node.type(x).dims[1], "the channels"));
  }
  const Dtype dtype = node.type(x).dtype;
  const Dtype wide = node.type(variance).dtype;
  QUERN_TRY(ir::ValueId factor, node.emit("add", {variance, node.number(wide, epsilon)}));
  QUERN_TRY(factor, node.emit("sqrt", {factor}));
  QUERN_TRY(scale, node.cast(scale, wide));
  QUERN_TRY(bias, node.cast(bias, wide));
  QUERN_TRY(factor, node.emit("div", {scale, factor}));
  QUERN_TRY(mean, node.emit("mul", {mean, factor}));
  QUERN_TRY(ir::ValueId summand, node.emit("sub", {bias, mean}));
  const ir::Dims shape = per_channel(node.type(x).dims[1], rank);
  QUERN_TRY(factor, node.cast(factor, dtype));
  QUERN_TRY(summand, node.cast(summand, dtype));
  QUERN_TRY(factor, node.reshape(factor, shape));
  QUERN_TRY(summand, node.reshape(summand, shape));
  QUERN_TRY(const ir::ValueId y, node.emit("mul", {x, factor}));
  return node.become("add", {y, summand});
}

Status import_layer_norm(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId scale, node.in(1));
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", node.rank(x), -1));
  QUERN_TRY(const double epsilon, node.real("epsilon", 1e-5));
  const bool is_centred = node.op() == "LayerNormalization";
  node.ignore("stash_type");  // a matter of precision: ours is never less than fp32
  std::vector<ir::ValueId> inputs = {x, scale};
  if (node.has(2)) inputs.push_back(node.in_or_none(2));
  QUERN_TRY(node.become(
      "layer_norm", std::move(inputs),
      {{"axis", ir::Dim(static_cast<int64_t>(axis))}, {"epsilon", epsilon}, {"centre", ir::Dim(is_centred)}}));
  if (!node.wants(1) && !node.wants(2)) return {};
  // Mean and inverse deviation are for training; they are computed apart.
  ir::Dims axes;
  for (size_t d = axis; d < node.rank(x); ++d) axes.push_back(static_cast<int64_t>(d));
  const auto mean_of = [&](ir::ValueId of) {
    return node.emit("reduce_mean", {of}, {{"axes", axes}, {"keep", ir::Dim(1)}});
  };
  QUERN_TRY(const ir::ValueId wide, node.cast(x, Dtype::kFp32));
  QUERN_TRY(const ir::ValueId mean, mean_of(wide));
  node.set(1, mean);
  if (!node.wants(2)) return {};
  QUERN_TRY(ir::ValueId deviation, node.emit("sub", {wide, mean}));
  QUERN_TRY(deviation, node.emit("mul", {deviation, deviation}));
  QUERN_TRY(deviation, mean_of(deviation));
  QUERN_TRY(deviation, node.emit("add", {deviation, node.number(Dtype::kFp32, epsilon)}));
  QUERN_TRY(deviation, node.emit("sqrt", {deviation}));
  QUERN_TRY(deviation, node.emit("reciprocal", {deviation}));
  node.set(2, deviation);
  return {};
}

// Groups of channels with all their space are normalised as rows; then come a factor and a summand per channel.
Status import_grouped_norm(NodeImport& node, const ir::Dim& groups, bool is_scaled_per_group) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(ir::ValueId scale, node.in(1));
  QUERN_TRY(ir::ValueId bias, node.in(2));
  QUERN_TRY(const double epsilon, node.real("epsilon", 1e-5));
  const ir::Dims dims = node.type(x).dims;
  if (dims.size() < 3) return invalid("the input has fewer than 3 dimensions; give batch, channels and space");
  const ir::Dim row = floor_div(ir::product_of(ir::Dims(dims.begin() + 1, dims.end())), groups);
  QUERN_TRY(ir::ValueId y, node.reshape(x, {dims[0], groups, row}));
  QUERN_TRY(y, node.emit("layer_norm", {y}, {{"axis", ir::Dim(2)}, {"epsilon", epsilon}}));
  const ir::Dims shape = is_scaled_per_group ? ir::Dims{groups, 1} : per_channel(dims[1], dims.size());
  QUERN_TRY(scale, node.reshape(scale, shape));
  QUERN_TRY(bias, node.reshape(bias, shape));
  if (!is_scaled_per_group) {
    QUERN_TRY(y, node.reshape(y, dims));
  }
  QUERN_TRY(y, node.emit("mul", {y, scale}));
  QUERN_TRY(y, node.emit("add", {y, bias}));
  QUERN_TRY(y, node.reshape(y, dims));
  node.set(0, y);
  return {};
}
Status import_instance_norm(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  if (node.rank(x) < 2) return invalid("the input has fewer than 3 dimensions; give batch, channels and space");
  return import_grouped_norm(node, node.type(x).dims[1], false);
}
Status import_group_norm(NodeImport& node) {
  QUERN_TRY(const int64_t groups, node.whole("num_groups"));
  if (groups < 1) return invalid("attribute 'num_groups' is below 1; give at least one group");
  node.ignore("stash_type");
  return import_grouped_norm(node, groups, node.version() < 21);
}

// (x - mean) / (deviation + 1e-9) over the axes.
Status import_mean_variance_norm(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const auto given, node.wholes("axes"));
  QUERN_TRY(const auto axes, NodeImport::axes(given.value_or(std::vector<int64_t>{0, 2, 3}), node.rank(x)));
  const auto mean_of = [&](ir::ValueId of) {
    return node.emit("reduce_mean", {of}, {{"axes", ir::dims_of(axes)}, {"keep", ir::Dim(1)}});
  };
  QUERN_TRY(const ir::ValueId mean, mean_of(x));
  QUERN_TRY(const ir::ValueId centred, node.emit("sub", {x, mean}));
  QUERN_TRY(ir::ValueId deviation, node.emit("mul", {centred, centred}));
  QUERN_TRY(deviation, mean_of(deviation));
  QUERN_TRY(deviation, node.emit("sqrt", {deviation}));
  QUERN_TRY(deviation, node.emit("add", {deviation, node.number(node.type(x).dtype, 1e-9)}));
  return node.become("div", {centred, deviation});
}

// x over its norm of order 1 or 2 along an axis; where that is 0 the result is 0.
Status import_lp_norm(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", node.rank(x), -1));
  QUERN_TRY(const int64_t p, node.whole("p", 2));
  if (p != 1 && p != 2) return unsupported(fmt::format("attribute 'p' is {}; give 1 or 2", p));
  QUERN_TRY(ir::ValueId norm, p == 1 ? node.emit("abs", {x}) : node.emit("mul", {x, x}));
  QUERN_TRY(norm,
            node.emit("reduce_sum", {norm}, {{"axes", ir::Dims{static_cast<int64_t>(axis)}}, {"keep", ir::Dim(1)}}));
  if (p == 2) {
    QUERN_TRY(norm, node.emit("sqrt", {norm}));
  }
  const ir::ValueId zero = node.number(node.type(x).dtype, 0), one = node.number(node.type(x).dtype, 1);
  QUERN_TRY(const ir::ValueId is_zero, node.emit("equal", {norm, zero}));
  QUERN_TRY(norm, node.emit("where", {is_zero, one, norm}));
  return node.become("div", {x, norm});
}

// x / (bias + alpha * mean of squares over `size` channels) ^ beta, where channels outside count as 0. The mean is a
// pool over channels, seen as the height of a picture.
Status import_lrn(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const double alpha, node.real("alpha", 1e-4));
  QUERN_TRY(const double beta, node.real("beta", 0.75));
  QUERN_TRY(const double bias, node.real("bias", 1));
  QUERN_TRY(const int64_t size, node.whole("size"));
  const ir::Dims dims = node.type(x).dims;
  if (dims.size() < 2 || size < 1)
    return invalid("the input has fewer than 2 dimensions, or size is below 1; correct it");
  const Dtype dtype = node.type(x).dtype;
  const ir::Dim space = ir::product_of(ir::Dims(dims.begin() + 2, dims.end()));
  QUERN_TRY(ir::ValueId y, node.emit("mul", {x, x}));
  QUERN_TRY(y, node.reshape(y, {dims[0], 1, dims[1], space}));
  QUERN_TRY(y, node.emit("average_pool", {y},
                         {{"kernel", ir::Dims{size, 1}},
                          {"strides", ir::Dims{1, 1}},
                          {"dilations", ir::Dims{1, 1}},
                          {"pads", ir::Dims{(size - 1) / 2, 0, size / 2, 0}},
                          {"sizes", ir::Dims{dims[1], space}},
                          {"count_pads", ir::Dim(1)}}));
  QUERN_TRY(y, node.reshape(y, dims));
  QUERN_TRY(y, node.emit("mul", {y, node.number(dtype, alpha)}));
  QUERN_TRY(y, node.emit("add", {y, node.number(dtype, bias)}));
  QUERN_TRY(y, node.emit("pow", {y, node.number(dtype, beta)}));
  return node.become("div", {x, y});
}

Family make_normalise_family() {
  Family family;
  family.name = "elements against those beside them";
  for (const std::string_view name : {"softmax", "log_softmax"})
    family.operators.push_back({.name = name,
                                .attributes = {{"axis", ir::Dim(0), true}},
                                .infer = infer_softmax,
                                .reference = reference_softmax,
                                .lower = kernel::any::lower_softmax});
  family.operators.push_back({.name = "layer_norm",
                              .attributes = {{"axis", ir::Dim(0), true}, {"epsilon", 1e-5}, {"centre", ir::Dim(1)}},
                              .most_inputs = 3,
                              .infer = infer_layer_norm,
                              .reference = reference_layer_norm,
                              .lower = kernel::any::lower_layer_norm});
  family.rules = {
      {.op = "Softmax", .since = 1, .import = import_softmax},
      {.op = "LogSoftmax", .since = 1, .import = import_softmax},
      {.op = "BatchNormalization", .since = 7, .import = import_batch_norm},
      {.op = "LayerNormalization", .since = 17, .import = import_layer_norm},
      {.op = "RMSNormalization", .since = 23, .import = import_layer_norm},
      {.op = "InstanceNormalization", .since = 6, .import = import_instance_norm},
      {.op = "GroupNormalization", .since = 18, .import = import_group_norm},
      {.op = "MeanVarianceNormalization", .since = 9, .import = import_mean_variance_norm},
      {.op = "LpNormalization", .since = 1, .import = import_lp_norm},
      {.op = "LRN", .since = 1, .import = import_lrn},
  };
  return family;
}

}  // namespace

const Family& normalise_family() {
  static const Family family = make_normalise_family();
  return family;
}

}  // namespace quern::model::op
