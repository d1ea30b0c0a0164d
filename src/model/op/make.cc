// SPDX-License-Identifier: Apache-2.0
//
// Tensors that are made of sizes rather than of elements: shapes, ranges, triangles, constants.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

// dims: a tensor of sizes; `values` in C order, `shape` are the sizes of the tensor itself.

Result<std::vector<ir::Type>> infer_dims(Site& site) {
  const auto dtype = dtype_of(site.attributes.text("dtype"));
  const ir::Dims& shape = site.attributes.dims("shape");
  if (!dtype || *dtype == Dtype::kBool) return invalid("attribute 'dtype' is no dtype of numbers; give one");
  if (!ir::product_of(shape).is(static_cast<int64_t>(site.attributes.dims("values").size())))
    return invalid("the number of values is not that of the shape; give as many");
  return std::vector{ir::Type{*dtype, shape}};
}

Status reference_dims(Run& run) {
  const std::vector<int64_t> values = run.attributes.wholes("values");
  ir::with_element(run.out().dtype(), [&]<class T>() {
    const auto out = run.out().write<T>();
    if constexpr (!std::same_as<T, ir::Bool>)
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(values[i]);
  });
  return {};
}

std::optional<ir::Dims> contents_dims(const Site& site) { return site.attributes.dims("values"); }

// range: `count` whole numbers from `start` on, every `step`.

Result<std::vector<ir::Type>> infer_range(Site& site) {
  const auto dtype = dtype_of(site.attributes.text("dtype"));
  if (!dtype || *dtype == Dtype::kBool) return invalid("attribute 'dtype' is no dtype of numbers; give one");
  return std::vector{ir::Type{*dtype, {site.attributes.dim("count")}}};
}

Status reference_range(Run& run) {
  const int64_t start = run.attributes.whole("start"), step = run.attributes.whole("step");
  ir::with_element(run.out().dtype(), [&]<class T>() {
    const auto out = run.out().write<T>();
    if constexpr (!std::same_as<T, ir::Bool>)
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(start + static_cast<int64_t>(i) * step);
  });
  return {};
}

// triangle: keeps what lies on or above the k-th diagonal of each matrix (`upper`), or on or below it; the rest is 0.

Result<std::vector<ir::Type>> infer_triangle(Site& site) {
  if (site.type(0).rank() < 2) return invalid("the input has fewer than 2 dimensions; give matrices");
  return std::vector{site.type(0)};
}

