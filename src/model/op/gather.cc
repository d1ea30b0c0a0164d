// SPDX-License-Identifier: Apache-2.0
//
// Elements by index. An index may count from the end; one out of range is an error of the data.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

Status check_indices(const Site& site, size_t i) {
  const Dtype dtype = site.type(i).dtype;
  if (dtype == Dtype::kInt64 || dtype == Dtype::kInt32) return {};
  return invalid(fmt::format("the indices are {}; give int64 or int32", name_of(dtype)));
}

// The place that index `i` of a tensor of indices means in a dimension of `size`.
Result<int64_t> place_at(const ir::Tensor& indices, size_t i, int64_t size) {
  const int64_t given = indices.whole(i);
  if (given < -size || given >= size)
    return invalid(
        fmt::format("index {} into a dimension of {}; give one from {} to {}", given, size, -size, size - 1));
  return given < 0 ? given + size : given;
}

int64_t product(const ir::Sizes& sizes, size_t from, size_t to) {
  return std::accumulate(sizes.begin() + static_cast<ptrdiff_t>(from), sizes.begin() + static_cast<ptrdiff_t>(to),
                         int64_t{1}, std::multiplies<>());
}

// gather: whole slices along one axis.

Result<std::vector<ir::Type>> infer_gather(Site& site) {
  QUERN_TRY(check_indices(site, 1));
  QUERN_TRY(const size_t axis, NodeImport::axis(site.attributes.whole("axis"), site.dims(0).size()));
  ir::Dims dims = site.dims(0);
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis));
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), site.dims(1).begin(), site.dims(1).end());
  return std::vector{ir::Type{site.type(0).dtype, std::move(dims)}};
}

Status reference_gather(Run& run) {
  const ir::Tensor &in = run.in(0), &indices = run.in(1);
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const int64_t size = in.sizes()[axis], outer = product(in.sizes(), 0, axis);
  const auto row = static_cast<size_t>(product(in.sizes(), axis + 1, in.rank())) * size_of(in.dtype());
  const auto out = run.out().write_bytes();
  if (out.empty()) return {};
  for (size_t j = 0; j < indices.elements(); ++j) {
    QUERN_TRY(const int64_t place, place_at(indices, j, size));
    for (int64_t i = 0; i < outer; ++i)
      std::memcpy(out.data() + (static_cast<size_t>(i) * indices.elements() + j) * row,
                  in.bytes().data() + static_cast<size_t>(i * size + place) * row, row);
  }
  return {};
}

std::optional<ir::Dims> contents_gather(const Site& site) {
  const auto known = site.contents(0), indices = site.contents(1);
  if (!known || !indices || site.dims(0).size() != 1) return std::nullopt;
  const auto size = static_cast<int64_t>(known->size());
  ir::Dims out;
  for (const ir::Dim& index : *indices) {
    if (!index.is_fixed()) return std::nullopt;
    const int64_t at = index.fixed() < 0 ? index.fixed() + size : index.fixed();
    if (at < 0 || at >= size) return std::nullopt;
    out.push_back((*known)[static_cast<size_t>(at)]);
  }
  return out;
}

// gather_elements: one element per index, whose place is that of the index but for one axis.

Result<std::vector<ir::Type>> infer_gather_elements(Site& site) {
  QUERN_TRY(check_indices(site, 1));
  QUERN_TRY(NodeImport::axis(site.attributes.whole("axis"), site.dims(0).size()));
  if (site.dims(1).size() != site.dims(0).size())
    return invalid(fmt::format("indices of {} into {}; give as many dimensions", ir::show_dims(site.dims(1)),
                               ir::show_dims(site.dims(0))));
  return std::vector{ir::Type{site.type(0).dtype, site.dims(1)}};
}

Status reference_gather_elements(Run& run) {
  const ir::Tensor &in = run.in(0), &indices = run.in(1);
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const size_t size = size_of(in.dtype());
  std::vector<int64_t> strides = strides_of(in.sizes());
  const int64_t stride = std::exchange(strides[axis], 0);
  Status status;
  walk(indices.sizes(), std::array{strides}, [&](size_t i, const auto& at) {
    if (!status.ok()) return;
    auto place = place_at(indices, i, in.sizes()[axis]);
    if (!place.ok()) {
      status = std::move(place).error();
      return;
    }
    std::memcpy(run.out().write_bytes().data() + i * size,
                in.bytes().data() + static_cast<size_t>(at[0] + *place * stride) * size, size);
  });
  return status;
}

// gather_nd: the last dimension of the indices is an index of several numbers; `batch` leading dimensions are shared.

Result<std::vector<ir::Type>> infer_gather_nd(Site& site) {
  QUERN_TRY(check_indices(site, 1));
  const ir::Dims &data = site.dims(0), &indices = site.dims(1);
  const auto batch = static_cast<size_t>(site.attributes.whole("batch"));
  if (indices.empty() || !indices.back().is_fixed() || batch >= indices.size() ||
      batch + static_cast<size_t>(indices.back().fixed()) > data.size())
    return invalid(fmt::format("indices of {} do not fit data of {}; give an index per dimension",
                               ir::show_dims(indices), ir::show_dims(data)));
  for (size_t d = 0; d < batch; ++d)
    if (!site.same(data[d], indices[d])) return invalid("the batches of data and indices differ; give equal sizes");
  ir::Dims dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), data.begin() + static_cast<ptrdiff_t>(batch) + indices.back().fixed(), data.end());
  return std::vector{ir::Type{site.type(0).dtype, std::move(dims)}};
}

