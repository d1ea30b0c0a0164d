// SPDX-License-Identifier: Apache-2.0
//
// One element of many along some axes: sums, means, extremes, products, and running sums. Floats are summed in double.
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

enum class Reduce : uint8_t { kSum, kMean, kMax, kMin, kProd };
constexpr std::string_view kReduceNames[] = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"};

Reduce reduce_of(std::string_view name) {
  return static_cast<Reduce>(std::find(std::begin(kReduceNames), std::end(kReduceNames), name) -
                             std::begin(kReduceNames));
}

std::vector<bool> reduced_axes(const ir::Attributes& attributes, size_t rank) {
  std::vector<bool> out(rank);
  for (const int64_t axis : attributes.wholes("axes")) out[static_cast<size_t>(axis)] = true;
  return out;
}

Result<std::vector<ir::Type>> infer_reduce(Site& site) {
  const ir::Type& in = site.type(0);
  const Reduce kind = reduce_of(site.op);
  if (in.dtype == Dtype::kBool && kind != Reduce::kMax && kind != Reduce::kMin)
    return unsupported(fmt::format("{} of bools is not supported; cast them", site.op));
  QUERN_TRY(NodeImport::axes(site.attributes.wholes("axes"), in.rank()));
  const std::vector<bool> is_reduced = reduced_axes(site.attributes, in.rank());
  ir::Type out{in.dtype, {}};
  for (size_t d = 0; d < in.rank(); ++d) {
    if (!is_reduced[d])
      out.dims.push_back(in.dims[d]);
    else if (site.attributes.flag("keep"))
      out.dims.push_back(1);
  }
  return std::vector{std::move(out)};
}

template <class T>
void reduce_elements(Reduce kind, const ir::Tensor& in, ir::Tensor& out, const std::vector<int64_t>& strides,
                     size_t count) {
  // Wide enough that nothing is rounded before the end; integers wrap as their type does.
  using Wide = std::conditional_t<ir::kIsFloat<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
  Wide first = 0;
  if (kind == Reduce::kProd) first = 1;
  if constexpr (ir::kIsFloat<T>) {
    if (kind == Reduce::kMax) first = -std::numeric_limits<double>::infinity();
    if (kind == Reduce::kMin) first = std::numeric_limits<double>::infinity();
  } else if constexpr (std::is_integral_v<T>) {
    if (kind == Reduce::kMax) first = static_cast<Wide>(std::numeric_limits<T>::min());
    if (kind == Reduce::kMin) first = static_cast<Wide>(std::numeric_limits<T>::max());
  } else {
    if (kind == Reduce::kMin) first = 1;
  }
  std::vector<Wide> sums(out.elements(), first);
  const auto x = in.read<T>();
  walk(in.sizes(), std::array{strides}, [&](size_t i, const auto& at) {
    const auto element = static_cast<Wide>(static_cast<ir::Computed<T>>(x[i]));
    Wide& sum = sums[static_cast<size_t>(at[0])];
    switch (kind) {
      case Reduce::kSum:
      case Reduce::kMean:
        if constexpr (ir::kIsFloat<T>)
          sum += element;
        else
          sum = static_cast<Wide>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(element));
        break;
      case Reduce::kProd:
        if constexpr (ir::kIsFloat<T>)
          sum *= element;
        else
          sum = static_cast<Wide>(static_cast<uint64_t>(sum) * static_cast<uint64_t>(element));
        break;
      case Reduce::kMax:
        if constexpr (ir::kIsFloat<T>)
          sum = std::isnan(element) || element > sum ? element : sum;
        else
          sum = std::max(sum, element);
        break;
      case Reduce::kMin:
        if constexpr (ir::kIsFloat<T>)
          sum = std::isnan(element) || element < sum ? element : sum;
        else
          sum = std::min(sum, element);
        break;
    }
  });
  const auto y = out.write<T>();
  for (size_t i = 0; i < y.size(); ++i) {
    if constexpr (ir::kIsFloat<T>)
      y[i] = static_cast<T>(kind == Reduce::kMean ? sums[i] / static_cast<double>(count) : sums[i]);
    else if constexpr (std::is_integral_v<T>)
      y[i] = kind == Reduce::kMean && count > 0 ? static_cast<T>(sums[i] / static_cast<Wide>(count))
                                                : static_cast<T>(sums[i]);
    else
      y[i] = T(sums[i] != 0);
  }
}

Status reference_reduce(Run& run) {
  const ir::Sizes& sizes = run.in(0).sizes();
  const std::vector<bool> is_reduced = reduced_axes(run.attributes, sizes.size());
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  size_t count = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (is_reduced[d]) {
      count *= static_cast<size_t>(sizes[d]);
    } else {
      strides[d] = stride;
      stride *= sizes[d];
    }
  }
  ir::with_element(run.in(0).dtype(),
                   [&]<class T>() { reduce_elements<T>(reduce_of(run.op), run.in(0), run.out(), strides, count); });
  return {};
}

