// SPDX-License-Identifier: Apache-2.0
//
// One launch per axis whose size changes, over scratch in between: weights along one axis do not depend on the others.
#include "model/kernel/any/any.h"
#include "model/kernel/code.h"

namespace quern::model::kernel::any {
namespace {

// Statements that set `place` to where output x along the axis lies in the input.
void emit_transform(Writer& writer, const ir::Attributes& attributes, size_t axis, std::string_view type,
                    const std::string& in, const std::string& out, Dtype dtype) {
  const std::string& transform = attributes.text("transform");
  const double given = attributes.reals("scales")[axis];
  const std::string scale = given == 0 ? fmt::format("(({0}){1} / ({0}){2})", type, out, in) : literal(dtype, given);
  const std::vector<double>& region = attributes.reals("region");
  const std::string half = literal(dtype, 0.5);
  std::string place;
  if (transform == "asymmetric") {
    place = fmt::format("x / {}", scale);
  } else if (transform == "align_corners") {
    const std::string last = fmt::format("({} * {} - 1)", scale, in);
    place = fmt::format("({0} == 0 ? 0 : x * ({1})({2} - 1) / {0})", last, type, in);
  } else if (transform == "pytorch_half_pixel") {
    place = fmt::format("({0} > 1 ? (x + {1}) / {2} - {1} : 0)", out, half, scale);
  } else if (transform == "tf_half_pixel_for_nn") {
    place = fmt::format("(x + {}) / {}", half, scale);
  } else if (transform == "tf_crop_and_resize") {
    const std::string begin = literal(dtype, region[axis]), end = literal(dtype, region[region.size() / 2 + axis]);
    place = fmt::format(
        "({0} > 1 ? {1} * ({2} - 1) + x * ({3} - {1}) * ({2} - 1) / ({0} - 1) : {4} * ({1} + {3}) * ({2} - 1))", out,
        begin, in, end, half);
  } else if (transform == "half_pixel_symmetric") {
    place = fmt::format("{0} * {1} * (1 - {2} / ({3} * {0})) + (x + {1}) / {3} - {1}", in, half, out, scale);
  } else {
    place = fmt::format("(x + {0}) / {1} - {0}", half, scale);
  }
  writer.line("const {} place = {};", type, place);
  writer.line("const {} scale = {};", type, scale);
}

// Statements that set `value` from the taps around `place`; `base` and `stride` say where the axis lies.
void emit_taps(Writer& writer, const ir::Attributes& attributes, std::string_view type, const std::string& size,
               Dtype from, Dtype dtype, const std::string& pointer, const std::string& stride) {
  const std::string& mode = attributes.text("mode");
  const auto element = [&](std::string_view index) {
    return load(from, pointer, fmt::format("base + {} * {}", index, stride));
  };
  if (mode == "nearest") {
    const std::string& rounding = attributes.text("nearest");
    const std::string half = literal(dtype, 0.5);
    const std::string rounded = rounding == "floor"               ? "floor(place)"
                                : rounding == "ceil"              ? "ceil(place)"
                                : rounding == "round_prefer_ceil" ? fmt::format("floor(place + {})", half)
                                                                  : fmt::format("ceil(place - {})", half);
    writer.line("value = {};", element(fmt::format("clamp((long){}, 0L, (long){} - 1)", rounded, size)));
    return;
  }
  const bool is_cubic = mode == "cubic", excludes = attributes.flag("exclude_outside"),
             antialias = attributes.flag("antialias");
  writer.line("const {} shrink = {};", type, antialias ? "(scale < 1 ? scale : 1)" : "1");
  writer.line("const {} reach = {} / shrink;", type, is_cubic ? "2" : "1");
  writer.line("{} sum = 0;", type);
  writer.line("for (long k = (long)floor(place - reach) + 1; k < place + reach; ++k) {{");
  writer.line("const {} d = fabs((k - place) * shrink);", type);
  if (is_cubic) {
    const std::string a = literal(dtype, attributes.real("cubic_a"));
    writer.line(
        "{0} weight = d <= 1 ? (({1} + 2) * d - ({1} + 3)) * d * d + 1 : d < 2 ? (({1} * d - 5 * {1}) * d + 8 * {1}) * "
        "d - 4 * {1} : 0;",
        type, a);
  } else {
    writer.line("{} weight = d < 1 ? 1 - d : 0;", type);
  }
  if (excludes) writer.line("if (k < 0 || k >= {}) weight = 0;", size);
  if (!excludes && antialias && !is_cubic) writer.line("if (shrink < 1 && (k < 0 || k >= {})) weight = 0;", size);
  writer.line("sum += weight;");
  writer.line("value += weight * {};", element(fmt::format("clamp(k, 0L, (long){} - 1)", size)));
  writer.line("}}");
  writer.line("value = sum == 0 ? {} : value / sum;",
              element(fmt::format("clamp((long)rint(place), 0L, (long){} - 1)", size)));
}

}  // namespace

Status lower_resize(Lowering& lowering) {
  const ir::Attributes& attributes = lowering.attributes();
  const ir::Dims& to = lowering.result().dims;
  const std::vector<double>&scales = attributes.reals("scales"), &region = attributes.reals("region");
  const Dtype dtype = lowering.type(0).dtype, wide = dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32;
  const std::string_view type = compute_type(wide);
  ir::Dims dims = lowering.type(0).dims;
  std::vector<size_t> axes;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool is_whole = region.empty() || (region[d] == 0 && region[dims.size() + d] == 1);
    if (!(dims[d] == to[d]) || (scales[d] != 1 && scales[d] != 0) || !is_whole) axes.push_back(d);
  }
  if (axes.empty()) return lower_copy(lowering);
  BufferId from = lowering.in(0);
  Dtype from_dtype = dtype;
  for (size_t a = 0; a < axes.size(); ++a) {
    const size_t axis = axes[a];
    const bool is_last = a + 1 == axes.size();
    const ir::Dim before = dims[axis];
    dims[axis] = to[axis];
    Writer writer(lowering);
    const std::string in = writer.whole(before), out = writer.whole(to[axis]);
    const std::string stride =
        writer.whole(ir::product_of(ir::Dims(dims.begin() + static_cast<ptrdiff_t>(axis) + 1, dims.end())));
    writer.line("const long i = get_global_id(0);");
    writer.line("const long x = i / {0} % {1}, base = i / {0} / {1} * {2} * {0} + i % {0};", stride, out, in);
    emit_transform(writer, attributes, axis, type, in, out, wide);
    writer.line("{} value = 0;", type);
    const std::string pointer = writer.in(from, from_dtype);
    emit_taps(writer, attributes, type, in, from_dtype, wide, pointer, stride);
    if (attributes.text("transform") == "tf_crop_and_resize")
      writer.line("if (place < 0 || place > {} - 1) value = {};", in, literal(wide, attributes.real("outside")));
    if (is_last) {
      finish(writer, lowering, "i", fmt::format("({})value", compute_type(lowering.made_dtype())));
    } else {
      from = lowering.scratch({wide, dims});
      from_dtype = wide;
      writer.line("{}[i] = value;", writer.out(from, wide));
    }
    writer.launch("resize", {ir::product_of(dims)});
  }
  return {};
}

}  // namespace quern::model::kernel::any
