// SPDX-License-Identifier: Apache-2.0
//
// Indices are data: one out of range is taken for the nearest that is in range, so that nothing outside is touched.
#include "model/kernel/any/any.h"
#include "model/kernel/code.h"

namespace quern::model::kernel::any {
namespace {

ir::Dim product_from(const ir::Dims& dims, size_t from, size_t to) {
  return ir::product_of(
      ir::Dims(dims.begin() + static_cast<ptrdiff_t>(from), dims.begin() + static_cast<ptrdiff_t>(to)));
}

// A variable with element `at` of the indices, counted from the front and in range of `size`.
std::string emit_index(Writer& writer, Lowering& lowering, const std::string& indices, std::string_view at,
                       const std::string& size) {
  const std::string name = writer.fresh("k");
  writer.line("long {} = {};", name, load(lowering.type(1).dtype, indices, at));
  writer.line("{0} = clamp({0} < 0 ? {0} + {1} : {0}, 0L, (long){1} - 1);", name, size);
  return name;
}

// An expression for the offset of the slice that several indices in a row mean, in elements. `at` is the first.
std::string emit_slice(Writer& writer, Lowering& lowering, const std::string& indices, const std::string& at,
                       const ir::Dims& data, size_t batch) {
  const auto depth = static_cast<size_t>(lowering.type(1).dims.back().fixed());
  std::string out = "0";
  for (size_t k = 0; k < depth; ++k) {
    const std::string index =
        emit_index(writer, lowering, indices, fmt::format("{} + {}", at, k), writer.whole(data[batch + k]));
    out += fmt::format(" + {} * {}", index, writer.whole(product_from(data, batch + k + 1, data.size())));
  }
  return out;
}

}  // namespace

Status lower_gather(Lowering& lowering) {
  const ir::Dims &data = lowering.type(0).dims, &indices = lowering.type(1).dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  const std::string inner = writer.whole(product_from(data, axis + 1, data.size())),
                    count = writer.whole(ir::product_of(indices));
  const std::string size = writer.whole(data[axis]);
  writer.line("const long in = i % {0}, at = i / {0} % {1}, out = i / {0} / {1};", inner, count);
  const std::string list = writer.in(lowering.in(1), lowering.type(1).dtype);
  const std::string index = emit_index(writer, lowering, list, "at", size);
  const Dtype dtype = lowering.type(0).dtype;
  const std::string place = fmt::format("(out * {} + {}) * {} + in", size, index, inner);
  finish(writer, lowering, "i", load(dtype, writer.in(lowering.in(0), dtype), place));
  writer.launch("gather", {ir::product_of(lowering.result().dims)});
  return {};
}

Status lower_gather_elements(Lowering& lowering) {
  const ir::Dims &data = lowering.type(0).dims, &to = lowering.result().dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  const std::string index =
      emit_index(writer, lowering, writer.in(lowering.in(1), lowering.type(1).dtype), "i", writer.whole(data[axis]));
  writer.line("long rest = i, from = {} * {};", index, writer.whole(product_from(data, axis + 1, data.size())));
  for (size_t d = to.size(); d-- > 0;) {
    const std::string size = writer.whole(to[d]);
    if (d != axis) writer.line("from += rest % {} * {};", size, writer.whole(product_from(data, d + 1, data.size())));
    writer.line("rest /= {};", size);
  }
  const Dtype dtype = lowering.type(0).dtype;
  finish(writer, lowering, "i", load(dtype, writer.in(lowering.in(0), dtype), "from"));
  writer.launch("gather_elements", {ir::product_of(to)});
  return {};
}

Status lower_gather_nd(Lowering& lowering) {
  const ir::Dims &data = lowering.type(0).dims, &indices = lowering.type(1).dims;
  const auto batch = static_cast<size_t>(lowering.attributes().whole("batch"));
  const auto depth = static_cast<size_t>(indices.back().fixed());
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  const std::string inner = writer.whole(product_from(data, batch + depth, data.size()));
  writer.line("const long in = i % {0}, at = i / {0};", inner);
  writer.line("const long batch = at / {} * {};", writer.whole(product_from(indices, batch, indices.size() - 1)),
              writer.whole(product_from(data, batch, data.size())));
  const std::string list = writer.in(lowering.in(1), lowering.type(1).dtype);
  const std::string slice = emit_slice(writer, lowering, list, fmt::format("at * {}", depth), data, batch);
  const Dtype dtype = lowering.type(0).dtype;
  finish(writer, lowering, "i", load(dtype, writer.in(lowering.in(0), dtype), fmt::format("batch + {} + in", slice)));
  writer.launch("gather_nd", {ir::product_of(lowering.result().dims)});
  return {};
}

namespace {

// The first input, which the updates then change in place.
void copy_data(Lowering& lowering) {
  Writer writer(lowering);
  const Dtype dtype = lowering.type(0).dtype;
  writer.line("const long i = get_global_id(0);");
  writer.line("{}",
              store(dtype, writer.out(lowering.out(), dtype), "i", load(dtype, writer.in(lowering.in(0), dtype), "i")));
  writer.launch("copy", {ir::product_of(lowering.type(0).dims)});
}

// The line that joins an update with the element at place `to`.
void emit_update(Writer& writer, Lowering& lowering, const std::string& out, std::string_view to,
                 const std::string& update) {
  const std::string& reduction = lowering.attributes().text("reduction");
  const Dtype dtype = lowering.type(0).dtype;
  const std::string old = load(dtype, out, to);
  const bool is_bool = dtype == Dtype::kBool;
  const std::string value = reduction == "add"   ? fmt::format(is_bool ? "({} || {})" : "({} + {})", old, update)
                            : reduction == "mul" ? fmt::format(is_bool ? "({} && {})" : "({} * {})", old, update)
                            : reduction == "min" ? fmt::format("min({}, {})", old, update)
                            : reduction == "max" ? fmt::format("max({}, {})", old, update)
                                                 : update;
  writer.line("{}", store(dtype, out, to, fmt::format("({})({})", compute_type(dtype), value)));
}

}  // namespace

// Updates of the same element must not overtake each other. Those along the axis may meet, so one work-item does them
// all.
Status lower_scatter_elements(Lowering& lowering) {
  copy_data(lowering);
  const ir::Dims &data = lowering.type(0).dims, &updates = lowering.type(2).dims;
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  const Dtype dtype = lowering.type(0).dtype;
  Writer writer(lowering);
  const std::string out = writer.inout(lowering.out(), dtype);
  // A work-item per line along the axis: lines do not meet.
  writer.line("const long line = get_global_id(0);");
  writer.line("for (long j = 0; j < {}; ++j) {{", writer.whole(updates[axis]));
  writer.line("long rest = line, from = 0, to = 0;");
  for (size_t d = updates.size(); d-- > 0;) {
    const std::string from_stride = writer.whole(product_from(updates, d + 1, updates.size()));
    if (d == axis) {
      writer.line("from += j * {};", from_stride);
      continue;
    }
    const std::string size = writer.whole(updates[d]);
    writer.line("from += rest % {0} * {1}; to += rest % {0} * {2}; rest /= {0};", size, from_stride,
                writer.whole(product_from(data, d + 1, data.size())));
  }
  const std::string index =
      emit_index(writer, lowering, writer.in(lowering.in(1), lowering.type(1).dtype), "from", writer.whole(data[axis]));
  writer.line("to += {} * {};", index, writer.whole(product_from(data, axis + 1, data.size())));
  emit_update(writer, lowering, out, "to", load(dtype, writer.in(lowering.in(2), dtype), "from"));
  writer.line("}}");
  ir::Dims lines = updates;
  lines[axis] = 1;
  writer.launch("scatter_elements", {ir::product_of(lines)});
  return {};
}

// A work-item per element of a slice: those do not meet, whatever the indices are.
Status lower_scatter_nd(Lowering& lowering) {
  copy_data(lowering);
  const ir::Dims &data = lowering.type(0).dims, &indices = lowering.type(1).dims;
  const auto depth = static_cast<size_t>(indices.back().fixed());
  const Dtype dtype = lowering.type(0).dtype;
  const ir::Dim row = product_from(data, depth, data.size());
  Writer writer(lowering);
  const std::string out = writer.inout(lowering.out(), dtype);
  writer.line("const long in = get_global_id(0);");
  writer.line("for (long j = 0; j < {}; ++j) {{", writer.whole(product_from(indices, 0, indices.size() - 1)));
  const std::string list = writer.in(lowering.in(1), lowering.type(1).dtype);
  const std::string slice = emit_slice(writer, lowering, list, fmt::format("j * {}", depth), data, 0);
  writer.line("const long to = {} + in;", slice);
  emit_update(writer, lowering, out, "to",
              load(dtype, writer.in(lowering.in(2), dtype), fmt::format("j * {} + in", writer.whole(row))));
  writer.line("}}");
  writer.launch("scatter_nd", {row});
  return {};
}

}  // namespace quern::model::kernel::any