// Of shapes, which have one dimension.
std::optional<ir::Dims> contents_reduce(const Site& site) {
  const auto known = site.contents(0);
  const Reduce kind = reduce_of(site.op);
  if (!known || known->empty() || site.dims(0).size() != 1 || kind == Reduce::kMean) return std::nullopt;
  if (site.attributes.dims("axes").empty()) return known;
  ir::Dim out = (*known)[0];
  for (size_t i = 1; i < known->size(); ++i) {
    const ir::Dim& next = (*known)[i];
    out = kind == Reduce::kSum    ? out + next
          : kind == Reduce::kProd ? out * next
          : kind == Reduce::kMax  ? max(out, next)
                                  : min(out, next);
  }
  return ir::Dims{out};
}

// cum_sum and cum_prod: running results along one axis.

Result<std::vector<ir::Type>> infer_cumulative(Site& site) {
  if (site.type(0).dtype == Dtype::kBool) return unsupported("running sums of bools are not supported; cast them");
  QUERN_TRY(NodeImport::axis(site.attributes.whole("axis"), site.type(0).rank()));
  return std::vector{site.type(0)};
}

Status reference_cumulative(Run& run) {
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const bool is_exclusive = run.attributes.flag("exclusive"), is_reverse = run.attributes.flag("reverse");
  const bool is_product = run.op == "cum_prod";
  const ir::Sizes& sizes = run.in(0).sizes();
  const int64_t length = sizes[axis], stride = strides_of(sizes)[axis];
  ir::Sizes lines = sizes;
  lines[axis] = 1;
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    using Wide = std::conditional_t<ir::kIsFloat<T>, double, uint64_t>;
    const auto x = run.in(0).read<T>();
    const auto y = run.out().write<T>();
    walk(lines, std::array{strides_of(sizes)}, [&](size_t, const auto& at) {
      Wide sum = is_product ? 1 : 0;
      for (int64_t i = 0; i < length; ++i) {
        const auto place = static_cast<size_t>(at[0] + (is_reverse ? length - 1 - i : i) * stride);
        const auto element = static_cast<Wide>(static_cast<ir::Computed<T>>(x[place]));
        const Wide next = is_product ? sum * element : sum + element;
        y[place] = static_cast<T>(is_exclusive ? sum : next);
        sum = next;
      }
    });
  });
  return {};
}

// Rules of ONNX.

struct Reduction {
  std::vector<int64_t> axes;
  bool keep = true;
  bool does_nothing = false;  ///< no axes are given, and that means none
};

Result<Reduction> reduction_of(NodeImport& node, size_t rank, bool has_input) {
  Reduction out;
  std::optional<std::vector<int64_t>> given;
  if (!has_input) {
    QUERN_TRY(given, node.wholes("axes"));
  } else if (node.has(1)) {
    QUERN_TRY(given, node.fixed_numbers(1, "the list of axes"));
  }
  QUERN_TRY(out.keep, node.flag("keepdims", true));
  if (has_input) {
    QUERN_TRY(out.does_nothing, node.flag("noop_with_empty_axes", false));
  }
  if (given && !given->empty()) {
    QUERN_TRY(out.axes, NodeImport::axes(*given, rank));
    out.does_nothing = false;
  } else if (!out.does_nothing) {
    for (size_t i = 0; i < rank; ++i) out.axes.push_back(static_cast<int64_t>(i));
  }
  return out;
}

Result<ir::ValueId> emit_reduce(NodeImport& node, std::string_view op, ir::ValueId x, const Reduction& reduction) {
  if (reduction.axes.empty()) return x;  // nothing is left to do but for what surrounds the sum
  return node.emit(op, {x}, {{"axes", ir::dims_of(reduction.axes)}, {"keep", ir::Dim(reduction.keep)}});
}

// The same, with an element in place of each that was reduced: it repeats along the input.
Reduction kept(Reduction reduction) {
  reduction.keep = true;
  return reduction;
}

// log(sum(exp(x))) without overflow: the largest element is taken out first, unless it is infinite.
Result<ir::ValueId> emit_log_sum_exp(NodeImport& node, ir::ValueId x, const Reduction& reduction) {
  const Dtype dtype = node.type(x).dtype;
  if (!is_float(dtype))
    return unsupported(fmt::format("ReduceLogSumExp of {} is not supported; cast it", name_of(dtype)));
  QUERN_TRY(ir::ValueId largest, emit_reduce(node, "reduce_max", x, kept(reduction)));
  QUERN_TRY(const ir::ValueId is_infinite, node.emit("is_inf", {largest}));
  const ir::ValueId zero = node.number(dtype, 0);
  QUERN_TRY(largest, node.emit("where", {is_infinite, zero, largest}));
  QUERN_TRY(ir::ValueId y, node.emit("sub", {x, largest}));
  QUERN_TRY(y, node.emit("exp", {y}));
  QUERN_TRY(y, emit_reduce(node, "reduce_sum", y, kept(reduction)));
  QUERN_TRY(y, node.emit("log", {y}));
  QUERN_TRY(y, node.emit("add", {y, largest}));
  if (reduction.keep) return y;
  ir::Dims dims;
  for (size_t d = 0; d < node.rank(x); ++d)
    if (!std::binary_search(reduction.axes.begin(), reduction.axes.end(), static_cast<int64_t>(d)))
      dims.push_back(node.type(x).dims[d]);
  return node.reshape(y, dims);
}

