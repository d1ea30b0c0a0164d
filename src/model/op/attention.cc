// SPDX-License-Identifier: Apache-2.0
//
// attention: softmax(q k' * scale + mask) v for queries q [batch…, T, E], keys k [batch…, S, E], values v [batch…, S,
// F] and an optional mask that repeats to [batch…, T, S] and is added.
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

Result<std::vector<ir::Type>> infer_attention(Site& site) {
  const ir::Type &q = site.type(0), &k = site.type(1), &v = site.type(2);
  const size_t rank = q.rank();
  bool fits = rank >= 2 && k.rank() == rank && v.rank() == rank && is_float(q.dtype) && k.dtype == q.dtype &&
              v.dtype == q.dtype;
  for (size_t d = 0; fits && d + 2 < rank; ++d)
    fits = site.same(q.dims[d], k.dims[d]) && site.same(q.dims[d], v.dims[d]);
  fits = fits && site.same(q.dims[rank - 1], k.dims[rank - 1]) && site.same(k.dims[rank - 2], v.dims[rank - 2]);
  if (!fits)
    return invalid(fmt::format("queries {}, keys {} and values {} do not fit; give equal batches and lengths",
                               ir::show_type(q), ir::show_type(k), ir::show_type(v)));
  if (site.has(3)) {
    ir::Dims scores = q.dims;
    scores[rank - 1] = k.dims[rank - 2];
    const ir::Type& mask = site.type(3);
    bool repeats = mask.dtype == q.dtype && mask.rank() <= rank;
    for (size_t d = 0; repeats && d < mask.rank(); ++d)
      repeats = mask.dims[d].is(1) || site.same(mask.dims[d], scores[rank - mask.rank() + d]);
    if (!repeats)
      return invalid(fmt::format("a mask of {} does not repeat to {}; give one that does", ir::show_type(mask),
                                 ir::show_dims(scores)));
  }
  ir::Type out = q;
  out.dims[rank - 1] = v.dims[rank - 1];
  return std::vector{std::move(out)};
}

Status reference_attention(Run& run) {
  const ir::Sizes &of_q = run.in(0).sizes(), &of_v = run.in(2).sizes();
  const size_t rank = of_q.size();
  const int64_t queries = of_q[rank - 2], width = of_q[rank - 1], keys = of_v[rank - 2], out_width = of_v[rank - 1];
  const double scale = run.attributes.real("scale");
  ir::Sizes scores(of_q.begin(), of_q.end() - 1);  // one row of scores per query
  scores.push_back(keys);
  const std::vector<int64_t> mask_strides = repeated_strides(run.has(3) ? run.in(3).sizes() : ir::Sizes(), scores);
  ir::Sizes rows(of_q.begin(), of_q.end() - 1);
  std::vector<int64_t> row_strides(mask_strides.begin(), mask_strides.end() - 1);
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    if constexpr (ir::kIsFloat<T>) {
      const auto q = run.in(0).read<T>(), k = run.in(1).read<T>(), v = run.in(2).read<T>();
      const auto y = run.out().write<T>();
      const auto real = [](T value) { return static_cast<double>(static_cast<ir::Computed<T>>(value)); };
      std::vector<double> row(static_cast<size_t>(keys));
      walk(rows, std::array{row_strides}, [&](size_t i, const auto& at) {
        const int64_t batch = static_cast<int64_t>(i) / queries, query = static_cast<int64_t>(i) * width;
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t s = 0; s < keys; ++s) {
          double score = 0;
          for (int64_t e = 0; e < width; ++e)
            score +=
                real(q[static_cast<size_t>(query + e)]) * real(k[static_cast<size_t>((batch * keys + s) * width + e)]);
          score *= scale;
          if (run.has(3)) score += run.in(3).real(static_cast<size_t>(at[0] + s * mask_strides.back()));
          row[static_cast<size_t>(s)] = score;
          largest = std::max(largest, score);
        }
        for (double& score : row) sum += score = std::exp(score - largest);
        for (int64_t f = 0; f < out_width; ++f) {
          double total = 0;
          for (int64_t s = 0; s < keys; ++s)
            total += row[static_cast<size_t>(s)] * real(v[static_cast<size_t>((batch * keys + s) * out_width + f)]);
          y[i * static_cast<size_t>(out_width) + static_cast<size_t>(f)] = static_cast<T>(total / sum);
        }
      });
    }
  });
  return {};
}

// Rules of ONNX.

Result<ir::ValueId> range_of(NodeImport& node, const ir::Dim& start, const ir::Dim& count, const ir::Dims& shape) {
  QUERN_TRY(const ir::ValueId numbers, node.emit("range", {}, {{"start", start}, {"count", count}}));
  return node.reshape(numbers, shape);
}

