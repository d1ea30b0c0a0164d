// SPDX-License-Identifier: Apache-2.0
//
// The same elements in other places: reshape, transpose, broadcast and slice. Each is a view of its input, an offset
// and a stride per dimension, which the reference copies. Many ONNX operators are one of them or a few in a row.
#include <fmt/format.h>

#include <algorithm>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

Status copy_view(const ir::Tensor& from, ir::Tensor& to, int64_t offset, std::vector<int64_t> strides) {
  const size_t size = size_of(from.dtype());
  const auto in = from.bytes();
  const auto out = to.write_bytes();
  walk(to.sizes(), std::array{std::move(strides)}, [&](size_t i, const auto& at) {
    std::memcpy(out.data() + i * size, in.data() + static_cast<size_t>(offset + at[0]) * size, size);
  });
  return {};
}

// reshape

Result<std::vector<ir::Type>> infer_reshape(Site& site) {
  const ir::Dims& shape = site.attributes.dims("shape");
  if (!site.same(ir::product_of(site.dims(0)), ir::product_of(shape)))
    return invalid(fmt::format("a tensor of {} cannot become {}; give sizes with as many elements",
                               ir::show_dims(site.dims(0)), ir::show_dims(shape)));
  return std::vector{ir::Type{site.type(0).dtype, shape}};
}

Status reference_reshape(Run& run) {
  if (run.in(0).elements() != run.out().elements())
    return invalid(fmt::format("{} elements become {}; give sizes with as many elements", run.in(0).elements(),
                               run.out().elements()));
  std::ranges::copy(run.in(0).bytes(), run.out().write_bytes().begin());
  return {};
}

std::optional<ir::Dims> same_contents(const Site& site) { return site.contents(0); }

// transpose

Result<std::vector<ir::Type>> infer_transpose(Site& site) {
  const std::vector<int64_t> order = site.attributes.wholes("order");
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool is_order = order.size() == site.dims(0).size();
  for (size_t i = 0; i < sorted.size(); ++i) is_order = is_order && sorted[i] == static_cast<int64_t>(i);
  if (!is_order)
    return invalid(
        fmt::format("{} is no order of {} dimensions; name each once", ir::show_sizes(order), site.dims(0).size()));
  ir::Dims dims;
  for (const int64_t axis : order) dims.push_back(site.dims(0)[static_cast<size_t>(axis)]);
  return std::vector{ir::Type{site.type(0).dtype, std::move(dims)}};
}

Status reference_transpose(Run& run) {
  const std::vector<int64_t> own = strides_of(run.in(0).sizes());
  std::vector<int64_t> strides;
  for (const int64_t axis : run.attributes.wholes("order")) strides.push_back(own[static_cast<size_t>(axis)]);
  return copy_view(run.in(0), run.out(), 0, std::move(strides));
}

// broadcast

Result<std::vector<ir::Type>> infer_broadcast(Site& site) {
  const ir::Dims &from = site.dims(0), &to = site.attributes.dims("shape");
  bool fits = from.size() <= to.size();
  for (size_t i = 0; fits && i < from.size(); ++i)
    fits = from[i].is(1) || site.same(from[i], to[to.size() - from.size() + i]);
  if (!fits)
    return invalid(fmt::format("a tensor of {} cannot be repeated to {}; give sizes that fit", ir::show_dims(from),
                               ir::show_dims(to)));
  return std::vector{ir::Type{site.type(0).dtype, to}};
}

Status reference_broadcast(Run& run) {
  return copy_view(run.in(0), run.out(), 0, repeated_strides(run.in(0).sizes(), run.out().sizes()));
}

std::optional<ir::Dims> contents_broadcast(const Site& site) {
  const auto known = site.contents(0);
  const auto from = ir::fixed_of(site.dims(0)), to = ir::fixed_of(site.attributes.dims("shape"));
  if (!known || !from || !to) return std::nullopt;
  const auto count = ir::elements_of(*to);
  if (!count || *count > static_cast<int64_t>(ir::kMostContents)) return std::nullopt;
  ir::Dims out;
  walk(*to, std::array{repeated_strides(*from, *to)},
       [&](size_t, const auto& at) { out.push_back((*known)[static_cast<size_t>(at[0])]); });
  return out;
}

// slice: `starts` are in range, and `sizes` elements are taken every `steps`.