Status reference_triangle(Run& run) {
  const int64_t k = run.attributes.whole("k");
  const bool is_upper = run.attributes.flag("upper");
  const ir::Sizes& sizes = run.in(0).sizes();
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  const size_t size = size_of(run.in(0).dtype());
  for (size_t i = 0; i < run.in(0).elements(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t diagonal = at % columns - at / columns % rows;
    if (is_upper ? diagonal >= k : diagonal <= k)
      std::memcpy(run.out().write_bytes().data() + i * size, run.in(0).bytes().data() + i * size, size);
  }
  return {};
}

// Rules of ONNX.

Status import_shape(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const ir::Dims from = node.type(x).dims;
  const auto rank = static_cast<int64_t>(from.size());
  int64_t start = 0, end = rank;
  if (node.version() >= 15) {
    QUERN_TRY(start, node.whole("start", 0));
    QUERN_TRY(end, node.whole("end", rank));
  }
  const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  start = clamped(start);
  end = std::max(start, clamped(end));
  return node.become("dims", {},
                     {{"values", ir::Dims(from.begin() + start, from.begin() + end)},
                      {"shape", ir::Dims{end - start}},
                      {"dtype", std::string("int64")}});
}

Status import_size(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  return node.become("dims", {},
                     {{"values", ir::Dims{ir::product_of(node.type(x).dims)}},
                      {"shape", ir::Dims()},
                      {"dtype", std::string("int64")}});
}

Status import_constant(NodeImport& node) {
  if (node.states("value")) {
    QUERN_TRY(const auto value, node.tensor("value"));
    node.set(0, node.constant(*value));
  } else if (node.states("value_float")) {
    QUERN_TRY(const double value, node.real("value_float"));
    node.set(0, node.constant(ir::Tensor::scalar(static_cast<float>(value))));
  } else if (node.states("value_int")) {
    QUERN_TRY(const int64_t value, node.whole("value_int"));
    node.set(0, node.constant(ir::Tensor::scalar(value)));
  } else if (node.states("value_floats")) {
    QUERN_TRY(const auto values, node.reals("value_floats"));
    const std::vector<float> floats(values->begin(), values->end());
    node.set(0, node.constant(ir::Tensor::of<float>({static_cast<int64_t>(floats.size())}, floats)));
  } else if (node.states("value_ints")) {
    QUERN_TRY(const auto values, node.wholes("value_ints"));
    node.set(0, node.constant(ir::Tensor::list(*values)));
  } else {
    return unsupported("it is neither a dense tensor nor numbers; write it as a tensor");
  }
  return {};
}

Status import_constant_of_shape(NodeImport& node) {
  QUERN_TRY(const ir::Dims shape, node.numbers(0, "the shape"));
  QUERN_TRY(const auto given, node.tensor("value"));
  if (given && given->elements() != 1) return invalid("attribute 'value' has not one element; give one");
  const ir::ValueId value = node.constant(given ? given->reshaped({}) : ir::Tensor::scalar(0.0f));
  QUERN_TRY(const ir::ValueId y, node.broadcast(value, shape));
  node.set(0, y);
  return {};
}

// Floats only as constants: their count is no expression of sizes.
Status import_float_range(NodeImport& node, Dtype dtype) {
  QUERN_TRY(const ir::Tensor start, node.constant_input(0, "the start"));
  QUERN_TRY(const ir::Tensor limit, node.constant_input(1, "the limit"));
  QUERN_TRY(const ir::Tensor step, node.constant_input(2, "the step"));
  if (start.elements() != 1 || limit.elements() != 1 || step.elements() != 1)
    return invalid("start, limit and step are not one number each; give scalars");
  const double count = std::ceil((limit.real(0) - start.real(0)) / step.real(0));
  constexpr double kMostNumbers = 1 << 22;  // they are stored
  if (!(count <= kMostNumbers))
    return invalid(fmt::format("a range of {} floats; the most are {}", count, kMostNumbers));
  ir::Tensor out = ir::Tensor::zeros(dtype, {std::max<int64_t>(static_cast<int64_t>(count), 0)});
  ir::with_element(dtype, [&]<class T>() {
    const auto elements = out.write<T>();
    if constexpr (ir::kIsFloat<T>)
      for (size_t i = 0; i < elements.size(); ++i)
        elements[i] = static_cast<T>(start.real(0) + static_cast<double>(i) * step.real(0));
  });
  node.set(0, node.constant(std::move(out)));
  return {};
}

Status import_range(NodeImport& node) {
  QUERN_TRY(const ir::ValueId first, node.in(0));
  const Dtype dtype = node.type(first).dtype;
  if (is_float(dtype)) return import_float_range(node, dtype);
  QUERN_TRY(const ir::Dims start, node.numbers(0, "the start"));
  QUERN_TRY(const ir::Dims limit, node.numbers(1, "the limit"));
  QUERN_TRY(const std::vector<int64_t> step, node.fixed_numbers(2, "the step"));
  if (start.size() != 1 || limit.size() != 1 || step.size() != 1 || step[0] == 0)
    return invalid("start, limit and step are not one number each, the step not 0; give scalars");
  const ir::Dim count = max(ceil_div(limit[0] - start[0], step[0]), 0);
  return node.become(
      "range", {},
      {{"start", start[0]}, {"step", ir::Dim(step[0])}, {"count", count}, {"dtype", std::string(name_of(dtype))}});
}

Status import_trilu(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const bool is_upper, node.flag("upper", true));
  ir::Dim k = 0;
  if (node.has(1)) {
    QUERN_TRY(const ir::Dims given, node.numbers(1, "the diagonal"));
    if (given.size() != 1) return invalid("the diagonal is not one number; give one");
    k = given[0];
  }
  return node.become("triangle", {x}, {{"k", k}, {"upper", ir::Dim(is_upper)}});
}

// 1 where a row's number plus k is the column's.
Status import_eye_like(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const int64_t k, node.whole("k", 0));
  Dtype dtype = node.type(x).dtype;
  if (node.states("dtype")) {
    QUERN_TRY(const int64_t given, node.whole("dtype"));
    const auto known = given < 0 || given > INT32_MAX ? std::nullopt : onnx::dtype_of(static_cast<int32_t>(given));
    if (!known) return unsupported("attribute 'dtype' names a type that is not supported; give another");
    dtype = *known;
  }
  const ir::Dims from = node.type(x).dims;
  if (from.size() != 2) return invalid("the input has not 2 dimensions; give a matrix");
  const auto numbers = [&](int64_t start, const ir::Dim& count) {
    return node.emit(
        "range", {},
        {{"start", ir::Dim(start)}, {"step", ir::Dim(1)}, {"count", count}, {"dtype", std::string("int64")}});
  };
  QUERN_TRY(ir::ValueId rows, numbers(k, from[0]));
  QUERN_TRY(const ir::ValueId columns, numbers(0, from[1]));
  QUERN_TRY(rows, node.reshape(rows, {from[0], 1}));
  QUERN_TRY(const ir::ValueId is_one, node.emit("equal", {rows, columns}));
  QUERN_TRY(const ir::ValueId y, node.cast(is_one, dtype));
  node.set(0, y);
  return {};
}

