// SPDX-License-Identifier: Apache-2.0
//
// The largest or smallest along an axis, and where they are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

// Whether element a comes before b: larger ones, or smaller ones, first. NaN counts as the largest.
template <class T>
bool precedes(T a, T b, bool largest) {
  if constexpr (ir::kIsFloat<T>) {
    const auto x = static_cast<double>(static_cast<ir::Computed<T>>(a));
    const auto y = static_cast<double>(static_cast<ir::Computed<T>>(b));
    if (std::isnan(x) || std::isnan(y))
      return largest ? std::isnan(x) && !std::isnan(y) : !std::isnan(x) && std::isnan(y);
    return largest ? x > y : x < y;
  } else {
    const auto x = static_cast<ir::Computed<T>>(a), y = static_cast<ir::Computed<T>>(b);
    return largest ? x > y : x < y;
  }
}

// arg_max and arg_min: the index of the extreme, the first or the last of several equal ones.

Result<std::vector<ir::Type>> infer_arg(Site& site) {
  const ir::Type& in = site.type(0);
  QUERN_TRY(const size_t axis, NodeImport::axis(site.attributes.whole("axis"), in.rank()));
  if (in.dtype == Dtype::kBool) return unsupported(fmt::format("{} of bools is not supported; cast them", site.op));
  if (in.dims[axis].is(0)) return invalid("the axis has no elements; give a larger input");
  ir::Type out{Dtype::kInt64, in.dims};
  if (site.attributes.flag("keep"))
    out.dims[axis] = 1;
  else
    out.dims.erase(out.dims.begin() + static_cast<ptrdiff_t>(axis));
  return std::vector{std::move(out)};
}

Status reference_arg(Run& run) {
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const bool is_largest = run.op == "arg_max", is_last = run.attributes.flag("last");
  ir::Sizes lines = run.in(0).sizes();
  const int64_t length = std::exchange(lines[axis], 1), stride = strides_of(run.in(0).sizes())[axis];
  const auto out = run.out().write<int64_t>();
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    const auto x = run.in(0).read<T>();
    walk(lines, std::array{strides_of(run.in(0).sizes())}, [&](size_t i, const auto& at) {
      int64_t best = 0;
      const auto element = [&](int64_t k) { return x[static_cast<size_t>(at[0] + k * stride)]; };
      for (int64_t k = 1; k < length; ++k)
        if (precedes(element(k), element(best), is_largest) ||
            (is_last && !precedes(element(best), element(k), is_largest)))
          best = k;
      out[i] = best;
    });
  });
  return {};
}

// top_k: the first `k` of a line in descending or ascending order, and their indices. Equal ones keep their order.

Result<std::vector<ir::Type>> infer_top_k(Site& site) {
  ir::Type values = site.type(0);
  if (values.dtype == Dtype::kBool) return unsupported("top_k of bools is not supported; cast them");
  QUERN_TRY(const size_t axis, NodeImport::axis(site.attributes.whole("axis"), values.rank()));
  const ir::Dim& k = site.attributes.dim("k");
  if (ir::Dim::at_most(k, values.dims[axis]) == false || ir::Dim::at_most(0, k) == false)
    return invalid(fmt::format("{} of {} elements are asked for; ask for fewer", k.text(), values.dims[axis].text()));
  values.dims[axis] = k;
  return std::vector{values, ir::Type{Dtype::kInt64, values.dims}};
}

Status reference_top_k(Run& run) {
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const bool is_largest = run.attributes.flag("largest");
  ir::Sizes lines = run.in(0).sizes();
  const int64_t length = std::exchange(lines[axis], 1), k = run.out().sizes()[axis];
  if (k > length) return invalid(fmt::format("{} of {} elements are asked for; ask for fewer", k, length));
  const std::vector<int64_t> from = strides_of(run.in(0).sizes()), to = strides_of(run.out().sizes());
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    const auto x = run.in(0).read<T>();
    const auto values = run.out(0).write<T>();
    walk(lines, std::array{from, to}, [&](size_t, const auto& at) {
      const auto element = [&](int64_t i) { return x[static_cast<size_t>(at[0] + i * from[axis])]; };
      std::vector<int64_t> order(static_cast<size_t>(length));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return precedes(element(a), element(b), is_largest); });
      for (int64_t i = 0; i < k; ++i) {
        const auto place = static_cast<size_t>(at[1] + i * to[axis]);
        values[place] = element(order[static_cast<size_t>(i)]);
        if (run.outputs.size() > 1) run.out(1).write<int64_t>()[place] = order[static_cast<size_t>(i)];
      }
    });
  });
  return {};
}