Result<std::vector<ir::Type>> infer_slice(Site& site) {
  const size_t rank = site.dims(0).size();
  for (const char* name : {"starts", "sizes", "steps"})
    if (site.attributes.dims(name).size() != rank)
      return invalid(fmt::format("'{}' has {} numbers for {} dimensions; give one for each", name,
                                 site.attributes.dims(name).size(), rank));
  return std::vector{ir::Type{site.type(0).dtype, site.attributes.dims("sizes")}};
}

Status reference_slice(Run& run) {
  std::vector<int64_t> strides = strides_of(run.in(0).sizes());
  const auto starts = run.attributes.wholes("starts"), steps = run.attributes.wholes("steps");
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t size = run.out().sizes()[i], last = starts[i] + (size - 1) * steps[i];
    const int64_t limit = run.in(0).sizes()[i];
    if (size > 0 && (starts[i] < 0 || starts[i] >= limit || last < 0 || last >= limit))
      return invalid(fmt::format("elements {} to {} of a dimension of {} are asked for; give a range inside", starts[i],
                                 last, limit));
    offset += starts[i] * strides[i];
    strides[i] *= steps[i];
  }
  return copy_view(run.in(0), run.out(), offset, std::move(strides));
}

std::optional<ir::Dims> contents_slice(const Site& site) {
  const auto known = site.contents(0);
  const auto from = ir::fixed_of(site.dims(0)), sizes = ir::fixed_of(site.attributes.dims("sizes"));
  const auto starts = ir::fixed_of(site.attributes.dims("starts")), steps = ir::fixed_of(site.attributes.dims("steps"));
  if (!known || !from || from->size() != 1 || !sizes || !starts || !steps) return std::nullopt;
  ir::Dims out;
  for (int64_t i = 0; i < (*sizes)[0]; ++i) {
    const int64_t at = (*starts)[0] + i * (*steps)[0];
    if (at < 0 || at >= static_cast<int64_t>(known->size())) return std::nullopt;
    out.push_back((*known)[static_cast<size_t>(at)]);
  }
  return out;
}

// Rules of ONNX.

Status import_reshape(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(ir::Dims shape, node.numbers(1, "the shape"));
  const bool allows_zero = node.version() >= 14;
  QUERN_TRY(const bool keeps_zero, allows_zero ? node.flag("allowzero", false) : Result<bool>(false));
  const ir::Dims& from = node.type(x).dims;
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is(0) && !keeps_zero) {
      if (i >= from.size())
        return invalid(
            fmt::format("size {} is to be that of the input, which has {} dimensions; state it", i, from.size()));
      shape[i] = from[i];
    } else if (shape[i].is(-1)) {
      if (open) return invalid("two sizes are -1; state one of them");
      open = i;
    }
  }
  if (open) {
    ir::Dim others = 1;
    for (size_t i = 0; i < shape.size(); ++i)
      if (i != *open) others = others * shape[i];
    if (others.is(0)) return invalid("a size of -1 beside one of 0; state all sizes");
    shape[*open] = floor_div(ir::product_of(from), others);
  }
  QUERN_TRY(const ir::ValueId y, node.reshape(x, shape));
  node.set(0, y);
  return {};
}

Status import_flatten(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const ir::Dims& from = node.type(x).dims;
  QUERN_TRY(int64_t axis, node.whole("axis", 1));
  if (axis < 0) axis += static_cast<int64_t>(from.size());
  if (axis < 0 || axis > static_cast<int64_t>(from.size()))
    return invalid(fmt::format("axis {} of a tensor with {} dimensions; give one inside", axis, from.size()));
  const auto middle = from.begin() + axis;
  QUERN_TRY(const ir::ValueId y, node.reshape(x, {ir::product_of(ir::Dims(from.begin(), middle)),
                                                  ir::product_of(ir::Dims(middle, from.end()))}));
  node.set(0, y);
  return {};
}

// Axes are an attribute before version 13, then an optional input.
Result<std::optional<std::vector<int64_t>>> axes_of(NodeImport& node) {
  if (node.version() < 13) return node.wholes("axes");
  if (!node.has(1)) return std::optional<std::vector<int64_t>>();
  QUERN_TRY(std::vector<int64_t> axes, node.fixed_numbers(1, "the list of axes"));
  return std::optional(std::move(axes));
}

