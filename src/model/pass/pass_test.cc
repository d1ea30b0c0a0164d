// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/prng.h"
#include "model/interpret.h"
#include "model/ir/text.h"
#include "model/op/check.h"
#include "model/pass/canonical.h"
#include "model/pass/fold.h"
#include "model/pass/fuse.h"
#include "model/pass/passes.h"
#include "model/pass/pattern.h"
#include "model/pass/recognise.h"

namespace quern::model::pass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::Graph graph_of(std::string_view text) {
  auto parsed = ir::parse_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().text;
  if (!parsed.ok()) return {};
  auto graph = op::complete(*std::move(parsed));
  EXPECT_TRUE(graph.ok()) << graph.error().text;
  return graph.ok() ? *std::move(graph) : ir::Graph();
}

Tensors random_inputs(const ir::Graph& graph, const ir::DimValues& dims, uint64_t seed) {
  Tensors out;
  Prng prng(seed);
  for (const ir::ValueId id : graph.inputs) {
    ir::Sizes sizes;
    for (const ir::Dim& dim : graph.type(id).dims) sizes.push_back(*dim.value(dims));
    ir::Tensor tensor = ir::Tensor::zeros(graph.type(id).dtype, std::move(sizes));
    ir::with_element(tensor.dtype(), [&]<class T>() {
      for (T& element : tensor.write<T>()) {
        if constexpr (ir::kIsFloat<T>)
          element = static_cast<T>(prng.uniform() * 4 - 2);
        else
          element = static_cast<T>(prng.below(2));
      }
    });
    out[graph.at(id).name] = std::move(tensor);
  }
  return out;
}

/// The largest difference between the outputs of two graphs, relative to the largest output.
double difference(const ir::Graph& a, const ir::Graph& b, const ir::DimValues& dims) {
  const Tensors inputs = random_inputs(a, dims, 7);
  auto of_a = interpret(a, inputs), of_b = interpret(b, inputs);
  EXPECT_TRUE(of_a.ok()) << of_a.error().text;
  EXPECT_TRUE(of_b.ok()) << of_b.error().text << ir::show_graph(b);
  if (!of_a.ok() || !of_b.ok()) return INFINITY;
  double largest = 0, worst = 0;
  for (const auto& [name, tensor] : *of_a) {
    const ir::Tensor& other = (*of_b)[name];
    EXPECT_EQ(tensor.sizes(), other.sizes());
    for (size_t i = 0; i < tensor.elements(); ++i) {
      largest = std::max(largest, std::fabs(tensor.real(i)));
      worst = std::max(worst, std::fabs(tensor.real(i) - other.real(i)));
    }
  }
  return worst / std::max(largest, 1e-9);
}

/// The operators of a graph after a pass, in order. The result is the same as before.
std::vector<std::string> ops_after(Status (*pass)(ir::Graph&), std::string_view text, const ir::DimValues& dims = {}) {
  const ir::Graph before = graph_of(text);
  ir::Graph after = before;
  const Status status = pass(after);
  EXPECT_TRUE(status.ok()) << status.error().text;
  const Status checked = op::check_graph(after);
  EXPECT_TRUE(checked.ok()) << checked.error().text << ir::show_graph(after);
  EXPECT_LT(difference(before, after, dims), 1e-5) << ir::show_graph(after);
  std::vector<std::string> out;
  for (const ir::Node& node : after.nodes) {
    std::string name = node.op;
    if (node.body)
      for (const ir::Node& inner : node.body->nodes) name += "+" + inner.op;
    out.push_back(name);
  }
  return out;
}

Status recognised(ir::Graph& graph) {
  QUERN_TRY(canonical(graph));
  return recognise(graph);
}
Status fused(ir::Graph& graph) {
  QUERN_TRY(recognised(graph));
  return fuse(graph);
}

TEST(Fold, what_constants_alone_determine_is_computed) {
  EXPECT_THAT(ops_after(fold, R"(graph(x: fp32[2]) {
                a: fp32[2] = constant {values=[1, 2]}
                b = mul(a, a)
                c = reduce_sum(b) {axes=[0]}
                y = add(x, c)
                return y
              })"),
              ElementsAre("add"));
}