// A new axis of `depth`, `on` at the index and `off` elsewhere. Indices count from the end if negative; others hit
// none.
Status import_one_hot(NodeImport& node) {
  QUERN_TRY(ir::ValueId indices, node.in(0));
  QUERN_TRY(const ir::ValueId values, node.in(2));
  QUERN_TRY(const ir::ValueId depth_input, node.in(1));
  QUERN_TRY(indices, node.cast(indices, Dtype::kInt64));
  ir::Dim depth;
  if (is_float(node.type(depth_input).dtype)) {
    QUERN_TRY(const ir::Tensor known, node.constant_input(1, "the depth"));
    if (known.elements() != 1) return invalid("the depth is not one number; give one");
    depth = known.whole(0);
  } else {
    QUERN_TRY(const ir::Dims known, node.numbers(1, "the depth"));
    if (known.size() != 1) return invalid("the depth is not one number; give one");
    depth = known[0];
  }
  const ir::Dims from = node.type(indices).dims;
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", from.size() + 1, -1));
  QUERN_TRY(
      const ir::ValueId numbers,
      node.emit("range", {},
                {{"start", ir::Dim(0)}, {"step", ir::Dim(1)}, {"count", depth}, {"dtype", std::string("int64")}}));
  QUERN_TRY(const ir::ValueId zero,
            node.emit("dims", {}, {{"values", ir::Dims{0}}, {"shape", ir::Dims()}, {"dtype", std::string("int64")}}));
  QUERN_TRY(
      const ir::ValueId size,
      node.emit("dims", {}, {{"values", ir::Dims{depth}}, {"shape", ir::Dims()}, {"dtype", std::string("int64")}}));
  QUERN_TRY(const ir::ValueId is_negative, node.emit("less", {indices, zero}));
  QUERN_TRY(const ir::ValueId from_end, node.emit("add", {indices, size}));
  QUERN_TRY(indices, node.emit("where", {is_negative, from_end, indices}));
  ir::Dims spread = from, along(from.size() + 1, 1);
  spread.insert(spread.begin() + static_cast<ptrdiff_t>(axis), 1);
  along[axis] = depth;
  QUERN_TRY(indices, node.reshape(indices, spread));
  QUERN_TRY(const ir::ValueId columns, node.reshape(numbers, along));
  QUERN_TRY(const ir::ValueId is_hit, node.emit("equal", {indices, columns}));
  const auto value = [&](int64_t i) -> Result<ir::ValueId> {
    QUERN_TRY(const ir::ValueId one,
              node.emit("slice", {values}, {{"starts", ir::Dims{i}}, {"sizes", ir::Dims{1}}, {"steps", ir::Dims{1}}}));
    return node.reshape(one, {});
  };
  QUERN_TRY(const ir::ValueId off, value(0));
  QUERN_TRY(const ir::ValueId on, value(1));
  return node.become("where", {is_hit, on, off});
}

Family make_make_family() {
  Family family;
  family.name = "tensors made of sizes";
  family.operators = {
      {.name = "dims",
       .attributes = {{"values", ir::Dims(), true}, {"shape", ir::Dims(), true}, {"dtype", std::string("int64")}},
       .least_inputs = 0,
       .most_inputs = 0,
       .infer = infer_dims,
       .contents = contents_dims,
       .reference = reference_dims,
       .lower = kernel::any::lower_dims},
      {.name = "range",
       .attributes =
           {{"start", ir::Dim(0)}, {"step", ir::Dim(1)}, {"count", ir::Dim(0), true}, {"dtype", std::string("int64")}},
       .least_inputs = 0,
       .most_inputs = 0,
       .infer = infer_range,
       .reference = reference_range,
       .lower = kernel::any::lower_range},
      {.name = "triangle",
       .attributes = {{"k", ir::Dim(0)}, {"upper", ir::Dim(1)}},
       .infer = infer_triangle,
       .reference = reference_triangle,
       .lower = kernel::any::lower_triangle},
  };
  family.rules = {
      {.op = "Shape", .since = 1, .import = import_shape},
      {.op = "Size", .since = 1, .import = import_size},
      {.op = "Constant", .since = 1, .import = import_constant},
      {.op = "ConstantOfShape", .since = 9, .import = import_constant_of_shape},
      {.op = "Range", .since = 11, .import = import_range},
      {.op = "Trilu", .since = 14, .import = import_trilu},
      {.op = "EyeLike", .since = 9, .import = import_eye_like},
      {.op = "OneHot", .since = 9, .import = import_one_hot},
  };
  return family;
}

}  // namespace

const Family& make_family() {
  static const Family family = make_make_family();
  return family;
}

}  // namespace quern::model::op
