// SPDX-License-Identifier: Apache-2.0
//
// Tensors that grow: concat, which sets tensors side by side, and pad, which surrounds one.
#include <fmt/format.h>

#include <algorithm>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

Result<std::vector<ir::Type>> infer_concat(Site& site) {
  ir::Type out = site.type(0);
  QUERN_TRY(const size_t axis, NodeImport::axis(site.attributes.whole("axis"), out.rank()));
  for (size_t i = 1; i < site.inputs.size(); ++i) {
    const ir::Dims& dims = site.dims(i);
    bool fits = site.type(i).dtype == out.dtype && dims.size() == out.rank();
    for (size_t d = 0; fits && d < dims.size(); ++d) fits = d == axis || site.same(dims[d], out.dims[d]);
    if (!fits)
      return invalid(fmt::format("input {} is {} beside one of {}; give tensors that differ along axis {} alone", i,
                                 ir::show_type(site.type(i)), ir::show_type(site.type(0)), axis));
    out.dims[axis] = out.dims[axis] + dims[axis];
  }
  return std::vector{std::move(out)};
}

Status reference_concat(Run& run) {
  const auto axis = static_cast<size_t>(run.attributes.whole("axis"));
  const size_t size = size_of(run.out().dtype());
  // Seen from the axis, a tensor is rows of `row` bytes, one row of each input after the other.
  const auto row_of = [&](const ir::Tensor& tensor) {
    size_t row = size;
    for (size_t d = axis; d < tensor.rank(); ++d) row *= static_cast<size_t>(tensor.sizes()[d]);
    return row;
  };
  const size_t out_row = row_of(run.out());
  const auto out = run.out().write_bytes();
  size_t offset = 0;
  for (const ir::Tensor* in : run.inputs) {
    const size_t row = row_of(*in);
    for (size_t i = 0; row != 0 && i * row < in->bytes().size(); ++i)
      std::memcpy(out.data() + i * out_row + offset, in->bytes().data() + i * row, row);
    offset += row;
  }
  return {};
}

std::optional<ir::Dims> contents_concat(const Site& site) {
  ir::Dims out;
  for (size_t i = 0; i < site.inputs.size(); ++i) {
    const auto known = site.contents(i);
    if (!known || site.dims(i).size() != 1) return std::nullopt;
    out.insert(out.end(), known->begin(), known->end());
  }
  return out;
}

// pad: `begins` and `ends` elements are added to each dimension, none of them negative.

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };
constexpr std::string_view kPadModes[] = {"constant", "reflect", "edge", "wrap"};

Result<PadMode> pad_mode(std::string_view text) {
  for (size_t i = 0; i < std::size(kPadModes); ++i)
    if (text == kPadModes[i]) return static_cast<PadMode>(i);
  return invalid(fmt::format("mode is '{}'; give constant, reflect, edge or wrap", text));
}

Result<std::vector<ir::Type>> infer_pad(Site& site) {
  ir::Type out = site.type(0);
  const ir::Dims &begins = site.attributes.dims("begins"), &ends = site.attributes.dims("ends");
  QUERN_TRY(pad_mode(site.attributes.text("mode")));
  if (begins.size() != out.rank() || ends.size() != out.rank())
    return invalid(
        fmt::format("{} and {} pads for {} dimensions; give two for each", begins.size(), ends.size(), out.rank()));
  if (site.has(1) && (site.type(1).dtype != out.dtype || !ir::product_of(site.dims(1)).is(1)))
    return invalid(
        fmt::format("the value to pad with is {}; give one {}", ir::show_type(site.type(1)), name_of(out.dtype)));
  for (size_t d = 0; d < out.rank(); ++d) {
    if (ir::Dim::at_most(0, begins[d]) == false || ir::Dim::at_most(0, ends[d]) == false)
      return invalid(
          fmt::format("pads of {} and {}; slice to make a tensor smaller", begins[d].text(), ends[d].text()));
    out.dims[d] = begins[d] + out.dims[d] + ends[d];
  }
  return std::vector{std::move(out)};
}

// Where an element comes from along one dimension, for a place that may lie outside; -1: from nowhere.
int64_t source_of(PadMode mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      return at < 0 ? 0 : size - 1;
    case PadMode::kWrap:
      return (at % size + size) % size;
    case PadMode::kReflect:
      break;
  }
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1), phase = (at % period + period) % period;
  return phase < size ? phase : period - phase;
}

Status reference_pad(Run& run) {
  QUERN_TRY(const PadMode mode, pad_mode(run.attributes.text("mode")));
  const std::vector<int64_t> begins = run.attributes.wholes("begins");
  const ir::Sizes &from = run.in(0).sizes(), &to = run.out().sizes();
  const std::vector<int64_t> strides = strides_of(from);
  std::vector<std::vector<int64_t>> sources(to.size());
  for (size_t d = 0; d < to.size(); ++d)
    for (int64_t i = 0; i < to[d]; ++i) {
      if (from[d] == 0 && mode != PadMode::kConstant)
        return invalid("nothing to repeat in a dimension of size 0; pad with a constant");
      sources[d].push_back(source_of(mode, i - begins[d], from[d]));
    }
  const size_t size = size_of(run.out().dtype());
  const auto in = run.in(0).bytes(), value = run.has(1) ? run.in(1).bytes() : std::span<const std::byte>();
  const auto out = run.out().write_bytes();
  const std::vector<int64_t> places = strides_of(to);
  walk(to, std::array{places}, [&](size_t i, const auto&) {
    int64_t offset = 0;
    bool is_outside = false;
    for (size_t d = 0; d < to.size(); ++d) {
      const int64_t source = sources[d][i / static_cast<size_t>(places[d]) % static_cast<size_t>(to[d])];
      is_outside = is_outside || source < 0;
      offset += source * strides[d];
    }
    if (!is_outside)
      std::memcpy(out.data() + i * size, in.data() + static_cast<size_t>(offset) * size, size);
    else if (!value.empty())
      std::memcpy(out.data() + i * size, value.data(), size);
  });
  return {};
}