TEST(Fold, inputs_are_never_folded) {
  EXPECT_THAT(ops_after(fold, "graph(x: fp32[1]) { y = mul(x, x) z = sub(y, y) return z }"), ElementsAre("mul", "sub"));
}

TEST(Fold, sizes_are_made_from_dims_whatever_computed_them) {
  EXPECT_THAT(ops_after(fold, R"(graph(x: fp32[n, 4]) {
                s = dims() {values=[n, 4], shape=[2]}
                i: int64[1] = constant {values=[0]}
                n = gather(s, i) {axis=0}
                two: int64[] = constant {values=[2]}
                m = mul(n, two)
                return m
              })",
                        {{"n", 3}}),
              ElementsAre("dims"));
}

TEST(Fold, nodes_and_constants_that_are_the_same_become_one) {
  EXPECT_THAT(ops_after(fold, R"(graph(x: fp32[2]) {
                a: fp32[2] = constant {values=[1, 2]}
                b: fp32[2] = constant {values=[1, 2]}
                c = add(x, a)
                d = add(x, b)
                y = mul(c, d)
                return y
              })"),
              ElementsAre("add", "mul"));
}

TEST(Fold, a_large_result_of_small_constants_is_left_to_the_device) {
  ir::Graph graph = graph_of("graph() { a: fp32[1] = constant {fill=1} b = broadcast(a) {shape=[1000000]} return b }");
  ASSERT_TRUE(fold(graph).ok());
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(Canonical, views_that_do_nothing_go_and_two_in_a_row_become_one) {
  EXPECT_THAT(ops_after(canonical, R"(graph(x: fp32[2, 3, 1]) {
                a = transpose(x) {order=[1, 0, 2]}
                b = transpose(a) {order=[1, 0, 2]}
                c = reshape(b) {shape=[6]}
                d = reshape(c) {shape=[3, 2]}
                e = slice(d) {starts=[0, 0], sizes=[3, 2], steps=[1, 1]}
                f = broadcast(e) {shape=[3, 2]}
                g = cast(f) {to="fp32"}
                h = pad(g) {begins=[0, 0], ends=[0, 0]}
                i = concat(h) {axis=0}
                return i
              })"),
              ElementsAre("reshape"));
  EXPECT_THAT(ops_after(canonical, "graph(x: fp32[2, 1, 3]) { y = transpose(x) {order=[1, 0, 2]} return y }"),
              ElementsAre("reshape"));
}

TEST(Canonical, constants_are_joined_and_neutral_ones_go) {
  EXPECT_THAT(ops_after(canonical, R"(graph(x: fp32[2, 2]) {
                one: fp32[1] = constant {fill=1}
                zero: fp32[] = constant {fill=0}
                two: fp32[] = constant {fill=2}
                c: fp32[2] = constant {values=[3, 5]}
                a = mul(one, x)
                b = add(a, zero)
                d = div(b, two)
                e = mul(c, d)
                f = pow(e, one)
                g = sub(f, two)
                h = add(g, two)
                return h
              })"),
              ElementsAre("mul"));
}

TEST(Canonical, powers_and_quotients_of_small_numbers_become_simpler) {
  EXPECT_THAT(ops_after(canonical, R"(graph(x: fp32[4]) {
                two: fp32[] = constant {fill=2}
                one: fp32[] = constant {fill=1}
                a = pow(x, two)
                b = add(a, one)
                c = div(one, b)
                d = mul(x, c)
                return d
              })"),
              ElementsAre("mul", "add", "div"));
}

TEST(Canonical, scales_sums_and_pads_go_into_a_convolution) {
  EXPECT_THAT(ops_after(canonical, R"(graph(x: fp32[n, 2, 5, 5]) {
                w: fp32[3, 2, 3, 3] = constant {random=1}
                s: fp32[3, 1, 1] = constant {random=2}
                b: fp32[1, 3, 1, 1] = constant {random=3}
                p = pad(x) {begins=[0, 0, 1, 1], ends=[0, 0, 1, 2]}
                c = conv(p, w) {strides=[2, 2], pads=[0, 0, 0, 0], dilations=[1, 1]}
                d = mul(c, s)
                e = add(d, b)
                f = add(e, b)
                return f
              })",
                        {{"n", 2}}),
              ElementsAre("conv"));
}