// 0 where a bool holds, minus infinity elsewhere: what is added to scores.
Result<ir::ValueId> emit_bias(NodeImport& node, ir::ValueId is_kept, Dtype dtype) {
  const ir::ValueId zero = node.number(dtype, 0), never = node.number(dtype, -std::numeric_limits<double>::infinity());
  return node.emit("where", {is_kept, zero, never});
}

/// The inputs of an Attention as [batch, heads, length, width].
struct AttentionParts {
  ir::ValueId q, k, v;
  ir::ValueId bias = ir::kNone;
  ir::Dim past = 0;
};

// [batch, length, heads * width] as [batch, heads, length, width].
Result<ir::ValueId> split_heads(NodeImport& node, ir::ValueId x, const char* attribute) {
  if (node.rank(x) == 4) return x;
  if (node.rank(x) != 3) return invalid("an input has neither 3 nor 4 dimensions; give batch, heads, length and width");
  QUERN_TRY(const int64_t heads, node.whole(attribute));
  const ir::Dims dims = node.type(x).dims;
  if (heads < 1) return invalid(fmt::format("attribute '{}' is below 1; give the number of heads", attribute));
  QUERN_TRY(const ir::ValueId split, node.reshape(x, {dims[0], dims[1], heads, floor_div(dims[2], heads)}));
  return node.transpose(split, {0, 2, 1, 3});
}

// Each head of keys and values serves several of the queries.
Result<ir::ValueId> repeat_heads(NodeImport& node, ir::ValueId x, const ir::Dim& heads) {
  const ir::Dims d = node.type(x).dims;
  if (d[1] == heads) return x;
  if (!d[1].is_fixed() || !heads.is_fixed() || d[1].is(0) || heads.fixed() % d[1].fixed() != 0)
    return invalid(fmt::format("{} heads of queries for {} of keys; give a multiple", heads.text(), d[1].text()));
  const ir::Dim times = heads.fixed() / d[1].fixed();
  QUERN_TRY(ir::ValueId y, node.reshape(x, {d[0], d[1], 1, d[2], d[3]}));
  QUERN_TRY(y, node.broadcast(y, {d[0], d[1], times, d[2], d[3]}));
  return node.reshape(y, {d[0], heads, d[2], d[3]});
}

Status add_bias(NodeImport& node, AttentionParts& parts, ir::ValueId bias) {
  if (parts.bias == ir::kNone) return parts.bias = bias, Status();
  QUERN_TRY(parts.bias, node.emit("add", {parts.bias, bias}));
  return {};
}

Status add_masks(NodeImport& node, AttentionParts& parts) {
  const Dtype dtype = node.type(parts.q).dtype;
  const ir::Dim queries = node.type(parts.q).dims[2], keys = node.type(parts.k).dims[2];
  if (node.has(3)) {
    ir::ValueId mask = node.in_or_none(3);
    const bool is_bool = node.type(mask).dtype == Dtype::kBool;
    if (is_bool) {
      QUERN_TRY(mask, emit_bias(node, mask, dtype));
    }
    // Keys that the mask does not name are masked out.
    const ir::Dim missing = keys - node.type(mask).dims.back();
    if (!missing.is(0) && !node.type(mask).dims.back().is(1)) {
      ir::Dims none(node.rank(mask), 0), behind = none;
      behind.back() = missing;
      const ir::ValueId never = node.number(dtype, -std::numeric_limits<double>::infinity());
      QUERN_TRY(mask, node.emit("pad", {mask, never}, {{"begins", none}, {"ends", behind}}));
    }
    QUERN_TRY(add_bias(node, parts, mask));
  }
  QUERN_TRY(const bool is_causal, node.flag("is_causal", false));
  if (is_causal) {
    QUERN_TRY(const ir::ValueId rows, range_of(node, parts.past, queries, {queries, 1}));
    QUERN_TRY(const ir::ValueId columns, range_of(node, 0, keys, {keys}));
    QUERN_TRY(const ir::ValueId is_kept, node.emit("less_equal", {columns, rows}));
    QUERN_TRY(const ir::ValueId bias, emit_bias(node, is_kept, dtype));
    QUERN_TRY(add_bias(node, parts, bias));
  }
  if (node.has(6)) {  // how many keys of each batch are no padding
    QUERN_TRY(ir::ValueId lengths, node.cast(node.in_or_none(6), Dtype::kInt64));
    QUERN_TRY(lengths, node.reshape(lengths, {node.type(parts.q).dims[0], 1, 1, 1}));
    QUERN_TRY(const ir::ValueId columns, range_of(node, 0, keys, {keys}));
    QUERN_TRY(const ir::ValueId is_kept, node.emit("less", {columns, lengths}));
    QUERN_TRY(const ir::ValueId bias, emit_bias(node, is_kept, dtype));
    QUERN_TRY(add_bias(node, parts, bias));
  }
  return {};
}

