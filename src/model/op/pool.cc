// SPDX-License-Identifier: Apache-2.0
//
// Pools over one to three spatial dimensions: the largest, the mean or the sum of a window. Windows may reach beyond
// the pads behind a dimension where the number of outputs was rounded up, so `sizes` states that number.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/window.h"

namespace quern::model::op {
namespace {

Result<std::vector<ir::Type>> infer_pool(Site& site) {
  const ir::Type& x = site.type(0);
  if (x.dtype == Dtype::kBool || (site.op != "max_pool" && !is_float(x.dtype)))
    return unsupported(fmt::format("{} of {} is not supported; cast it to a float", site.op, name_of(x.dtype)));
  if (x.rank() < 3 || x.rank() > 5)
    return invalid("the input has not 3 to 5 dimensions; give batch, channels and space");
  const size_t rank = x.rank() - 2;
  for (const char* name : {"kernel", "strides", "dilations"}) {
    const auto list = ir::fixed_of(site.attributes.dims(name));
    if (!list || list->size() != rank || std::any_of(list->begin(), list->end(), [](int64_t n) { return n < 1; }))
      return invalid(fmt::format("attribute '{}' has not {} numbers of at least 1; correct it", name, rank));
  }
  if (site.attributes.dims("pads").size() != 2 * rank || site.attributes.dims("sizes").size() != rank)
    return invalid("attributes 'pads' and 'sizes' have another number of dimensions; correct them");
  ir::Type out{x.dtype, {x.dims[0], x.dims[1]}};
  const ir::Dims& sizes = site.attributes.dims("sizes");
  out.dims.insert(out.dims.end(), sizes.begin(), sizes.end());
  if (site.op != "max_pool") return std::vector{std::move(out)};
  return std::vector{out, ir::Type{Dtype::kInt64, out.dims}};
}

struct PoolShape {
  Space in, out, kernel, stride, pad, pad_behind, dilation;
  int64_t planes;

  explicit PoolShape(const Run& run) {
    const ir::Sizes& x = run.in(0).sizes();
    in = space_of(spatial(x), 1);
    out = space_of(spatial(run.out().sizes()), 1);
    kernel = space_of(run.attributes.wholes("kernel"), 1);
    stride = space_of(run.attributes.wholes("strides"), 1);
    dilation = space_of(run.attributes.wholes("dilations"), 1);
    const std::vector<int64_t> pads = run.attributes.wholes("pads");
    const auto middle = pads.begin() + static_cast<ptrdiff_t>(pads.size() / 2);
    pad = space_of({pads.begin(), middle}, 0);
    pad_behind = space_of({middle, pads.end()}, 0);
    planes = x[0] * x[1];
  }
};

// Calls `visit(o, place, is_inside)` for every element of every window: `o` counts the outputs of a plane, `place` is
// the element's place in the plane. Elements in the pads are visited as well, those beyond the pads are not.
template <class Visit>
void each_window(const PoolShape& s, Visit visit) {
  for (int64_t o = 0; o < s.out[0] * s.out[1] * s.out[2]; ++o) {
    const Space at{o / (s.out[1] * s.out[2]), o / s.out[2] % s.out[1], o % s.out[2]};
    const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
    for (int64_t tap = 0; tap < taps; ++tap) {
      const Space k{tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
      Space i{};
      bool is_inside = true, is_padded = true;
      for (size_t d = 0; d < 3; ++d) {
        i[d] = at[d] * s.stride[d] - s.pad[d] + k[d] * s.dilation[d];
        is_inside = is_inside && i[d] >= 0 && i[d] < s.in[d];
        is_padded = is_padded && i[d] < s.in[d] + s.pad_behind[d];
      }
      if (is_padded) visit(o, (i[0] * s.in[1] + i[1]) * s.in[2] + i[2], is_inside);
    }
  }
}

// The indices of max_pool count through the whole tensor, along columns first if `column_major`.
Status reference_max_pool(Run& run) {
  const PoolShape s(run);
  const int64_t in_volume = s.in[0] * s.in[1] * s.in[2], out_volume = s.out[0] * s.out[1] * s.out[2];
  const bool is_column_major = run.attributes.flag("column_major");
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    if constexpr (!std::same_as<T, ir::Bool>) {
      const auto x = run.in(0).read<T>();
      const auto y = run.out().write<T>();
      for (int64_t plane = 0; plane < s.planes; ++plane) {
        std::vector<int64_t> best(static_cast<size_t>(out_volume), -1);
        const auto element = [&](int64_t place) {
          return static_cast<ir::Computed<T>>(x[static_cast<size_t>(plane * in_volume + place)]);
        };
        each_window(s, [&](int64_t o, int64_t place, bool is_inside) {
          int64_t& found = best[static_cast<size_t>(o)];
          if (is_inside && (found < 0 || element(place) > element(found) || element(place) != element(place)))
            found = place;
        });
        for (int64_t o = 0; o < out_volume; ++o) {
          const auto to = static_cast<size_t>(plane * out_volume + o);
          const int64_t found = best[static_cast<size_t>(o)];
          if (found >= 0) {
            y[to] = static_cast<T>(element(found));
          } else if constexpr (ir::kIsFloat<T>) {
            y[to] = static_cast<T>(-std::numeric_limits<float>::infinity());
          } else {
            y[to] = std::numeric_limits<T>::min();
          }
          if (run.outputs.size() < 2) continue;
          const int64_t d = found / (s.in[1] * s.in[2]), h = found / s.in[2] % s.in[1], w = found % s.in[2];
          run.out(1).write<int64_t>()[to] =
              plane * in_volume + (is_column_major ? (w * s.in[1] + h) * s.in[0] + d : found);
        }
      }
    }
  });
  return {};
}

Status reference_sum_pool(Run& run) {
  const PoolShape s(run);
  const int64_t in_volume = s.in[0] * s.in[1] * s.in[2], out_volume = s.out[0] * s.out[1] * s.out[2];
  const bool is_mean = run.op == "average_pool", counts_pads = is_mean && run.attributes.flag("count_pads");
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    if constexpr (ir::kIsFloat<T>) {
      const auto x = run.in(0).read<T>();
      const auto y = run.out().write<T>();
      for (int64_t plane = 0; plane < s.planes; ++plane) {
        std::vector<double> sums(static_cast<size_t>(out_volume)), counts(static_cast<size_t>(out_volume));
        each_window(s, [&](int64_t o, int64_t place, bool is_inside) {
          if (is_inside)
            sums[static_cast<size_t>(o)] +=
                static_cast<double>(static_cast<ir::Computed<T>>(x[static_cast<size_t>(plane * in_volume + place)]));
          counts[static_cast<size_t>(o)] += is_inside || counts_pads;
        });
        for (int64_t o = 0; o < out_volume; ++o) {
          const auto i = static_cast<size_t>(o);
          y[static_cast<size_t>(plane * out_volume + o)] = static_cast<T>(is_mean ? sums[i] / counts[i] : sums[i]);
        }
      }
    }
  });
  return {};
}