TEST(Canonical, a_scale_goes_into_a_transposed_convolution_and_a_matrix) {
  EXPECT_THAT(ops_after(canonical, R"(graph(x: fp32[1, 2, 3, 3], m: fp32[4, 5]) {
                w: fp32[2, 3, 2, 2] = constant {random=1}
                s: fp32[3, 1, 1] = constant {random=2}
                c = conv_transpose(x, w) {strides=[2, 2], pads=[0, 0, 0, 0], dilations=[1, 1], sizes=[6, 6]}
                d = mul(c, s)
                v: fp32[3, 5] = constant {random=4}
                t: fp32[3] = constant {random=5}
                q = matmul(m, v) {trans_b=1}
                r = mul(q, t)
                return d, r
              })"),
              ElementsAre("conv_transpose", "matmul"));
}

TEST(Canonical, a_product_that_others_read_keeps_its_weights) {
  EXPECT_THAT(ops_after(canonical, R"(graph(m: fp32[4, 5]) {
                v: fp32[5, 3] = constant {random=4}
                t: fp32[3] = constant {random=5}
                q = matmul(m, v)
                r = mul(q, t)
                return q, r
              })"),
              ElementsAre("matmul", "mul"));
}

TEST(Canonical, transposed_operands_become_flags_of_a_product) {
  EXPECT_THAT(ops_after(canonical, R"(graph(a: fp32[2, 3, 4], b: fp32[2, 5, 4]) {
                t = transpose(b) {order=[0, 2, 1]}
                y = matmul(a, t)
                return y
              })"),
              ElementsAre("matmul"));
}

TEST(Recognise, gelu_in_its_spellings) {
  constexpr std::string_view kErf =
      "r: fp32[] = constant {values=[1.41421356]} one: fp32[] = constant {fill=1} "
      "half: fp32[] = constant {fill=0.5} d = div(x, r) e = erf(d) s = add(e, one)";
  for (const std::string_view tail : {"p = mul(x, s) y = mul(p, half)", "h = mul(x, half) y = mul(h, s)",
                                      "h = mul(s, half) y = mul(x, h)", "h = mul(half, x) y = mul(s, h)"})
    EXPECT_THAT(ops_after(recognised, fmt::format("graph(x: fp32[n, 4]) {{ {} {} return y }}", kErf, tail), {{"n", 2}}),
                ElementsAre("gelu"))
        << tail;
  EXPECT_THAT(ops_after(recognised, R"(graph(x: fp32[4]) {
                three: fp32[] = constant {fill=3}
                a: fp32[] = constant {values=[0.044715]}
                c: fp32[] = constant {values=[0.7978845608]}
                one: fp32[] = constant {fill=1}
                half: fp32[] = constant {fill=0.5}
                p = pow(x, three)
                q = mul(a, p)
                r = add(x, q)
                s = mul(c, r)
                t = tanh(s)
                u = add(t, one)
                h = mul(x, half)
                y = mul(h, u)
                return y
              })"),
              ElementsAre("gelu_tanh"));
}

TEST(Recognise, a_spelling_with_another_number_is_left_alone) {
  EXPECT_THAT(ops_after(recognised, R"(graph(x: fp32[4]) {
                r: fp32[] = constant {values=[1.5]}
                one: fp32[] = constant {fill=1}
                half: fp32[] = constant {fill=0.5}
                d = div(x, r)
                e = erf(d)
                s = add(e, one)
                p = mul(x, s)
                y = mul(p, half)
                return y
              })"),
              ElementsAre("mul", "erf", "add", "mul", "mul"));
}

TEST(Recognise, a_part_that_others_read_is_not_computed_twice) {
  EXPECT_THAT(ops_after(recognised, "graph(x: fp32[4]) { s = sigmoid(x) y = mul(x, s) return y, s }"),
              ElementsAre("sigmoid", "mul"));
}

