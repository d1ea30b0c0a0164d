// SPDX-License-Identifier: Apache-2.0
//
// Matrix products, convolutions, pools and attention: a work-item sums up one element.
#include <algorithm>

#include "model/kernel/any/any.h"
#include "model/kernel/code.h"

namespace quern::model::kernel::any {
namespace {

/// A list of spatial numbers in three dimensions; leading ones are `missing`.
std::vector<ir::Dim> in_three(const ir::Dims& list, const ir::Dim& missing) {
  std::vector<ir::Dim> out(3 - list.size(), missing);
  out.insert(out.end(), list.begin(), list.end());
  return out;
}
ir::Dims space_of_dims(const ir::Dims& dims) { return ir::Dims(dims.begin() + 2, dims.end()); }

// The type that products are summed in.
std::string_view sum_type(Dtype dtype) { return compute_type(dtype); }

constexpr std::string_view kAxes[] = {"d", "h", "w"};

/// What the loops over a window need, as names of parameters.
struct WindowNames {
  std::string in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  std::vector<ir::Dim> kernel_dims;

  WindowNames(Writer& writer, const Lowering& lowering, const ir::Dims& kernel_sizes)
      : kernel_dims(in_three(kernel_sizes, 1)) {
    const ir::Attributes& attributes = lowering.attributes();
    ir::Dims begins = attributes.dims("pads");
    begins.resize(begins.size() / 2);
    const auto x = in_three(space_of_dims(lowering.type(0).dims), 1),
               y = in_three(space_of_dims(lowering.result().dims), 1);
    const auto strides = in_three(attributes.dims("strides"), 1), dilations = in_three(attributes.dims("dilations"), 1);
    const auto pads = in_three(begins, 0);
    for (size_t d = 0; d < 3; ++d) {
      in[d] = writer.whole(x[d]);
      out[d] = writer.whole(y[d]);
      kernel[d] = writer.whole(kernel_dims[d]);
      stride[d] = writer.whole(strides[d]);
      pad[d] = writer.whole(pads[d]);
      dilation[d] = writer.whole(dilations[d]);
    }
  }
  // Takes place i of the output apart: n, channel c, and od, oh, ow.
  void emit_place(Writer& writer, const std::string& channels) const {
    writer.line("const long i = get_global_id(0);");
    writer.line("const long ow = i % {0}, oh = i / {0} % {1}, od = i / {0} / {1} % {2};", out[2], out[1], out[0]);
    writer.line("const long plane = i / {0} / {1} / {2}, c = plane % {3}, n = plane / {3};", out[2], out[1], out[0],
                channels);
  }
  // Opens a loop over the taps of a window, with the place of each in the input as id, ih, iw. `outside` is what
  // happens outside of the input.
  void emit_taps(Writer& writer, std::string_view outside) const {
    for (size_t d = 0; d < 3; ++d) {
      writer.line("for (long k{0} = 0; k{0} < {1}; ++k{0}) {{", kAxes[d], kernel[d]);
      writer.line("const long i{0} = o{0} * {1} - {2} + k{0} * {3};", kAxes[d], stride[d], pad[d], dilation[d]);
      if (!outside.empty()) writer.line("if (i{0} < 0 || i{0} >= {1}) {2}", kAxes[d], in[d], outside);
    }
  }
  std::string place_in() const { return fmt::format("(id * {} + ih) * {} + iw", in[1], in[2]); }
  std::string volume_in() const { return fmt::format("({} * {} * {})", in[0], in[1], in[2]); }
  std::string tap() const { return fmt::format("(kd * {} + kh) * {} + kw", kernel[1], kernel[2]); }
  std::string taps() const { return fmt::format("({} * {} * {})", kernel[0], kernel[1], kernel[2]); }
  static void close_taps(Writer& writer) { writer.line("}} }} }}"); }
};

}  // namespace

Status lower_matmul(Lowering& lowering) {
  const ir::Type &a = lowering.type(0), &b = lowering.type(1);
  const ir::Dims& to = lowering.result().dims;
  const bool trans_a = lowering.attributes().flag("trans_a"), trans_b = lowering.attributes().flag("trans_b");
  const size_t rank = to.size();
  const ir::Dim m = to[rank - 2], n = to[rank - 1], k = trans_a ? a.dims[a.rank() - 2] : a.dims.back();
  Writer writer(lowering);
  const std::string rows = writer.whole(m), columns = writer.whole(n), depth = writer.whole(k);
  writer.line("const long i = get_global_id(0);");
  writer.line("const long col = i % {0}, row = i / {0} % {1}, batch = i / {0} / {1};", columns, rows);
  const ir::Dims batches(to.begin(), to.end() - 2), of_a(a.dims.begin(), a.dims.end() - 2),
      of_b(b.dims.begin(), b.dims.end() - 2);
  const Places places(writer, batches, {of_a, of_b}, "batch");
  writer.line("const long base_a = ({}) * {} * {}, base_b = ({}) * {} * {};", places.of(of_a), rows, depth,
              places.of(of_b), depth, columns);
  writer.line("{} sum = 0;", sum_type(a.dtype));
  const std::string at_a =
      trans_a ? fmt::format("base_a + k * {} + row", rows) : fmt::format("base_a + row * {} + k", depth);
  const std::string at_b =
      trans_b ? fmt::format("base_b + col * {} + k", depth) : fmt::format("base_b + k * {} + col", columns);
  writer.line("for (long k = 0; k < {}; ++k) sum += {} * {};", depth,
              load(a.dtype, writer.in(lowering.in(0), a.dtype), at_a),
              load(b.dtype, writer.in(lowering.in(1), b.dtype), at_b));
  finish(writer, lowering, "i", "sum");
  writer.launch("matmul", {ir::product_of(to)});
  return {};
}

Status lower_conv(Lowering& lowering) {
  const ir::Dims &x = lowering.type(0).dims, &w = lowering.type(1).dims;
  const Dtype dtype = lowering.type(0).dtype;
  const ir::Dim group = lowering.attributes().dim("group");
  Writer writer(lowering);
  const WindowNames window(writer, lowering, space_of_dims(w));
  const std::string channels = writer.whole(w[0]), in_group = writer.whole(w[1]),
                    out_group = writer.whole(floor_div(w[0], group));
  window.emit_place(writer, channels);
  writer.line("{} sum = {};", sum_type(dtype),
              lowering.has(2) ? load(dtype, writer.in(lowering.in(2), dtype), "c") : "0");
  const std::string in = writer.in(lowering.in(0), dtype), weights = writer.in(lowering.in(1), dtype);
  writer.line("for (long g = 0; g < {}; ++g) {{", in_group);
  writer.line("const long base = (n * {} + c / {} * {} + g) * {}, at = (c * {} + g) * {};", writer.whole(x[1]),
              out_group, in_group, window.volume_in(), in_group, window.taps());
  window.emit_taps(writer, "continue;");
  writer.line("sum += {} * {};", load(dtype, in, fmt::format("base + {}", window.place_in())),
              load(dtype, weights, fmt::format("at + {}", window.tap())));
  WindowNames::close_taps(writer);
  writer.line("}}");
  finish(writer, lowering, "i", "sum");
  writer.launch("conv", {ir::product_of(lowering.result().dims)});
  return {};
}

// An output gathers from the inputs whose windows reach it: those whose place times the stride is where a tap says.
Status lower_conv_transpose(Lowering& lowering) {
  const ir::Dims &x = lowering.type(0).dims, &w = lowering.type(1).dims;
  const Dtype dtype = lowering.type(0).dtype;
  const ir::Dim group = lowering.attributes().dim("group");
  Writer writer(lowering);
  const WindowNames window(writer, lowering, space_of_dims(w));
  const std::string out_group = writer.whole(w[1]), in_group = writer.whole(floor_div(w[0], group)),
                    channels = writer.whole(w[1] * group);
  window.emit_place(writer, channels);
  writer.line("{} sum = {};", sum_type(dtype),
              lowering.has(2) ? load(dtype, writer.in(lowering.in(2), dtype), "c") : "0");
  const std::string in = writer.in(lowering.in(0), dtype), weights = writer.in(lowering.in(1), dtype);
  writer.line("for (long g = 0; g < {}; ++g) {{", in_group);
  writer.line("const long from = c / {} * {} + g;", out_group, in_group);
  writer.line("const long base = (n * {} + from) * {}, at = (from * {} + c % {}) * {};", writer.whole(x[1]),
              window.volume_in(), out_group, out_group, window.taps());
  for (size_t d = 0; d < 3; ++d) {
    writer.line("for (long k{0} = 0; k{0} < {1}; ++k{0}) {{", kAxes[d], window.kernel[d]);
    writer.line("const long s{0} = o{0} + {1} - k{0} * {2}, i{0} = s{0} / {3};", kAxes[d], window.pad[d],
                window.dilation[d], window.stride[d]);
    writer.line("if (s{0} < 0 || s{0} % {1} != 0 || i{0} >= {2}) continue;", kAxes[d], window.stride[d], window.in[d]);
  }
  writer.line("sum += {} * {};", load(dtype, in, fmt::format("base + {}", window.place_in())),
              load(dtype, weights, fmt::format("at + {}", window.tap())));
  WindowNames::close_taps(writer);
  writer.line("}}");
  finish(writer, lowering, "i", "sum");
  writer.launch("conv_transpose", {ir::product_of(lowering.result().dims)});
  return {};
}

Status lower_pool(Lowering& lowering) {
  const ir::Dims& x = lowering.type(0).dims;
  const Dtype dtype = lowering.type(0).dtype;
  const std::string_view op = lowering.node().op, type = compute_type(dtype);
  const bool is_max = op == "max_pool", is_mean = op == "average_pool";
  const bool counts_pads = is_mean && lowering.attributes().flag("count_pads");
  Writer writer(lowering);
  const WindowNames window(writer, lowering, lowering.attributes().dims("kernel"));
  const ir::Dims& pads = lowering.attributes().dims("pads");
  const auto behind = in_three(ir::Dims(pads.begin() + static_cast<ptrdiff_t>(pads.size() / 2), pads.end()), 0);
  window.emit_place(writer, writer.whole(x[1]));
  const std::string in = writer.in(lowering.in(0), dtype);
  writer.line("const long base = plane * {};", window.volume_in());
  const std::string_view lowest = is_float(dtype) ? "(-INFINITY)" : dtype == Dtype::kInt8 ? "CHAR_MIN" : "0";
  writer.line("{} sum = {}; long count = 0, best = -1;", type, is_max ? lowest : "0");
  if (counts_pads) {
    window.emit_taps(writer, "");
    for (size_t d = 0; d < 3; ++d)
      writer.line("if (i{} >= {} + {}) continue;", kAxes[d], window.in[d], writer.whole(behind[d]));
    writer.line("++count;");
    WindowNames::close_taps(writer);
  }
  window.emit_taps(writer, "continue;");
  writer.line("const long at = {};", window.place_in());
  writer.line("const {} x = {};", type, load(dtype, in, "base + at"));
  if (is_max) {
    const std::string is_nan = is_float(dtype) ? " || isnan(x)" : "";
    writer.line("if (best < 0 || x > sum{}) {{ sum = x; best = at; }}", is_nan);
  } else {
    writer.line("sum += x;");
    if (is_mean && !counts_pads) writer.line("++count;");
  }
  WindowNames::close_taps(writer);
  if (is_max && lowering.node().outputs.size() > 1) {
    const bool is_column_major = lowering.attributes().flag("column_major");
    const std::string index = is_column_major
                                  ? fmt::format("(best % {2} * {1} + best / {2} % {1}) * {0} + best / {2} / {1}",
                                                window.in[0], window.in[1], window.in[2])
                                  : "best";
    writer.line("{}[i] = base + {};", writer.out(lowering.out(1), Dtype::kInt64), index);
  }
  finish(writer, lowering, "i", is_mean ? "sum / count" : "sum");
  writer.launch(op, {ir::product_of(lowering.result().dims)});
  return {};
}

// Scores, their softmax, and the mean of the values: three launches over scratch.
Status lower_attention(Lowering& lowering) {
  const ir::Dims &q = lowering.type(0).dims, &v = lowering.type(2).dims;
  const Dtype dtype = lowering.type(0).dtype;
  const size_t rank = q.size();
  ir::Dims scores = q;
  scores[rank - 1] = v[rank - 2];
  const Dtype wide = dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32;
  const BufferId weights = lowering.scratch({wide, scores});
  const std::string_view type = compute_type(wide);
  {
    Writer writer(lowering);
    const std::string keys = writer.whole(v[rank - 2]), queries = writer.whole(q[rank - 2]),
                      width = writer.whole(q[rank - 1]);
    writer.line("const long i = get_global_id(0);");
    writer.line("const long s = i % {0}, row = i / {0}, batch = row / {1};", keys, queries);
    writer.line("{} sum = 0;", type);
    writer.line("for (long e = 0; e < {}; ++e) sum += {} * {};", width,
                load(dtype, writer.in(lowering.in(0), dtype), fmt::format("row * {} + e", width)),
                load(dtype, writer.in(lowering.in(1), dtype), fmt::format("(batch * {} + s) * {} + e", keys, width)));
    writer.line("sum *= {};", literal(wide, lowering.attributes().real("scale")));
    if (lowering.has(3)) {
      const ir::Dims& mask = lowering.type(3).dims;
      const Places places(writer, scores, {mask}, "i");
      writer.line("sum += {};", load(dtype, writer.in(lowering.in(3), dtype), places.of(mask)));
    }
    writer.line("{}[i] = sum;", writer.out(weights, wide));
    writer.launch("attention_scores", {ir::product_of(scores)});
  }
  {
    Writer writer(lowering);
    const std::string keys = writer.whole(v[rank - 2]), row = writer.inout(weights, wide);
    writer.line("const long base = get_global_id(0) * {};", keys);
    writer.line("{} largest = -INFINITY, sum = 0;", type);
    writer.line("for (long s = 0; s < {}; ++s) largest = fmax(largest, {}[base + s]);", keys, row);
    writer.line("for (long s = 0; s < {0}; ++s) sum += {1}[base + s] = exp({1}[base + s] - largest);", keys, row);
    writer.line("for (long s = 0; s < {}; ++s) {}[base + s] /= sum;", keys, row);
    writer.launch("attention_softmax", {ir::product_of(ir::Dims(q.begin(), q.end() - 1))});
  }
  Writer writer(lowering);
  const std::string keys = writer.whole(v[rank - 2]), queries = writer.whole(q[rank - 2]),
                    width = writer.whole(v[rank - 1]);
  writer.line("const long i = get_global_id(0);");
  writer.line("const long f = i % {0}, row = i / {0}, batch = row / {1};", width, queries);
  writer.line("{} sum = 0;", type);
  writer.line("for (long s = 0; s < {}; ++s) sum += {}[row * {} + s] * {};", keys, writer.in(weights, wide), keys,
              load(dtype, writer.in(lowering.in(2), dtype), fmt::format("(batch * {} + s) * {} + f", keys, width)));
  finish(writer, lowering, "i", "sum");
  writer.launch("attention", {ir::product_of(lowering.result().dims)});
  return {};
}

}  // namespace quern::model::kernel::any
