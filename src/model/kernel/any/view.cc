// SPDX-License-Identifier: Apache-2.0
#include "model/kernel/any/any.h"
#include "model/kernel/code.h"

namespace quern::model::kernel::any {
namespace {

/// Where the elements of an output come from: an offset, and a stride per dimension of the output.
struct View {
  ir::Dim offset = 0;
  ir::Dims strides;
};

ir::Dims strides_of_dims(const ir::Dims& dims) {
  ir::Dims out(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) out[d - 1] = out[d] * dims[d];
  return out;
}

// Reads element `from` of input 0 for every element of the output.
Status copy_from(Lowering& lowering, const View& view, std::string_view name) {
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  // Neighbouring dimensions that are walked in one stride are one.
  const ir::Dims& to = lowering.result().dims;
  std::vector<std::pair<ir::Dim, ir::Dim>> merged;  // size and stride
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d].is(1)) continue;
    if (!merged.empty() && merged.back().second == view.strides[d] * to[d])
      merged.back() = {merged.back().first * to[d], view.strides[d]};
    else
      merged.emplace_back(to[d], view.strides[d]);
  }
  std::string from = writer.whole(view.offset), rest = "i";
  for (size_t g = merged.size(); g-- > 0;) {
    const auto& [size, stride] = merged[g];
    std::string coordinate = rest;
    if (g > 0) {
      coordinate = fmt::format("({} % {})", rest, writer.whole(size));
      const std::string next = writer.fresh("r");
      writer.line("const long {} = {} / {};", next, rest, writer.whole(size));
      rest = next;
    }
    if (stride.is(0)) continue;
    from += fmt::format(" + {} * {}", coordinate, writer.whole(stride));
  }
  const Dtype dtype = lowering.type(0).dtype;
  finish(writer, lowering, "i", load(dtype, writer.in(lowering.in(0), dtype), from));
  writer.launch(name, {ir::product_of(to)});
  return {};
}

}  // namespace

Status lower_copy(Lowering& lowering) {
  return copy_from(lowering, {0, strides_of_dims(lowering.result().dims)}, "copy");
}

Status lower_transpose(Lowering& lowering) {
  const ir::Dims own = strides_of_dims(lowering.type(0).dims);
  View view;
  for (const int64_t axis : lowering.attributes().wholes("order"))
    view.strides.push_back(own[static_cast<size_t>(axis)]);
  return copy_from(lowering, view, "transpose");
}

Status lower_broadcast(Lowering& lowering) {
  const ir::Dims &from = lowering.type(0).dims, &to = lowering.result().dims;
  const ir::Dims own = strides_of_dims(from);
  View view{0, ir::Dims(to.size(), 0)};
  for (size_t d = 0; d < from.size(); ++d)
    if (!from[d].is(1)) view.strides[to.size() - from.size() + d] = own[d];
  return copy_from(lowering, view, "broadcast");
}

Status lower_slice(Lowering& lowering) {
  const ir::Dims &starts = lowering.attributes().dims("starts"), &steps = lowering.attributes().dims("steps");
  View view{0, strides_of_dims(lowering.type(0).dims)};
  for (size_t d = 0; d < starts.size(); ++d) {
    view.offset = view.offset + starts[d] * view.strides[d];
    view.strides[d] = view.strides[d] * steps[d];
  }
  return copy_from(lowering, view, "slice");
}

// One launch per input, which writes its part of every row.
Status lower_concat(Lowering& lowering) {
  const auto axis = static_cast<size_t>(lowering.attributes().whole("axis"));
  const ir::Dims& to = lowering.result().dims;
  const Dtype dtype = lowering.result().dtype;
  const auto row_of = [&](const ir::Dims& dims) {
    return ir::product_of(ir::Dims(dims.begin() + static_cast<ptrdiff_t>(axis), dims.end()));
  };
  ir::Dim offset = 0;
  for (size_t i = 0; i < lowering.inputs(); ++i) {
    const ir::Dims& from = lowering.type(i).dims;
    Writer writer(lowering);
    writer.line("const long i = get_global_id(0);");
    const std::string row = writer.whole(row_of(from)), out_row = writer.whole(row_of(to)),
                      begin = writer.whole(offset);
    const std::string value = load(dtype, writer.in(lowering.in(i), dtype), "i");
    writer.line("{}", store(dtype, writer.partial(lowering.out(), dtype),
                            fmt::format("i / {} * {} + {} + i % {}", row, out_row, begin, row), value));
    writer.launch("concat", {ir::product_of(from)});
    offset = offset + row_of(from);
  }
  return {};
}