Status import_squeeze(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const ir::Dims from = node.type(x).dims;
  QUERN_TRY(auto given, axes_of(node));
  std::vector<int64_t> dropped;
  if (given) {
    QUERN_TRY(dropped, NodeImport::axes(*given, from.size()));
  } else {
    for (size_t i = 0; i < from.size(); ++i) {
      const auto is_one = ir::Dim::same(from[i], 1);
      if (!is_one) return unsupported("which sizes are 1 depends on free dims; name the axes");
      if (*is_one) dropped.push_back(static_cast<int64_t>(i));
    }
  }
  ir::Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool is_dropped = std::binary_search(dropped.begin(), dropped.end(), static_cast<int64_t>(i));
    if (!is_dropped) dims.push_back(from[i]);
    if (is_dropped && ir::Dim::same(from[i], 1) == false)
      return invalid(fmt::format("size {} is {}, and only sizes of 1 can go; name another axis", i, from[i].text()));
  }
  QUERN_TRY(const ir::ValueId y, node.reshape(x, dims));
  node.set(0, y);
  return {};
}

Status import_unsqueeze(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(auto given, axes_of(node));
  if (!given) return invalid("the list of axes is missing; state it");
  ir::Dims dims = node.type(x).dims;
  QUERN_TRY(const std::vector<int64_t> axes, NodeImport::axes(*given, dims.size() + given->size()));
  for (const int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
  QUERN_TRY(const ir::ValueId y, node.reshape(x, dims));
  node.set(0, y);
  return {};
}

Status import_transpose(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(auto order, node.wholes("perm"));
  if (!order) {
    order.emplace();
    for (size_t i = node.rank(x); i-- > 0;) order->push_back(static_cast<int64_t>(i));
  }
  for (int64_t& axis : *order) {
    QUERN_TRY(const size_t from_front, NodeImport::axis(axis, node.rank(x)));
    axis = static_cast<int64_t>(from_front);
  }
  if (order->size() != node.rank(x)) return invalid("attribute 'perm' has another number of axes; name each once");
  QUERN_TRY(const ir::ValueId y, node.transpose(x, *order));
  node.set(0, y);
  return {};
}

Status import_expand(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(ir::Dims shape, node.numbers(1, "the shape"));
  const ir::Dims& from = node.type(x).dims;
  if (shape.size() < from.size()) shape.insert(shape.begin(), from.size() - shape.size(), 1);
  // A size of 1 asks for that of the input.
  for (size_t i = 0; i < from.size(); ++i) {
    ir::Dim& to = shape[shape.size() - from.size() + i];
    if (to.is(1)) to = from[i];
  }
  QUERN_TRY(const ir::ValueId y, node.broadcast(x, shape));
  node.set(0, y);
  return {};
}

// [a, b] repeated [r, s] times is [1, a, 1, b] broadcast to [r, a, s, b].
Status import_tile(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::Dims repeats, node.numbers(1, "the number of repetitions"));
  const ir::Dims from = node.type(x).dims;
  if (repeats.size() != from.size())
    return invalid(fmt::format("{} repetitions for {} dimensions; give one for each", repeats.size(), from.size()));
  ir::Dims single, repeated, result;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!repeats[i].is(1)) {
      single.push_back(1);
      repeated.push_back(repeats[i]);
    }
    single.push_back(from[i]);
    repeated.push_back(from[i]);
    result.push_back(from[i] * repeats[i]);
  }
  QUERN_TRY(ir::ValueId y, node.reshape(x, single));
  QUERN_TRY(y, node.broadcast(y, repeated));
  QUERN_TRY(y, node.reshape(y, result));
  node.set(0, y);
  return {};
}

// `start` or `end` of a slice as a place in [least, most], counted from the front.
Result<ir::Dim> place_of(const ir::Dim& given, const ir::Dim& size, const ir::Dim& least, const ir::Dim& most) {
  const auto is_from_end = ir::Dim::at_most(given, -1);
  if (!is_from_end) return unsupported("whether a bound counts from the end depends on free dims; fix them");
  return min(max(*is_from_end ? given + size : given, least), most);
}