TEST(Recognise, swish_and_hard_swish) {
  EXPECT_THAT(ops_after(recognised, "graph(x: fp32[4]) { s = sigmoid(x) y = mul(s, x) return y }"),
              ElementsAre("swish"));
  EXPECT_THAT(
      ops_after(recognised,
                "graph(x: fp32[4]) { s = hard_sigmoid(x) {alpha=0.16666667, beta=0.5} y = mul(x, s) return y }"),
      ElementsAre("hard_swish"));
  EXPECT_THAT(ops_after(recognised, R"(graph(x: fp32[4]) {
                three: fp32[] = constant {fill=3}
                zero: fp32[] = constant {fill=0}
                six: fp32[] = constant {fill=6}
                a = add(x, three)
                b = max(a, zero)
                c = min(b, six)
                d = mul(x, c)
                y = div(d, six)
                return y
              })"),
              ElementsAre("hard_swish"));
}

constexpr std::string_view kSpelledLayerNorm = R"(graph(x: fp32[n, 4, 6]) {
  two: fp32[] = constant {fill=2}
  eps: fp32[] = constant {values=[0.00001]}
  g: fp32[6] = constant {random=1}
  b: fp32[6] = constant {random=2}
  m = reduce_mean(x) {axes=[2]}
  c = sub(x, m)
  m2 = reduce_mean(x) {axes=[2]}
  c2 = sub(x, m2)
  q = pow(c2, two)
  v = reduce_mean(q) {axes=[2]}
  e = add(v, eps)
  s = sqrt(e)
  d = div(c, s)
  h = mul(d, g)
  y = add(b, h)
  return y
})";

TEST(Recognise, layer_norm_with_scale_and_bias) {
  EXPECT_THAT(ops_after(recognised, kSpelledLayerNorm, {{"n", 2}}), ElementsAre("layer_norm"));
}

TEST(Recognise, a_norm_over_other_axes_is_left_alone) {
  std::string text(kSpelledLayerNorm);
  for (size_t at = text.find("axes=[2]"); at != text.npos; at = text.find("axes=[2]", at))
    text.replace(at, 8, "axes=[1]");
  EXPECT_GT(ops_after(recognised, text, {{"n", 2}}).size(), 5u);
}

TEST(Recognise, softmax_spelled_out) {
  EXPECT_THAT(ops_after(recognised, R"(graph(x: fp32[3, 4]) {
                m = reduce_max(x) {axes=[1]}
                d = sub(x, m)
                e = exp(d)
                s = reduce_sum(e) {axes=[1]}
                y = div(e, s)
                return y
              })"),
              ElementsAre("softmax"));
}

constexpr std::string_view kAttention =
    R"(graph(q: fp32[n, 2, t, 4], k: fp32[n, 2, t, 4], v: fp32[n, 2, t, 4], mask: fp32[n, 1, 1, t]) {
  eight: fp32[] = constant {fill=8}
  kt = transpose(k) {order=[0, 1, 3, 2]}
  p = matmul(q, kt)
  s = div(p, eight)
  m = add(s, mask)
  w = softmax(m) {axis=3}
  y = matmul(w, v)
  return y
})";

TEST(Recognise, attention_with_scale_and_mask) {
  EXPECT_THAT(ops_after(recognised, kAttention, {{"n", 2}, {"t", 3}}), ElementsAre("attention"));
}

TEST(Fuse, chains_become_one_node_and_end_where_others_read) {
  EXPECT_THAT(ops_after(fuse, "graph(x: fp32[4], z: fp32[4]) { a = exp(x) b = add(a, z) c = relu(b) return c }"),
              ElementsAre("fused+exp+add+relu"));
  EXPECT_THAT(ops_after(fuse, "graph(x: fp32[4]) { a = exp(x) b = neg(a) c = relu(b) return c, a }"),
              ElementsAre("exp", "fused+neg+relu"));
  EXPECT_THAT(ops_after(fuse, "graph(x: fp32[4]) { a = exp(x) return a }"), ElementsAre("exp"));
}

TEST(Fuse, a_smaller_operand_is_not_computed_again_for_every_element) {
  EXPECT_THAT(ops_after(fuse, "graph(x: fp32[4], s: fp32[1]) { a = exp(s) b = exp(x) c = mul(b, a) return c }"),
              ElementsAre("exp", "fused+exp+mul"));
}

