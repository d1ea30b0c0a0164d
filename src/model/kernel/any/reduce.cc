// SPDX-License-Identifier: Apache-2.0
//
// A work-item walks one line or one block of the input. Floats are summed in the compute type.
#include <algorithm>

#include "model/kernel/any/any.h"
#include "model/kernel/code.h"

namespace quern::model::kernel::any {
namespace {

ir::Dim product_behind(const ir::Dims& dims, size_t d) {
  return ir::product_of(ir::Dims(dims.begin() + static_cast<ptrdiff_t>(d) + 1, dims.end()));
}

std::string smallest_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kInt8:
      return "CHAR_MIN";
    case Dtype::kInt16:
      return "SHRT_MIN";
    case Dtype::kInt32:
      return "INT_MIN";
    case Dtype::kInt64:
      return "LONG_MIN";
    default:
      return is_float(dtype) ? "(-INFINITY)" : "0";
  }
}
std::string largest_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return "1";
    case Dtype::kInt8:
      return "CHAR_MAX";
    case Dtype::kInt16:
      return "SHRT_MAX";
    case Dtype::kInt32:
      return "INT_MAX";
    case Dtype::kInt64:
      return "LONG_MAX";
    case Dtype::kUint8:
      return "UCHAR_MAX";
    case Dtype::kUint16:
      return "USHRT_MAX";
    case Dtype::kUint32:
      return "UINT_MAX";
    case Dtype::kUint64:
      return "ULONG_MAX";
    default:
      return "INFINITY";
  }
}

// Statements that set `base` to where line `line` along an axis of a tensor begins, and the stride along it.
std::string emit_line(Writer& writer, const ir::Dims& dims, size_t axis, std::string_view line, std::string_view base) {
  const std::string stride = writer.whole(product_behind(dims, axis));
  writer.line("const long {} = {} / {} * {} * {} + {} % {};", base, line, stride, stride, writer.whole(dims[axis]),
              line, stride);
  return stride;
}

ir::Dim lines_of(ir::Dims dims, size_t axis) {
  dims[axis] = 1;
  return ir::product_of(dims);
}

}  // namespace

Status lower_reduce(Lowering& lowering) {
  const ir::Dims& from = lowering.type(0).dims;
  const Dtype dtype = lowering.type(0).dtype;
  const std::string_view op = lowering.node().op;
  std::vector<bool> is_reduced(from.size());
  for (const int64_t axis : lowering.attributes().wholes("axes")) is_reduced[static_cast<size_t>(axis)] = true;
  // Neighbours that are both kept, or both reduced, are one dimension.
  struct Group {
    ir::Dim size;
    bool is_reduced;
  };
  std::vector<Group> groups;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d].is(1)) continue;
    if (!groups.empty() && groups.back().is_reduced == is_reduced[d])
      groups.back().size = groups.back().size * from[d];
    else
      groups.push_back({from[d], is_reduced[d]});
  }
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  writer.line("long rest = i, base = 0;");
  ir::Dim stride = 1, count = 1;
  std::vector<std::pair<ir::Dim, ir::Dim>> loops;  // sizes and strides, innermost first
  const bool has_kept = std::any_of(groups.begin(), groups.end(), [](const Group& group) { return !group.is_reduced; });
  for (size_t g = groups.size(); g-- > 0;) {
    const Group& group = groups[g];
    if (group.is_reduced) {
      loops.emplace_back(group.size, stride);
      count = count * group.size;
    } else {
      writer.line("base += rest % {0} * {1}; rest /= {0};", writer.whole(group.size), writer.whole(stride));
    }
    stride = stride * group.size;
  }
  if (!has_kept) writer.line("(void)rest;");
  const bool is_sum = op == "reduce_sum" || op == "reduce_mean", is_prod = op == "reduce_prod",
             is_max = op == "reduce_max";
  const std::string_view type = compute_type(dtype);
  writer.line("{} sum = {};", type, is_sum ? "0" : is_prod ? "1" : is_max ? smallest_of(dtype) : largest_of(dtype));
  const std::string in = writer.in(lowering.in(0), dtype);
  std::string place = "base";
  for (size_t l = loops.size(); l-- > 0;) {
    writer.line("for (long j{0} = 0; j{0} < {1}; ++j{0}) {{", l, writer.whole(loops[l].first));
    place += fmt::format(" + j{} * {}", l, writer.whole(loops[l].second));
  }
  writer.line("const {} x = {};", type, load(dtype, in, place));
  if (is_sum)
    writer.line("sum += x;");
  else if (is_prod)
    writer.line("sum *= x;");
  else if (is_float(dtype))
    writer.line("sum = x {} sum || isnan(x) ? x : sum;", is_max ? ">" : "<");
  else
    writer.line("sum = x {} sum ? x : sum;", is_max ? ">" : "<");
  for (size_t l = 0; l < loops.size(); ++l) writer.line("}}");
  finish(writer, lowering, "i", op == "reduce_mean" ? fmt::format("sum / ({}){}", type, writer.whole(count)) : "sum");
  writer.launch(op, {ir::product_of(lowering.result().dims)});
  return {};
}