Status import_slice_of(NodeImport& node, const ir::Dims& starts, const ir::Dims& ends,
                       const std::optional<std::vector<int64_t>>& axes, const std::vector<int64_t>& steps) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const ir::Dims from = node.type(x).dims;
  const size_t count = starts.size();
  if (ends.size() != count || (axes && axes->size() != count) || (!steps.empty() && steps.size() != count))
    return invalid("starts, ends, axes and steps differ in length; give one of each per axis");
  ir::Dims all_starts(from.size(), 0), all_sizes = from, all_steps(from.size(), 1);
  for (size_t i = 0; i < count; ++i) {
    QUERN_TRY(const size_t axis, NodeImport::axis(axes ? (*axes)[i] : static_cast<int64_t>(i), from.size()));
    const int64_t step = steps.empty() ? 1 : steps[i];
    if (step == 0 || step == INT64_MIN) return invalid(fmt::format("a step of {}; give another", step));
    const ir::Dim size = from[axis], none = step > 0 ? 0 : -1, last = step > 0 ? size : size - 1;
    QUERN_TRY(const ir::Dim start, place_of(starts[i], size, 0, last));
    QUERN_TRY(const ir::Dim end, place_of(ends[i], size, none, last));
    all_starts[axis] = start;
    all_sizes[axis] = max(step > 0 ? ceil_div(end - start, step) : ceil_div(start - end, -step), 0);
    all_steps[axis] = step;
  }
  return node.become("slice", {x}, {{"starts", all_starts}, {"sizes", all_sizes}, {"steps", all_steps}});
}

Status import_slice_1(NodeImport& node) {
  QUERN_TRY(const auto starts, node.wholes("starts"));
  QUERN_TRY(const auto ends, node.wholes("ends"));
  QUERN_TRY(const auto axes, node.wholes("axes"));
  if (!starts || !ends) return invalid("attributes 'starts' and 'ends' are missing; state them");
  return import_slice_of(node, ir::dims_of(*starts), ir::dims_of(*ends), axes, {});
}

Status import_slice_10(NodeImport& node) {
  QUERN_TRY(const ir::Dims starts, node.numbers(1, "the start"));
  QUERN_TRY(const ir::Dims ends, node.numbers(2, "the end"));
  std::optional<std::vector<int64_t>> axes;
  if (node.has(3)) {
    QUERN_TRY(axes, node.fixed_numbers(3, "the list of axes"));
  }
  std::vector<int64_t> steps;
  if (node.has(4)) {
    QUERN_TRY(steps, node.fixed_numbers(4, "the step"));
  }
  return import_slice_of(node, starts, ends, axes, steps);
}

// Every part of a split is a slice.
Status import_split(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const ir::Dims from = node.type(x).dims;
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", from.size(), 0));
  const auto parts = static_cast<int64_t>(node.outputs());
  ir::Dims sizes;
  if (node.version() < 13) {
    QUERN_TRY(const auto given, node.wholes("split"));
    if (given) sizes = ir::dims_of(*given);
  } else if (node.has(1)) {
    QUERN_TRY(sizes, node.numbers(1, "the list of sizes"));
  }
  const bool has_count = node.version() >= 18;
  if (has_count) {
    QUERN_TRY(const int64_t count, node.whole("num_outputs", parts));
    if (count != parts) return invalid(fmt::format("{} outputs and num_outputs={}; give the same", parts, count));
  }
  if (sizes.empty()) {
    // Since version 18 the last part may be smaller.
    const ir::Dim size = has_count ? ceil_div(from[axis], parts) : floor_div(from[axis], parts);
    sizes.assign(static_cast<size_t>(parts), size);
    if (has_count) sizes.back() = from[axis] - size * ir::Dim(parts - 1);
  }
  if (sizes.size() != static_cast<size_t>(parts))
    return invalid(fmt::format("{} sizes for {} outputs; give one for each", sizes.size(), parts));
  ir::Dim sum = 0;
  for (const ir::Dim& size : sizes) sum = sum + size;
  QUERN_TRY(node.require(sum, from[axis], "the sizes of a split"));
  ir::Dims starts(from.size(), 0), taken = from;
  for (size_t i = 0; i < sizes.size(); ++i) {
    taken[axis] = sizes[i];
    if (node.wants(i)) {
      QUERN_TRY(const ir::ValueId part,
                node.emit("slice", {x}, {{"starts", starts}, {"sizes", taken}, {"steps", ir::Dims(from.size(), 1)}}));
      node.set(i, part);
    }
    starts[axis] = starts[axis] + sizes[i];
  }
  return {};
}

Status import_identity(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  node.set(0, x);
  return {};
}