// The product spelled out, where something in its midst is asked for or changed.
Result<ir::ValueId> emit_spelled(NodeImport& node, const AttentionParts& parts, double scale, double softcap) {
  const Dtype dtype = node.type(parts.q).dtype;
  QUERN_TRY(const int64_t mode, node.whole("qk_matmul_output_mode", 0));
  QUERN_TRY(ir::ValueId scores, node.emit("matmul", {parts.q, parts.k}, {{"trans_b", ir::Dim(1)}}));
  QUERN_TRY(scores, node.emit("mul", {scores, node.number(dtype, scale)}));
  if (softcap > 0) {
    QUERN_TRY(scores, node.emit("div", {scores, node.number(dtype, softcap)}));
    QUERN_TRY(scores, node.emit("tanh", {scores}));
    QUERN_TRY(scores, node.emit("mul", {scores, node.number(dtype, softcap)}));
  }
  if (mode < 2) node.set(3, scores);
  if (parts.bias != ir::kNone) {
    QUERN_TRY(scores, node.emit("add", {scores, parts.bias}));
  }
  if (mode == 2) node.set(3, scores);
  QUERN_TRY(scores, node.emit("softmax", {scores}, {{"axis", ir::Dim(3)}}));
  if (mode == 3) node.set(3, scores);
  return node.emit("matmul", {scores, parts.v});
}

Status import_attention(NodeImport& node) {
  AttentionParts parts;
  QUERN_TRY(const ir::ValueId queries, node.in(0));
  QUERN_TRY(const ir::ValueId keys, node.in(1));
  QUERN_TRY(const ir::ValueId values, node.in(2));
  node.ignore("q_num_heads");  // with 4 dimensions they say nothing new
  node.ignore("kv_num_heads");
  node.ignore("softmax_precision");  // ours is never less than fp32
  QUERN_TRY(parts.q, split_heads(node, queries, "q_num_heads"));
  QUERN_TRY(parts.k, split_heads(node, keys, "kv_num_heads"));
  QUERN_TRY(parts.v, split_heads(node, values, "kv_num_heads"));
  if (node.has(4) != node.has(5)) return invalid("one of past key and past value is left out; give both");
  if (node.has(4)) {
    parts.past = node.type(node.in_or_none(4)).dims.at(2);
    QUERN_TRY(parts.k, node.emit("concat", {node.in_or_none(4), parts.k}, {{"axis", ir::Dim(2)}}));
    QUERN_TRY(parts.v, node.emit("concat", {node.in_or_none(5), parts.v}, {{"axis", ir::Dim(2)}}));
  }
  node.set(1, parts.k);
  node.set(2, parts.v);
  QUERN_TRY(add_masks(node, parts));
  const ir::Dims of_q = node.type(parts.q).dims;
  QUERN_TRY(parts.k, repeat_heads(node, parts.k, of_q[1]));
  QUERN_TRY(parts.v, repeat_heads(node, parts.v, of_q[1]));
  if (!of_q[3].is_fixed()) return unsupported("the width of a head is a free dim; fix it");
  QUERN_TRY(const double scale, node.real("scale", 1 / std::sqrt(static_cast<double>(of_q[3].fixed()))));
  QUERN_TRY(const double softcap, node.real("softcap", 0));
  node.ignore("qk_matmul_output_mode");
  ir::ValueId y = ir::kNone;
  if (softcap > 0 || node.wants(3)) {
    QUERN_TRY(y, emit_spelled(node, parts, scale, softcap));
  } else {
    std::vector<ir::ValueId> inputs = {parts.q, parts.k, parts.v};
    if (parts.bias != ir::kNone) inputs.push_back(parts.bias);
    QUERN_TRY(y, node.emit("attention", std::move(inputs), {{"scale", scale}}));
  }
  if (node.rank(queries) == 3) {
    const ir::Dims d = node.type(y).dims;
    QUERN_TRY(y, node.transpose(y, {0, 2, 1, 3}));
    QUERN_TRY(y, node.reshape(y, {d[0], d[2], d[1] * d[3]}));
  }
  node.set(0, y);
  return {};
}

}  // namespace

const Family& attention_family() {
  static const Family family{"attention",
                             {{.name = "attention",
                               .attributes = {{"scale", 1.0}},
                               .least_inputs = 3,
                               .most_inputs = 4,
                               .infer = infer_attention,
                               .reference = reference_attention,
                               .lower = kernel::any::lower_attention}},
                             {{.op = "Attention", .since = 23, .import = import_attention}}};
  return family;
}

}  // namespace quern::model::op