Status lower_cumulative(Lowering& lowering) {
  const ir::Dims& dims = lowering.type(0).dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  const Dtype dtype = lowering.type(0).dtype;
  const bool is_product = lowering.node().op == "cum_prod";
  Writer writer(lowering);
  writer.line("const long line = get_global_id(0);");
  const std::string stride = emit_line(writer, dims, axis, "line", "base"), length = writer.whole(dims[axis]);
  const std::string in = writer.in(lowering.in(0), dtype), out = writer.out(lowering.out(), dtype);
  writer.line("{} sum = {};", compute_type(dtype), is_product ? "1" : "0");
  writer.line("for (long j = 0; j < {}; ++j) {{", length);
  writer.line("const long at = base + {} * {};",
              lowering.attributes().flag("reverse") ? fmt::format("({} - 1 - j)", length) : "j", stride);
  writer.line("const {} x = {};", compute_type(dtype), load(dtype, in, "at"));
  const std::string next = is_product ? "sum *= x;" : "sum += x;";
  if (lowering.attributes().flag("exclusive"))
    writer.line("{} {}", store(dtype, out, "at", "sum"), next);
  else
    writer.line("{} {}", next, store(dtype, out, "at", "sum"));
  writer.line("}}");
  writer.launch(lowering.node().op, {lines_of(dims, axis)});
  return {};
}

namespace {

// An expression that is true where element a comes before element b; NaN counts as the largest.
std::string precedes(Dtype dtype, bool largest, std::string_view a, std::string_view b) {
  if (!is_float(dtype)) return fmt::format("({} {} {})", a, largest ? ">" : "<", b);
  if (largest) return fmt::format("({0} > {1} || (isnan({0}) && !isnan({1})))", a, b);
  return fmt::format("({0} < {1} || (!isnan({0}) && isnan({1})))", a, b);
}

}  // namespace

Status lower_arg(Lowering& lowering) {
  const ir::Dims& dims = lowering.type(0).dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  const Dtype dtype = lowering.type(0).dtype;
  const bool is_largest = lowering.node().op == "arg_max";
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  const std::string stride = emit_line(writer, dims, axis, "i", "base");
  const std::string in = writer.in(lowering.in(0), dtype);
  writer.line("long found = 0;");
  writer.line("{} best = {};", compute_type(dtype), load(dtype, in, "base"));
  writer.line("for (long j = 1; j < {}; ++j) {{", writer.whole(dims[axis]));
  writer.line("const {} x = {};", compute_type(dtype), load(dtype, in, fmt::format("base + j * {}", stride)));
  const std::string test = lowering.attributes().flag("last")
                               ? fmt::format("!{}", precedes(dtype, is_largest, "best", "x"))
                               : precedes(dtype, is_largest, "x", "best");
  writer.line("if ({}) {{ best = x; found = j; }}", test);
  writer.line("}}");
  finish(writer, lowering, "i", "found");
  writer.launch(lowering.node().op, {lines_of(dims, axis)});
  return {};
}