// Rules of ONNX.

ir::Attributes attributes_of(const Window& window) {
  return {{"kernel", ir::dims_of(window.kernel)},
          {"strides", ir::dims_of(window.strides)},
          {"dilations", ir::dims_of(window.dilations)},
          {"pads", window.pads},
          {"sizes", window.sizes}};
}

Status import_max_pool(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const Window window, window_of(node, x, {}, true));
  QUERN_TRY(const bool is_column_major, node.flag("storage_order", false));
  ir::Attributes attributes = attributes_of(window);
  attributes.set("column_major", ir::Dim(is_column_major));
  QUERN_TRY(const auto out, node.emit_all("max_pool", {x}, node.wants(1) ? 2 : 1, attributes));
  for (size_t i = 0; i < out.size(); ++i) node.set(i, out[i]);
  return {};
}

Status import_average_pool(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const Window window, window_of(node, x, {}, true));
  QUERN_TRY(const bool counts_pads, node.flag("count_include_pad", false));
  ir::Attributes attributes = attributes_of(window);
  attributes.set("count_pads", ir::Dim(counts_pads));
  return node.become("average_pool", {x}, attributes);
}

// (sum |x|^p) ^ (1 / p)
Result<ir::ValueId> emit_power(NodeImport& node, ir::ValueId x, double p) {
  return node.emit("pow", {x, node.number(node.type(x).dtype, p)});
}
Status import_lp_pool(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const Window window, window_of(node, x, {}, node.version() >= 18));
  QUERN_TRY(const int64_t p, node.whole("p", 2));
  if (p < 1) return invalid("attribute 'p' is below 1; give at least 1");
  QUERN_TRY(ir::ValueId y, node.emit("abs", {x}));
  QUERN_TRY(y, emit_power(node, y, static_cast<double>(p)));
  QUERN_TRY(y, node.emit("sum_pool", {y}, attributes_of(window)));
  QUERN_TRY(y, emit_power(node, y, 1 / static_cast<double>(p)));
  node.set(0, y);
  return {};
}
Status import_global_lp_pool(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const int64_t p, node.whole("p", 2));
  if (p < 1 || node.rank(x) < 3) return invalid("attribute 'p' is below 1, or the input has no space; correct it");
  ir::Dims axes;
  for (size_t d = 2; d < node.rank(x); ++d) axes.push_back(static_cast<int64_t>(d));
  QUERN_TRY(ir::ValueId y, node.emit("abs", {x}));
  QUERN_TRY(y, emit_power(node, y, static_cast<double>(p)));
  QUERN_TRY(y, node.emit("reduce_sum", {y}, {{"axes", axes}, {"keep", ir::Dim(1)}}));
  QUERN_TRY(y, emit_power(node, y, 1 / static_cast<double>(p)));
  node.set(0, y);
  return {};
}

std::vector<AttributeRule> pool_attributes() {
  return {{"kernel", ir::Dims(), true},
          {"strides", ir::Dims(), true},
          {"dilations", ir::Dims(), true},
          {"pads", ir::Dims(), true},
          {"sizes", ir::Dims(), true}};
}

Family make_pool_family() {
  Family family;
  family.name = "pools";
  family.operators = {
      {.name = "max_pool",
       .attributes = pool_attributes(),
       .most_outputs = 2,
       .infer = infer_pool,
       .reference = reference_max_pool,
       .lower = kernel::any::lower_pool},
      {.name = "average_pool",
       .attributes = pool_attributes(),
       .infer = infer_pool,
       .reference = reference_sum_pool,
       .lower = kernel::any::lower_pool},
      {.name = "sum_pool",
       .attributes = pool_attributes(),
       .infer = infer_pool,
       .reference = reference_sum_pool,
       .lower = kernel::any::lower_pool},
  };
  family.operators[0].attributes.push_back({"column_major", ir::Dim(0)});
  family.operators[1].attributes.push_back({"count_pads", ir::Dim(0)});
  family.rules = {
      {.op = "MaxPool", .since = 1, .import = import_max_pool},
      {.op = "AveragePool", .since = 7, .import = import_average_pool},
      {.op = "LpPool", .since = 2, .import = import_lp_pool},
      {.op = "GlobalLpPool", .since = 2, .import = import_global_lp_pool},
  };
  return family;
}

}  // namespace

const Family& pool_family() {
  static const Family family = make_pool_family();
  return family;
}

}  // namespace quern::model::op