// Pads that are negative take elements away, which a slice does.
Status import_pads(NodeImport& node, const ir::Dims& begins, const ir::Dims& ends, ir::ValueId value) {
  QUERN_TRY(ir::ValueId x, node.in(0));
  QUERN_TRY(const std::string mode, node.text("mode", "constant"));
  const ir::Dims from = node.type(x).dims;
  ir::Dims starts(from.size(), 0), sizes = from, before = begins, after = ends;
  bool is_cropped = false;
  for (size_t d = 0; d < from.size(); ++d) {
    for (const bool is_begin : {true, false}) {
      ir::Dim& pad = is_begin ? before[d] : after[d];
      const auto grows = ir::Dim::at_most(0, pad);
      if (!grows) return unsupported("whether a pad is negative depends on free dims; fix them");
      if (*grows) continue;
      if (is_begin) starts[d] = ir::Dim(0) - pad;
      sizes[d] = sizes[d] + pad;
      pad = 0;
      is_cropped = true;
    }
  }
  if (is_cropped) {
    QUERN_TRY(x, node.emit("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", ir::Dims(from.size(), 1)}}));
  }
  std::vector<ir::ValueId> inputs = {x};
  if (value != ir::kNone && mode == "constant") inputs.push_back(value);
  return node.become("pad", std::move(inputs), {{"mode", mode}, {"begins", before}, {"ends", after}});
}

Status import_pad_2(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const auto pads, node.wholes("pads"));
  QUERN_TRY(const double value, node.real("value", 0));
  const size_t rank = node.rank(x);
  if (!pads || pads->size() != 2 * rank)
    return invalid("attribute 'pads' has not two numbers for each dimension; give them");
  const ir::Dims all = ir::dims_of(*pads);
  const auto middle = all.begin() + static_cast<ptrdiff_t>(rank);
  return import_pads(node, ir::Dims(all.begin(), middle), ir::Dims(middle, all.end()),
                     value == 0 ? ir::kNone : node.number(node.type(x).dtype, value));
}

Status import_pad_11(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const size_t rank = node.rank(x);
  QUERN_TRY(const ir::Dims pads, node.numbers(1, "the number of pads"));
  std::vector<int64_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  if (node.version() >= 18 && node.has(3)) {
    QUERN_TRY(axes, node.fixed_numbers(3, "the list of axes"));
  }
  if (pads.size() != 2 * axes.size())
    return invalid(fmt::format("{} pads for {} axes; give two for each", pads.size(), axes.size()));
  ir::Dims begins(rank, 0), ends(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    QUERN_TRY(const size_t axis, NodeImport::axis(axes[i], rank));
    begins[axis] = pads[i];
    ends[axis] = pads[axes.size() + i];
  }
  return import_pads(node, begins, ends, node.in_or_none(2));
}

Status import_concat(NodeImport& node) {
  std::vector<ir::ValueId> inputs;
  for (size_t i = 0; i < node.inputs(); ++i) {
    QUERN_TRY(const ir::ValueId input, node.in(i));
    inputs.push_back(input);
  }
  if (inputs.empty()) return invalid("it has no inputs; give at least one");
  QUERN_TRY(const size_t axis, node.axis_attribute("axis", node.rank(inputs[0])));
  if (inputs.size() == 1) return node.set(0, inputs[0]), Status();
  return node.become("concat", std::move(inputs), {{"axis", ir::Dim(static_cast<int64_t>(axis))}});
}

Family make_join_family() {
  Family family;
  family.name = "larger tensors of smaller ones";
  family.operators = {
      {.name = "concat",
       .attributes = {{"axis", ir::Dim(0), true}},
       .most_inputs = kAnyNumber,
       .infer = infer_concat,
       .contents = contents_concat,
       .reference = reference_concat,
       .lower = kernel::any::lower_concat},
      {.name = "pad",
       .attributes = {{"mode", std::string("constant")}, {"begins", ir::Dims(), true}, {"ends", ir::Dims(), true}},
       .most_inputs = 2,
       .infer = infer_pad,
       .reference = reference_pad,
       .lower = kernel::any::lower_pad},
  };
  family.rules = {
      {.op = "Concat", .since = 4, .import = import_concat},
      {.op = "Pad", .since = 2, .import = import_pad_2},
      {.op = "Pad", .since = 11, .import = import_pad_11},
  };
  return family;
}

}  // namespace

const Family& join_family() {
  static const Family family = make_join_family();
  return family;
}

}  // namespace quern::model::op