// Element r of a line is the first, in order, of those behind element r - 1. Quadratic, and needs no memory.
Status lower_top_k(Lowering& lowering) {
  const ir::Dims &from = lowering.type(0).dims, &to = lowering.result().dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  const Dtype dtype = lowering.type(0).dtype;
  const bool is_largest = lowering.attributes().flag("largest");
  Writer writer(lowering);
  writer.line("const long line = get_global_id(0);");
  const std::string from_stride = emit_line(writer, from, axis, "line", "base");
  const std::string to_stride = emit_line(writer, to, axis, "line", "to");
  const std::string in = writer.in(lowering.in(0), dtype), values = writer.out(lowering.out(), dtype);
  const bool has_indices = lowering.node().outputs.size() > 1;
  const std::string indices = has_indices ? writer.out(lowering.out(1), Dtype::kInt64) : "";
  const std::string_view type = compute_type(dtype);
  writer.line("{} last = 0; long last_at = -1;", type);
  writer.line("for (long r = 0; r < {}; ++r) {{", writer.whole(to[axis]));
  writer.line("{} best = 0; long best_at = -1;", type);
  writer.line("for (long j = 0; j < {}; ++j) {{", writer.whole(from[axis]));
  writer.line("const {} x = {};", type, load(dtype, in, fmt::format("base + j * {}", from_stride)));
  // Behind the last one: later in order, or equal and at a larger index.
  writer.line("const int is_left = last_at < 0 || {} || (!{} && j > last_at);",
              precedes(dtype, is_largest, "last", "x"), precedes(dtype, is_largest, "x", "last"));
  writer.line("if (is_left && (best_at < 0 || {})) {{ best = x; best_at = j; }}",
              precedes(dtype, is_largest, "x", "best"));
  writer.line("}}");
  writer.line("last = best; last_at = best_at;");
  writer.line("{}", store(dtype, values, fmt::format("to + r * {}", to_stride), "best"));
  if (has_indices) writer.line("{}[to + r * {}] = best_at;", indices, to_stride);
  writer.line("}}");
  writer.launch("top_k", {lines_of(from, axis)});
  return {};
}

Status lower_softmax(Lowering& lowering) {
  const ir::Dims& dims = lowering.type(0).dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  const Dtype dtype = lowering.type(0).dtype;
  const bool is_log = lowering.node().op == "log_softmax";
  const std::string_view type = compute_type(dtype);
  Writer writer(lowering);
  writer.line("const long line = get_global_id(0);");
  const std::string stride = emit_line(writer, dims, axis, "line", "base"), length = writer.whole(dims[axis]);
  const std::string x = load(dtype, writer.in(lowering.in(0), dtype), fmt::format("base + j * {}", stride));
  writer.line("{} largest = -INFINITY, sum = 0;", type);
  writer.line("for (long j = 0; j < {}; ++j) largest = fmax(largest, {});", length, x);
  writer.line("for (long j = 0; j < {}; ++j) sum += exp({} - largest);", length, x);
  if (is_log) writer.line("sum = log(sum);");
  writer.line("for (long j = 0; j < {}; ++j) {{", length);
  writer.line("const long i = base + j * {};", stride);
  finish(writer, lowering, "i",
         is_log ? fmt::format("{} - largest - sum", x) : fmt::format("exp({} - largest) / sum", x));
  writer.line("}}");
  writer.launch(lowering.node().op, {lines_of(dims, axis)});
  return {};
}

Status lower_layer_norm(Lowering& lowering) {
  const ir::Dims& dims = lowering.type(0).dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  const Dtype dtype = lowering.type(0).dtype;
  const bool is_centred = lowering.attributes().flag("centre");
  const std::string_view type = compute_type(dtype);
  const ir::Dim group = ir::product_of(ir::Dims(dims.begin() + static_cast<ptrdiff_t>(axis), dims.end()));
  const ir::Dim rows = ir::product_of(ir::Dims(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(axis)));
  Writer writer(lowering);
  writer.line("const long base = get_global_id(0) * {};", writer.whole(group));
  const std::string count = writer.whole(group), in = writer.in(lowering.in(0), dtype);
  writer.line("{} mean = 0, squares = 0;", type);
  if (is_centred) {
    writer.line("for (long j = 0; j < {}; ++j) mean += {};", count, load(dtype, in, "base + j"));
    writer.line("mean /= {};", count);
  }
  writer.line("for (long j = 0; j < {}; ++j) {{ const {} d = {} - mean; squares += d * d; }}", count, type,
              load(dtype, in, "base + j"));
  writer.line("const {} factor = 1 / sqrt(squares / {} + {});", type, count,
              literal(dtype, lowering.attributes().real("epsilon")));
  writer.line("for (long j = 0; j < {}; ++j) {{", count);
  writer.line("const long i = base + j;");
  writer.line("{} value = ({} - mean) * factor;", type, load(dtype, in, "i"));
  std::vector<ir::Dims> operands;
  for (size_t k = 1; k < 3; ++k)
    if (lowering.has(k)) operands.push_back(lowering.type(k).dims);
  const Places places(writer, dims, operands, "i");
  for (size_t k = 1; k < 3; ++k)
    if (lowering.has(k))
      writer.line("value {} {};", k == 1 ? "*=" : "+=",
                  load(dtype, writer.in(lowering.in(k), dtype), places.of(lowering.type(k).dims)));
  finish(writer, lowering, "i", "value");
  writer.line("}}");
  writer.launch("layer_norm", {rows});
  return {};
}

}  // namespace quern::model::kernel::any