Status import_reduce(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const std::string_view op = node.op();
  QUERN_TRY(const Reduction reduction,
            reduction_of(node, node.rank(x), node.version() >= (op == "ReduceSum" ? 13 : 18)));
  if (reduction.does_nothing) return node.set(0, x), Status();
  ir::ValueId y = x;
  if (op == "ReduceLogSumExp") {
    QUERN_TRY(y, emit_log_sum_exp(node, x, reduction));
  } else {
    if (op == "ReduceL1") {
      QUERN_TRY(y, node.emit("abs", {y}));
    } else if (op == "ReduceL2" || op == "ReduceSumSquare") {
      QUERN_TRY(y, node.emit("mul", {y, y}));
    }
    const std::string_view sum = op == "ReduceMean"   ? "reduce_mean"
                                 : op == "ReduceMax"  ? "reduce_max"
                                 : op == "ReduceMin"  ? "reduce_min"
                                 : op == "ReduceProd" ? "reduce_prod"
                                                      : "reduce_sum";
    QUERN_TRY(y, emit_reduce(node, sum, y, reduction));
    if (op == "ReduceL2") {
      QUERN_TRY(y, node.emit("sqrt", {y}));
    } else if (op == "ReduceLogSum") {
      QUERN_TRY(y, node.emit("log", {y}));
    }
  }
  node.set(0, y);
  return {};
}

// Over all spatial dimensions, which follow batch and channel.
Status import_global_pool(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  if (node.rank(x) < 3) return invalid("the input has fewer than 3 dimensions; give batch, channels and space");
  ir::Dims axes;
  for (size_t d = 2; d < node.rank(x); ++d) axes.push_back(static_cast<int64_t>(d));
  return node.become(node.op() == "GlobalMaxPool" ? "reduce_max" : "reduce_mean", {x},
                     {{"axes", axes}, {"keep", ir::Dim(1)}});
}

Status import_cumulative(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const std::vector<int64_t> given, node.fixed_numbers(1, "the axis"));
  if (given.size() != 1) return invalid("the axis is not one number; give one");
  QUERN_TRY(const size_t axis, NodeImport::axis(given[0], node.rank(x)));
  QUERN_TRY(const bool is_exclusive, node.flag("exclusive", false));
  QUERN_TRY(const bool is_reverse, node.flag("reverse", false));
  return node.become(node.op() == "CumSum" ? "cum_sum" : "cum_prod", {x},
                     {{"axis", ir::Dim(static_cast<int64_t>(axis))},
                      {"exclusive", ir::Dim(is_exclusive)},
                      {"reverse", ir::Dim(is_reverse)}});
}

Family make_reduce_family() {
  Family family;
  family.name = "one element of many";
  for (const std::string_view name : kReduceNames)
    family.operators.push_back({.name = name,
                                .attributes = {{"axes", ir::Dims(), true}, {"keep", ir::Dim(1)}},
                                .infer = infer_reduce,
                                .contents = contents_reduce,
                                .reference = reference_reduce,
                                .lower = kernel::any::lower_reduce});
  for (const std::string_view name : {"cum_sum", "cum_prod"})
    family.operators.push_back(
        {.name = name,
         .attributes = {{"axis", ir::Dim(0), true}, {"exclusive", ir::Dim(0)}, {"reverse", ir::Dim(0)}},
         .infer = infer_cumulative,
         .reference = reference_cumulative,
         .lower = kernel::any::lower_cumulative});
  for (const std::string_view op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                                    "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    family.rules.push_back({.op = op, .since = 1, .import = import_reduce});
  family.rules.push_back({.op = "GlobalAveragePool", .since = 1, .import = import_global_pool});
  family.rules.push_back({.op = "GlobalMaxPool", .since = 1, .import = import_global_pool});
  family.rules.push_back({.op = "CumSum", .since = 11, .import = import_cumulative});
  family.rules.push_back({.op = "CumProd", .since = 26, .import = import_cumulative});
  return family;
}

}  // namespace

const Family& reduce_family() {
  static const Family family = make_reduce_family();
  return family;
}

}  // namespace quern::model::op