// Where the slice that index `i` means begins, in elements. `data` is indexed from dimension `batch` on.
Result<int64_t> slice_at(const ir::Tensor& indices, size_t i, size_t depth, const ir::Sizes& data, size_t batch) {
  const std::vector<int64_t> strides = strides_of(data);
  int64_t offset = 0;
  for (size_t k = 0; k < depth; ++k) {
    QUERN_TRY(const int64_t place, place_at(indices, i * depth + k, data[batch + k]));
    offset += place * strides[batch + k];
  }
  return offset;
}

Status reference_gather_nd(Run& run) {
  const ir::Tensor &in = run.in(0), &indices = run.in(1);
  const auto batch = static_cast<size_t>(run.attributes.whole("batch"));
  const auto depth = static_cast<size_t>(indices.sizes().back());
  const auto elements = static_cast<size_t>(product(in.sizes(), batch + depth, in.rank()));
  const size_t row = elements * size_of(in.dtype());
  const auto count = static_cast<size_t>(product(indices.sizes(), 0, indices.rank() - 1));
  const auto batches = static_cast<size_t>(product(in.sizes(), 0, batch));
  for (size_t i = 0; i < count && row > 0; ++i) {
    QUERN_TRY(const int64_t offset, slice_at(indices, i, depth, in.sizes(), batch));
    const size_t of_batch = i / (count / batches) * (in.elements() / batches);
    std::memcpy(run.out().write_bytes().data() + i * row,
                in.bytes().data() + (of_batch + static_cast<size_t>(offset)) * size_of(in.dtype()), row);
  }
  return {};
}

// scatter_nd and scatter_elements: a copy of the first input with some elements replaced, or joined with updates.

Status check_reduction(const Site& site) {
  const std::string& reduction = site.attributes.text("reduction");
  for (const std::string_view known : {"none", "add", "mul", "min", "max"})
    if (reduction == known) return {};
  return invalid(fmt::format("reduction is '{}'; give none, add, mul, min or max", reduction));
}

void join(ir::Tensor& out, size_t at, const ir::Tensor& updates, size_t i, const std::string& reduction) {
  ir::with_element(out.dtype(), [&]<class T>() {
    T& element = out.write<T>()[at];
    const T update = updates.read<T>()[i];
    if constexpr (std::same_as<T, ir::Bool>) {
      element = reduction == "add" || reduction == "max" ? T(element || update)
                : reduction == "none"                    ? update
                                                         : T(element && update);
    } else {
      using C = ir::Computed<T>;
      const C a = static_cast<C>(element), b = static_cast<C>(update);
      element = static_cast<T>(reduction == "add"   ? static_cast<C>(a + b)
                               : reduction == "mul" ? static_cast<C>(a * b)
                               : reduction == "min" ? std::min(a, b)
                               : reduction == "max" ? std::max(a, b)
                                                    : b);
    }
  });
}

Result<std::vector<ir::Type>> infer_scatter_elements(Site& site) {
  QUERN_TRY(check_indices(site, 1));
  QUERN_TRY(check_reduction(site));
  QUERN_TRY(NodeImport::axis(site.attributes.whole("axis"), site.dims(0).size()));
  bool fits = site.dims(1).size() == site.dims(0).size() && site.dims(2).size() == site.dims(1).size() &&
              site.type(2).dtype == site.type(0).dtype;
  for (size_t d = 0; fits && d < site.dims(1).size(); ++d) fits = site.same(site.dims(1)[d], site.dims(2)[d]);
  if (!fits)
    return invalid(fmt::format("indices of {} and updates {} do not fit {}; give an update per index",
                               ir::show_dims(site.dims(1)), ir::show_type(site.type(2)), ir::show_type(site.type(0))));
  return std::vector{site.type(0)};
}

Status reference_scatter_elements(Run& run) {
  const ir::Tensor &in = run.in(0), &indices = run.in(1), &updates = run.in(2);
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const std::string& reduction = run.attributes.text("reduction");
  std::ranges::copy(in.bytes(), run.out().write_bytes().begin());
  std::vector<int64_t> strides = strides_of(in.sizes());
  const int64_t stride = std::exchange(strides[axis], 0);
  Status status;
  walk(indices.sizes(), std::array{strides}, [&](size_t i, const auto& at) {
    if (!status.ok()) return;
    auto place = place_at(indices, i, in.sizes()[axis]);
    if (place.ok())
      join(run.out(), static_cast<size_t>(at[0] + *place * stride), updates, i, reduction);
    else
      status = std::move(place).error();
  });
  return status;
}