// Rules of ONNX.

Status import_arg(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", node.rank(x), 0));
  QUERN_TRY(const bool keep, node.flag("keepdims", true));
  bool is_last = false;
  if (node.version() >= 12) {
    QUERN_TRY(is_last, node.flag("select_last_index", false));
  }
  return node.become(
      node.op() == "ArgMax" ? "arg_max" : "arg_min", {x},
      {{"axis", ir::Dim(static_cast<int64_t>(axis))}, {"keep", ir::Dim(keep)}, {"last", ir::Dim(is_last)}});
}

Status import_top_k(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", node.rank(x), -1));
  ir::Dim k = 0;
  bool is_largest = true;
  if (node.version() < 10) {
    QUERN_TRY(const int64_t given, node.whole("k"));
    k = given;
  } else {
    QUERN_TRY(const ir::Dims given, node.numbers(1, "the number of elements"));
    if (given.size() != 1) return invalid("k is not one number; give one");
    k = given[0];
  }
  if (node.version() >= 11) {
    QUERN_TRY(is_largest, node.flag("largest", true));
    node.ignore("sorted");  // in order is one of the orders that an unsorted result may have
  }
  QUERN_TRY(const auto out,
            node.emit_all("top_k", {x}, 2,
                          {{"axis", ir::Dim(static_cast<int64_t>(axis))}, {"k", k}, {"largest", ir::Dim(is_largest)}}));
  node.set(0, out[0]);
  node.set(1, out[1]);
  return {};
}

// 1 at the first largest element along the axis, 0 elsewhere.
Status import_hardmax(NodeImport& node) {
  QUERN_TRY(const ir::ValueId input, node.in(0));
  const ir::Dims dims = node.type(input).dims;
  const bool is_flattened = node.version() < 13;
  QUERN_TRY(size_t axis, node.axis_attribute("axis", dims.size(), is_flattened ? 1 : -1));
  ir::ValueId x = input;
  if (is_flattened) {
    const auto middle = dims.begin() + static_cast<ptrdiff_t>(axis);
    QUERN_TRY(x, node.reshape(x, {ir::product_of(ir::Dims(dims.begin(), middle)),
                                  ir::product_of(ir::Dims(middle, dims.end()))}));
    axis = 1;
  }
  const ir::Dims shape = node.type(x).dims;
  QUERN_TRY(const ir::ValueId where,
            node.emit("arg_max", {x}, {{"axis", ir::Dim(static_cast<int64_t>(axis))}, {"keep", ir::Dim(1)}}));
  QUERN_TRY(ir::ValueId places, node.emit("range", {}, {{"count", shape[axis]}}));
  ir::Dims along(shape.size(), 1);
  along[axis] = shape[axis];
  QUERN_TRY(places, node.reshape(places, along));
  QUERN_TRY(ir::ValueId y, node.emit("equal", {where, places}));
  QUERN_TRY(y, node.cast(y, node.type(x).dtype));
  QUERN_TRY(y, node.reshape(y, dims));
  node.set(0, y);
  return {};
}

Family make_select_family() {
  Family family;
  family.name = "the largest and where they are";
  for (const std::string_view name : {"arg_max", "arg_min"})
    family.operators.push_back({.name = name,
                                .attributes = {{"axis", ir::Dim(0), true}, {"keep", ir::Dim(1)}, {"last", ir::Dim(0)}},
                                .infer = infer_arg,
                                .reference = reference_arg,
                                .lower = kernel::any::lower_arg});
  family.operators.push_back(
      {.name = "top_k",
       .attributes = {{"axis", ir::Dim(0), true}, {"k", ir::Dim(1), true}, {"largest", ir::Dim(1)}},
       .most_outputs = 2,
       .infer = infer_top_k,
       .reference = reference_top_k,
       .lower = kernel::any::lower_top_k});
  family.rules = {
      {.op = "ArgMax", .since = 1, .import = import_arg},
      {.op = "ArgMin", .since = 1, .import = import_arg},
      {.op = "TopK", .since = 1, .import = import_top_k},
      {.op = "Hardmax", .since = 1, .import = import_hardmax},
  };
  return family;
}

}  // namespace

const Family& select_family() {
  static const Family family = make_select_family();
  return family;
}

}  // namespace quern::model::op