// Without training, a dropout passes its input on, and its mask keeps all.
Status import_dropout(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  node.ignore("ratio");
  node.ignore("seed");
  if (node.has(2)) {
    QUERN_TRY(const ir::Tensor training, node.constant_input(2, "training_mode"));
    if (training.elements() != 1 || training.whole(0) != 0)
      return unsupported("training is not supported; export the model for inference");
  }
  node.set(0, x);
  if (!node.wants(1)) return {};
  const ir::ValueId kept = node.number(node.version() < 10 ? node.type(x).dtype : Dtype::kBool, 1);
  QUERN_TRY(const ir::ValueId mask, node.broadcast(kept, node.type(x).dims));
  node.set(1, mask);
  return {};
}

Status import_depth_to_space(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const int64_t block, node.whole("blocksize"));
  QUERN_TRY(const std::string mode, node.text("mode", "DCR"));
  const ir::Dims d = node.type(x).dims;
  if (d.size() != 4 || block < 1) return invalid("it takes 4 dimensions and blocks of at least 1; reshape the input");
  if (mode != "DCR" && mode != "CRD") return invalid(fmt::format("attribute 'mode' is '{}'; give DCR or CRD", mode));
  const ir::Dim b = block, channels = floor_div(d[1], b * b);
  const bool is_dcr = mode == "DCR";
  QUERN_TRY(ir::ValueId y, node.reshape(x, is_dcr ? ir::Dims{d[0], b, b, channels, d[2], d[3]}
                                                  : ir::Dims{d[0], channels, b, b, d[2], d[3]}));
  QUERN_TRY(
      y, node.transpose(y, is_dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3}));
  QUERN_TRY(y, node.reshape(y, {d[0], channels, d[2] * b, d[3] * b}));
  node.set(0, y);
  return {};
}

Status import_space_to_depth(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const int64_t block, node.whole("blocksize"));
  const ir::Dims d = node.type(x).dims;
  if (d.size() != 4 || block < 1) return invalid("it takes 4 dimensions and blocks of at least 1; reshape the input");
  const ir::Dim b = block, height = floor_div(d[2], b), width = floor_div(d[3], b);
  QUERN_TRY(ir::ValueId y, node.reshape(x, {d[0], d[1], height, b, width, b}));
  QUERN_TRY(y, node.transpose(y, {0, 3, 5, 1, 2, 4}));
  QUERN_TRY(y, node.reshape(y, {d[0], d[1] * b * b, height, width}));
  node.set(0, y);
  return {};
}

Family make_view_family() {
  Family family;
  family.name = "the same elements in other places";
  family.operators = {
      {.name = "reshape",
       .attributes = {{"shape", ir::Dims(), true}},
       .infer = infer_reshape,
       .contents = same_contents,
       .reference = reference_reshape,
       .lower = kernel::any::lower_copy},
      {.name = "transpose",
       .attributes = {{"order", ir::Dims(), true}},
       .infer = infer_transpose,
       .reference = reference_transpose,
       .lower = kernel::any::lower_transpose},
      {.name = "broadcast",
       .attributes = {{"shape", ir::Dims(), true}},
       .infer = infer_broadcast,
       .contents = contents_broadcast,
       .reference = reference_broadcast,
       .lower = kernel::any::lower_broadcast},
      {.name = "slice",
       .attributes = {{"starts", ir::Dims(), true}, {"sizes", ir::Dims(), true}, {"steps", ir::Dims(), true}},
       .infer = infer_slice,
       .contents = contents_slice,
       .reference = reference_slice,
       .lower = kernel::any::lower_slice},
  };
  family.rules = {
      {.op = "Reshape", .since = 5, .import = import_reshape},
      {.op = "Flatten", .since = 1, .import = import_flatten},
      {.op = "Squeeze", .since = 1, .import = import_squeeze},
      {.op = "Unsqueeze", .since = 1, .import = import_unsqueeze},
      {.op = "Transpose", .since = 1, .import = import_transpose},
      {.op = "Expand", .since = 8, .import = import_expand},
      {.op = "Tile", .since = 6, .import = import_tile},
      {.op = "Slice", .since = 1, .import = import_slice_1},
      {.op = "Slice", .since = 10, .import = import_slice_10},
      {.op = "Split", .since = 2, .import = import_split},
      {.op = "Identity", .since = 1, .import = import_identity},
      {.op = "Dropout", .since = 7, .import = import_dropout},
      {.op = "DepthToSpace", .since = 1, .import = import_depth_to_space},
      {.op = "SpaceToDepth", .since = 1, .import = import_space_to_depth},
  };
  return family;
}

}  // namespace

const Family& view_family() {
  static const Family family = make_view_family();
  return family;
}

}  // namespace quern::model::op