Result<std::vector<ir::Type>> infer_scatter_nd(Site& site) {
  QUERN_TRY(check_indices(site, 1));
  QUERN_TRY(check_reduction(site));
  const ir::Dims &data = site.dims(0), &indices = site.dims(1), &updates = site.dims(2);
  bool fits = !indices.empty() && indices.back().is_fixed() && site.type(2).dtype == site.type(0).dtype &&
              static_cast<size_t>(indices.back().fixed()) <= data.size();
  if (fits) {
    ir::Dims want(indices.begin(), indices.end() - 1);
    want.insert(want.end(), data.begin() + indices.back().fixed(), data.end());
    fits = want.size() == updates.size();
    for (size_t d = 0; fits && d < want.size(); ++d) fits = site.same(want[d], updates[d]);
  }
  if (!fits)
    return invalid(fmt::format("indices of {} and updates {} do not fit {}; give a slice per index",
                               ir::show_dims(indices), ir::show_type(site.type(2)), ir::show_type(site.type(0))));
  return std::vector{site.type(0)};
}

Status reference_scatter_nd(Run& run) {
  const ir::Tensor &in = run.in(0), &indices = run.in(1), &updates = run.in(2);
  std::ranges::copy(in.bytes(), run.out().write_bytes().begin());
  const auto depth = static_cast<size_t>(indices.sizes().back());
  const auto row = static_cast<size_t>(product(in.sizes(), depth, in.rank()));
  const auto count = static_cast<size_t>(product(indices.sizes(), 0, indices.rank() - 1));
  for (size_t i = 0; i < count && row > 0; ++i) {
    QUERN_TRY(const int64_t offset, slice_at(indices, i, depth, in.sizes(), 0));
    for (size_t k = 0; k < row; ++k)
      join(run.out(), static_cast<size_t>(offset) + k, updates, i * row + k, run.attributes.text("reduction"));
  }
  return {};
}

// Rules of ONNX.

Status import_gather(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId indices, node.in(1));
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", node.rank(x), 0));
  return node.become(node.op() == "Gather" ? "gather" : "gather_elements", {x, indices},
                     {{"axis", ir::Dim(static_cast<int64_t>(axis))}});
}

Status import_gather_nd(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId indices, node.in(1));
  QUERN_TRY(const int64_t batch, node.whole("batch_dims", 0));
  if (batch < 0) return invalid("attribute 'batch_dims' is negative; give 0 or more");
  return node.become("gather_nd", {x, indices}, {{"batch", ir::Dim(batch)}});
}

Status import_scatter(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId indices, node.in(1));
  QUERN_TRY(const ir::ValueId updates, node.in(2));
  QUERN_TRY(const std::string reduction, node.text("reduction", "none"));
  if (node.op() == "ScatterND") return node.become("scatter_nd", {x, indices, updates}, {{"reduction", reduction}});
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", node.rank(x), 0));
  return node.become("scatter_elements", {x, indices, updates},
                     {{"axis", ir::Dim(static_cast<int64_t>(axis))}, {"reduction", reduction}});
}

Family make_gather_family() {
  Family family;
  family.name = "elements by index";
  family.operators = {
      {.name = "gather",
       .attributes = {{"axis", ir::Dim(0), true}},
       .least_inputs = 2,
       .most_inputs = 2,
       .infer = infer_gather,
       .contents = contents_gather,
       .reference = reference_gather,
       .lower = kernel::any::lower_gather},
      {.name = "gather_elements",
       .attributes = {{"axis", ir::Dim(0), true}},
       .least_inputs = 2,
       .most_inputs = 2,
       .infer = infer_gather_elements,
       .reference = reference_gather_elements,
       .lower = kernel::any::lower_gather_elements},
      {.name = "gather_nd",
       .attributes = {{"batch", ir::Dim(0)}},
       .least_inputs = 2,
       .most_inputs = 2,
       .infer = infer_gather_nd,
       .reference = reference_gather_nd,
       .lower = kernel::any::lower_gather_nd},
      {.name = "scatter_elements",
       .attributes = {{"axis", ir::Dim(0), true}, {"reduction", std::string("none")}},
       .least_inputs = 3,
       .most_inputs = 3,
       .infer = infer_scatter_elements,
       .reference = reference_scatter_elements,
       .lower = kernel::any::lower_scatter_elements},
      {.name = "scatter_nd",
       .attributes = {{"reduction", std::string("none")}},
       .least_inputs = 3,
       .most_inputs = 3,
       .infer = infer_scatter_nd,
       .reference = reference_scatter_nd,
       .lower = kernel::any::lower_scatter_nd},
  };
  family.rules = {
      {.op = "Gather", .since = 1, .import = import_gather},
      {.op = "GatherElements", .since = 11, .import = import_gather},
      {.op = "GatherND", .since = 11, .import = import_gather_nd},
      {.op = "ScatterElements", .since = 11, .import = import_scatter},
      {.op = "Scatter", .since = 9, .import = import_scatter},
      {.op = "ScatterND", .since = 11, .import = import_scatter},
  };
  return family;
}

}  // namespace

const Family& gather_family() {
  static const Family family = make_gather_family();
  return family;
}

}  // namespace quern::model::op