TEST(Fuse, a_convolution_takes_its_residual_and_activation) {
  EXPECT_THAT(ops_after(fused, R"(graph(x: fp32[n, 2, 5, 5]) {
                w: fp32[2, 2, 3, 3] = constant {random=1}
                v: fp32[2, 2, 3, 3] = constant {random=2}
                six: fp32[] = constant {fill=6}
                zero: fp32[] = constant {fill=0}
                a = conv(x, w) {strides=[1, 1], pads=[1, 1, 1, 1], dilations=[1, 1]}
                b = max(a, zero)
                c = min(b, six)
                d = conv(c, v) {strides=[1, 1], pads=[1, 1, 1, 1], dilations=[1, 1]}
                e = add(d, x)
                y = relu(e)
                return y
              })",
                        {{"n", 2}}),
              ElementsAre("conv+relu+min", "conv+add+relu"));
}

TEST(Fuse, of_two_products_the_later_one_takes_the_sum) {
  EXPECT_THAT(ops_after(fused, R"(graph(x: fp32[2, 3], z: fp32[2, 3]) {
                w: fp32[3, 3] = constant {random=1}
                a = matmul(x, w)
                b = matmul(z, w)
                e = exp(z)
                c = mul(b, e)
                d = add(a, c)
                y = relu(d)
                return y
              })"),
              ElementsAre("matmul", "matmul+exp+mul+add+relu"));
}

TEST(Fuse, a_body_survives_its_text) {
  ir::Graph graph = graph_of(R"(graph(x: fp32[n, 3], b: fp32[3]) {
    w: fp32[3, 3] = constant {values=[1, 2, 3, 4, 5, 6, 7, 8, 9]}
    a = matmul(x, w)
    s = add(a, b)
    y = relu(s)
    return y
  })");
  ASSERT_TRUE(fuse(graph).ok());
  const std::string text = ir::show_graph(graph);
  EXPECT_THAT(text, HasSubstr(") with graph("));
  EXPECT_EQ(ir::show_graph(graph_of(text)), text);
}

TEST(Pattern, numbers_names_and_orders) {
  const ir::Graph original = graph_of(R"(graph(x: fp32[4], y: fp32[4]) {
    c: fp32[4] = constant {fill=2}
    a = mul(c, x)
    b = add(y, a)
    return b
  })");
  ir::Graph graph = original;
  const Rewriter rewriter(graph);
  const ir::Node& root = graph.nodes[1];
  EXPECT_TRUE(Pattern("add(mul(p, 2), q)").match(rewriter, root));
  EXPECT_TRUE(Pattern("add(p, mul(q, ?n))").match(rewriter, root));
  EXPECT_EQ(Pattern("add(p, mul(q, ?n))").match(rewriter, root)->number("n"), 2);
  EXPECT_FALSE(Pattern("add(mul(p, 3), q)").match(rewriter, root));
  EXPECT_FALSE(Pattern("add(mul(p, 2), p)").match(rewriter, root));
  EXPECT_FALSE(Pattern("mul(p, 2)").match(rewriter, root));
}

TEST(Passes, a_network_of_everything_means_the_same_after_each) {
  ir::Graph graph = graph_of(R"(graph(x: fp32[n, 3, 8, 8]) {
    w: fp32[4, 3, 3, 3] = constant {random=1}
    scale: fp32[4] = constant {random=2}
    shape = dims() {values=[n, 256], shape=[2]}
    one: fp32[] = constant {fill=1}
    s = reshape(scale) {shape=[4, 1, 1]}
    c = conv(x, w) {strides=[1, 1], pads=[1, 1, 1, 1], dilations=[1, 1]}
    b = mul(c, s)
    g = sigmoid(b)
    a = mul(b, g)
    p = average_pool(a) {kernel=[2, 2], strides=[2, 2], dilations=[1, 1], pads=[0, 0, 0, 0], sizes=[4, 4]}
    f = reshape(p) {shape=[n, 64]}
    v: fp32[64, 5] = constant {random=3}
    m = matmul(f, v)
    q = div(m, one)
    y = softmax(q) {axis=1}
    return y, shape
  })");
  const ir::Graph before = graph;
  size_t seen = 0;
  const Status status = run_passes(graph, [&](const Pass& pass, const ir::Graph& after) {
    ++seen;
    EXPECT_LT(difference(before, after, {{"n", 2}}), 1e-5) << pass.name;
  });
  EXPECT_TRUE(status.ok()) << status.error().text;
  EXPECT_EQ(seen, passes().size());
}

}  // namespace
}  // namespace quern::model::pass