Status lower_pad(Lowering& lowering) {
  const ir::Dims &from = lowering.type(0).dims, &to = lowering.result().dims;
  const ir::Dims &begins = lowering.attributes().dims("begins"), own = strides_of_dims(from);
  const std::string& mode = lowering.attributes().text("mode");
  const Dtype dtype = lowering.result().dtype;
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  writer.line("long rest = i, from = 0, inside = 1;");
  for (size_t d = to.size(); d-- > 0;) {
    if (to[d].is(1)) continue;
    const std::string size = writer.whole(from[d]), at = writer.fresh("at");
    writer.line("long {} = rest % {} - {};", at, writer.whole(to[d]), writer.whole(begins[d]));
    writer.line("rest /= {};", writer.whole(to[d]));
    if (mode == "constant")
      writer.line("inside = inside && {0} >= 0 && {0} < {1};", at, size);
    else if (mode == "edge")
      writer.line("{0} = clamp({0}, 0L, (long){1} - 1);", at, size);
    else if (mode == "wrap")
      writer.line("{0} = ({0} % {1} + {1}) % {1};", at, size);
    else
      writer.line(
          "if ({1} > 1) {{ const long p = 2 * ({1} - 1); {0} = ({0} % p + p) % p; if ({0} >= {1}) {0} = p - {0}; }} "
          "else {0} = 0;",
          at, size);
    writer.line("from += {} * {};", at, writer.whole(own[d]));
  }
  const std::string value = lowering.has(1) ? load(dtype, writer.in(lowering.in(1), dtype), "0") : "0";
  writer.line("const {} made = inside ? {} : {};", compute_type(dtype),
              load(dtype, writer.in(lowering.in(0), dtype), "from"), value);
  finish(writer, lowering, "i", "made");
  writer.launch("pad", {ir::product_of(to)});
  return {};
}

// Sizes are arguments of the kernel: one launch writes a few elements, one after the other.
Status lower_dims(Lowering& lowering) {
  const ir::Dims& values = lowering.attributes().dims("values");
  const Dtype dtype = lowering.result().dtype;
  Writer writer(lowering);
  const std::string to = writer.out(lowering.out(), dtype);
  for (size_t i = 0; i < values.size(); ++i)
    writer.line("{}", store(dtype, to, fmt::format("{}", i),
                            fmt::format("({}){}", compute_type(dtype), writer.whole(values[i]))));
  writer.launch("dims", {values.empty() ? 0 : 1});
  return {};
}

Status lower_range(Lowering& lowering) {
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  const std::string start = writer.whole(lowering.attributes().dim("start")),
                    step = writer.whole(lowering.attributes().dim("step"));
  finish(writer, lowering, "i", fmt::format("({})({} + i * {})", compute_type(lowering.made_dtype()), start, step));
  writer.launch("range", {lowering.attributes().dim("count")});
  return {};
}

Status lower_triangle(Lowering& lowering) {
  const ir::Dims& dims = lowering.type(0).dims;
  const Dtype dtype = lowering.type(0).dtype;
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  const std::string columns = writer.whole(dims.back()), rows = writer.whole(dims[dims.size() - 2]);
  writer.line("const long diagonal = i % {} - i / {} % {};", columns, columns, rows);
  const std::string value = load(dtype, writer.in(lowering.in(0), dtype), "i");
  finish(writer, lowering, "i",
         fmt::format("(diagonal {} {} ? {} : 0)", lowering.attributes().flag("upper") ? ">=" : "<=",
                     writer.whole(lowering.attributes().dim("k")), value));
  writer.launch("triangle", {ir::product_of(dims)});
  return {};
}

}  // namespace quern::model::kernel::any
