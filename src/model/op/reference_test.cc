// SPDX-License-Identifier: Apache-2.0
//
// Every reference once, on numbers that can be checked by head or with NumPy. The node tests of ONNX say more, where
// they are.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "model/interpret.h"
#include "model/ir/text.h"
#include "model/op/check.h"
#include "model/op/table.h"

namespace quern::model {
namespace {

using ::testing::HasSubstr;

/// The types and elements that a graph without inputs gives, "fp32[2] 1 2", or its error.
std::string result_of(std::string_view body) {
  auto parsed = ir::parse_graph(fmt::format("graph() {{ {} }}", body));
  if (!parsed.ok()) return parsed.error().text;
  auto graph = op::complete(*std::move(parsed));
  if (!graph.ok()) return graph.error().text;
  auto outputs = interpret(*graph, {});
  if (!outputs.ok()) return outputs.error().text;
  std::string out;
  for (const ir::Output& output : graph->outputs) {
    const ir::Tensor& tensor = (*outputs)[output.name];
    out += fmt::format("{}{}{}", out.empty() ? "" : "; ", name_of(tensor.dtype()), ir::show_sizes(tensor.sizes()));
    for (size_t i = 0; i < tensor.elements(); ++i)
      out += is_float(tensor.dtype()) ? fmt::format(" {:.4g}", tensor.real(i)) : fmt::format(" {}", tensor.whole(i));
  }
  return out;
}
std::string one(std::string_view op_and_attributes, std::string_view x) {
  return result_of(fmt::format("x: {} y = {} return y", x, op_and_attributes));
}

constexpr std::string_view kMatrix = "fp32[2, 3] = constant {values=[1, 2, 3, 4, 5, 6]}";

TEST(Reference, functions_of_one_tensor) {
  constexpr std::string_view kX = "fp32[4] = constant {values=[-2, -0.5, 0, 1.5]}";
  EXPECT_EQ(one("relu(x)", kX), "fp32[4] 0 0 0 1.5");
  EXPECT_EQ(one("leaky_relu(x) {alpha=0.1}", kX), "fp32[4] -0.2 -0.05 0 1.5");
  EXPECT_EQ(one("hard_swish(x)", kX), "fp32[4] -0.3333 -0.2083 0 1.125");
  EXPECT_EQ(one("hard_sigmoid(x) {alpha=0.2, beta=0.5}", kX), "fp32[4] 0.1 0.4 0.5 0.8");
  EXPECT_EQ(one("gelu(x)", kX), "fp32[4] -0.0455 -0.1543 0 1.4");
  EXPECT_EQ(one("gelu_tanh(x)", kX), "fp32[4] -0.0454 -0.1543 0 1.4");
  EXPECT_EQ(one("round(x)", "fp32[5] = constant {values=[-2.5, -1.5, 0.5, 1.5, 2.4]}"), "fp32[5] -2 -2 0 2 2");
  EXPECT_EQ(one("neg(x)", "int8[2] = constant {values=[-128, 5]}"), "int8[2] -128 -5");
  EXPECT_EQ(one("abs(x)", "uint64[1] = constant {values=[7]}"), "uint64[1] 7");
  EXPECT_THAT(one("exp(x)", "int32[1] = constant {values=[7]}"), HasSubstr("exp of int32 is not supported"));
  EXPECT_EQ(one("not(x)", "bool[2] = constant {values=[0, 1]}"), "bool[2] 1 0");
}

TEST(Reference, functions_of_two_tensors_broadcast) {
  const auto of = [](std::string_view op, std::string_view a, std::string_view b) {
    return result_of(fmt::format("a: {} = constant {} b: {} = constant {} y = {}(a, b) return y",
                                 a.substr(0, a.find(' ')), a.substr(a.find(' ')), b.substr(0, b.find(' ')),
                                 b.substr(b.find(' ')), op));
  };
  EXPECT_EQ(of("add", "fp32[2,1] {values=[1, 2]}", "fp32[3] {values=[10, 20, 30]}"), "fp32[2, 3] 11 21 31 12 22 32");
  EXPECT_EQ(of("add", "uint8[1] {values=[250]}", "uint8[1] {values=[10]}"), "uint8[1] 4");
  EXPECT_EQ(of("div", "int32[3] {values=[7, -7, 5]}", "int32[3] {values=[2, 2, 0]}"), "int32[3] 3 -3 0");
  EXPECT_EQ(of("mod", "int32[2] {values=[-7, 7]}", "int32[2] {values=[3, -3]}"), "int32[2] 2 -2");
  EXPECT_EQ(of("fmod", "int32[2] {values=[-7, 7]}", "int32[2] {values=[3, -3]}"), "int32[2] -1 1");
  EXPECT_EQ(of("pow", "int32[2] {values=[3, 2]}", "fp32[2] {values=[2, 0.5]}"), "int32[2] 9 1");
  EXPECT_EQ(of("less", "fp32[2] {values=[1, nan]}", "fp32[2] {values=[2, 2]}"), "bool[2] 1 0");
  EXPECT_EQ(of("max", "fp32[2] {values=[1, nan]}", "fp32[2] {values=[2, 2]}"), "fp32[2] 2 nan");
  EXPECT_THAT(of("add", "fp32[2] {fill=1}", "int32[2] {fill=1}"), HasSubstr("fp32 and int32"));
  EXPECT_THAT(of("add", "fp32[2] {fill=1}", "fp32[3] {fill=1}"), HasSubstr("[2] and [3] do not fit"));
  EXPECT_EQ(result_of("c: bool[2] = constant {values=[1, 0]} a: int8[2] = constant {values=[1, 2]} "
                      "b: int8[1] = constant {values=[9]} y = where(c, a, b) return y"),
            "int8[2] 1 9");
}

TEST(Reference, casts_truncate_saturate_and_wrap) {
  constexpr std::string_view kX = "fp32[5] = constant {values=[-1.9, 300.7, nan, inf, 0.5]}";
  EXPECT_EQ(one("cast(x) {to=\"int8\"}", kX), "int8[5] -1 127 0 127 0");
  EXPECT_EQ(one("cast(x) {to=\"uint64\"}", kX), "uint64[5] 0 300 0 -1 0");  // whole() shows the bits
  EXPECT_EQ(one("cast(x) {to=\"bool\"}", kX), "bool[5] 1 1 1 1 1");
  EXPECT_EQ(one("cast(x) {to=\"int8\"}", "int32[1] = constant {values=[200]}"), "int8[1] -56");
  EXPECT_EQ(one("cast(x) {to=\"fp16\"}", "fp32[2] = constant {values=[0.1, 70000]}"), "fp16[2] 0.09998 inf");
}

TEST(Reference, views_of_a_tensor) {
  EXPECT_EQ(one("transpose(x) {order=[1, 0]}", kMatrix), "fp32[3, 2] 1 4 2 5 3 6");
  EXPECT_EQ(one("reshape(x) {shape=[3, 2]}", kMatrix), "fp32[3, 2] 1 2 3 4 5 6");
  EXPECT_EQ(one("slice(x) {starts=[1, 2], sizes=[1, 2], steps=[1, -2]}", kMatrix), "fp32[1, 2] 6 4");
  EXPECT_EQ(one("broadcast(x) {shape=[2, 2, 1]}", "fp32[2, 1] = constant {values=[1, 2]}"), "fp32[2, 2, 1] 1 2 1 2");
  EXPECT_THAT(one("reshape(x) {shape=[4]}", kMatrix), HasSubstr("cannot become [4]"));
  EXPECT_THAT(one("transpose(x) {order=[0, 0]}", kMatrix), HasSubstr("no order of 2 dimensions"));
  EXPECT_THAT(one("slice(x) {starts=[1, 0], sizes=[2, 1], steps=[1, 1]}", kMatrix),
              HasSubstr("elements 1 to 2 of a dimension of 2"));
}

TEST(Reference, tensors_are_joined_and_padded) {
  EXPECT_EQ(one("concat(x, x) {axis=1}", "fp32[2, 1] = constant {values=[1, 2]}"), "fp32[2, 2] 1 1 2 2");
  EXPECT_EQ(one("pad(x) {begins=[2], ends=[1]}", "fp32[2] = constant {values=[1, 2]}"), "fp32[5] 0 0 1 2 0");
  constexpr std::string_view kX = "fp32[3] = constant {values=[1, 2, 3]}";
  EXPECT_EQ(one("pad(x) {begins=[2], ends=[4], mode=\"reflect\"}", kX), "fp32[9] 3 2 1 2 3 2 1 2 3");
  EXPECT_EQ(one("pad(x) {begins=[1], ends=[2], mode=\"edge\"}", kX), "fp32[6] 1 1 2 3 3 3");
  EXPECT_EQ(one("pad(x) {begins=[1], ends=[2], mode=\"wrap\"}", kX), "fp32[6] 3 1 2 3 1 2");
}

TEST(Reference, elements_by_index) {
  const auto with = [](std::string_view op, std::string_view indices) {
    return result_of(fmt::format("x: {} i: {} y = {} return y", kMatrix, indices, op));
  };
  EXPECT_EQ(with("gather(x, i) {axis=1}", "int64[2] = constant {values=[-1, 0]}"), "fp32[2, 2] 3 1 6 4");
  EXPECT_EQ(with("gather_elements(x, i) {axis=1}", "int64[2, 1] = constant {values=[2, 0]}"), "fp32[2, 1] 3 4");
  EXPECT_EQ(with("gather_nd(x, i)", "int64[2, 2] = constant {values=[0, 1, 1, -1]}"), "fp32[2] 2 6");
  EXPECT_EQ(with("gather_nd(x, i) {batch=1}", "int64[2, 1] = constant {values=[0, 2]}"), "fp32[2] 1 6");
  EXPECT_THAT(with("gather(x, i) {axis=1}", "int64[1] = constant {values=[3]}"),
              HasSubstr("index 3 into a dimension of 3"));
  EXPECT_EQ(result_of("x: fp32[3] = constant {values=[1, 2, 3]} i: int64[2, 1] = constant {values=[1, 1]} "
                      "u: fp32[2] = constant {values=[10, 20]} y = scatter_nd(x, i, u) {reduction=\"add\"} return y"),
            "fp32[3] 1 32 3");
  EXPECT_EQ(result_of("x: fp32[3] = constant {values=[1, 2, 3]} i: int64[1] = constant {values=[-1]} "
                      "u: fp32[1] = constant {values=[9]} y = scatter_elements(x, i, u) {axis=0} return y"),
            "fp32[3] 1 2 9");
}

TEST(Reference, sums_and_extremes_along_axes) {
  EXPECT_EQ(one("reduce_sum(x) {axes=[1], keep=0}", kMatrix), "fp32[2] 6 15");
  EXPECT_EQ(one("reduce_mean(x) {axes=[0]}", kMatrix), "fp32[1, 3] 2.5 3.5 4.5");
  EXPECT_EQ(one("reduce_max(x) {axes=[0, 1], keep=0}", kMatrix), "fp32[] 6");
  EXPECT_EQ(one("reduce_prod(x) {axes=[1], keep=0}", kMatrix), "fp32[2] 6 120");
  EXPECT_EQ(one("reduce_min(x) {axes=[0], keep=0}", "fp32[0, 2] = constant {fill=0}"), "fp32[2] inf inf");
  EXPECT_EQ(one("cum_sum(x) {axis=1, exclusive=1, reverse=1}", kMatrix), "fp32[2, 3] 5 3 0 11 6 0");
  EXPECT_EQ(one("arg_max(x) {axis=0, keep=0, last=1}", "fp32[3] = constant {values=[2, 2, 1]}"), "int64[] 1");
  EXPECT_EQ(result_of("x: fp32[4] = constant {values=[1, 3, 3, 2]} v, i = top_k(x) {axis=0, k=3} return v, i"),
            "fp32[3] 3 3 2; int64[3] 1 2 3");
}

TEST(Reference, products_of_matrices) {
  EXPECT_EQ(one("matmul(x, x) {trans_b=1}", kMatrix), "fp32[2, 2] 14 32 32 77");
  EXPECT_EQ(one("matmul(x, x) {trans_a=1}", kMatrix), "fp32[3, 3] 17 22 27 22 29 36 27 36 45");
  EXPECT_EQ(result_of("a: fp32[2, 1, 2] = constant {values=[1, 2, 3, 4]} b: fp32[2, 1] = constant {values=[1, 10]} "
                      "y = matmul(a, b) return y"),
            "fp32[2, 1, 1] 21 43");
  EXPECT_THAT(one("matmul(x, x)", kMatrix), HasSubstr("rows of 3 times columns of 2"));
}

TEST(Reference, convolutions_with_pads_strides_dilations_and_groups) {
  constexpr std::string_view kPicture = "fp32[1, 1, 3, 3] = constant {values=[1, 2, 3, 4, 5, 6, 7, 8, 9]}";
  const auto with = [&](std::string_view x, std::string_view w, std::string_view op) {
    return result_of(fmt::format("x: {} w: {} y = {} return y", x, w, op));
  };
  EXPECT_EQ(with(kPicture, "fp32[1, 1, 2, 2] = constant {fill=1}",
                 "conv(x, w) {strides=[2, 1], pads=[1, 0, 0, 0], dilations=[1, 1]}"),
            "fp32[1, 1, 2, 2] 3 5 24 28");
  EXPECT_EQ(with(kPicture, "fp32[1, 1, 2, 2] = constant {fill=1}",
                 "conv(x, w) {strides=[1, 1], pads=[0, 0, 0, 0], dilations=[2, 2]}"),
            "fp32[1, 1, 1, 1] 20");
  EXPECT_EQ(with("fp32[1, 2, 2] = constant {values=[1, 2, 3, 4]}", "fp32[2, 1, 1] = constant {values=[10, 100]}",
                 "conv(x, w) {strides=[1], pads=[0, 0], dilations=[1], group=2}"),
            "fp32[1, 2, 2] 10 20 300 400");
  EXPECT_EQ(with("fp32[1, 1, 2] = constant {values=[1, 2]}", "fp32[1, 1, 3] = constant {values=[1, 10, 100]}",
                 "conv_transpose(x, w) {strides=[2], pads=[0, 0], dilations=[1], sizes=[5]}"),
            "fp32[1, 1, 5] 1 10 102 20 200");
}

TEST(Reference, pools_count_what_lies_inside) {
  constexpr std::string_view kLine = "fp32[1, 1, 4] = constant {values=[1, 5, 2, 4]}";
  EXPECT_EQ(result_of(fmt::format("x: {} v, i = max_pool(x) {{kernel=[2], strides=[2], dilations=[1], pads=[0, 0], "
                                  "sizes=[2]}} return v, i",
                                  kLine)),
            "fp32[1, 1, 2] 5 4; int64[1, 1, 2] 1 3");
  EXPECT_EQ(one("average_pool(x) {kernel=[2], strides=[2], dilations=[1], pads=[1, 1], sizes=[3]}", kLine),
            "fp32[1, 1, 3] 1 3.5 4");
  EXPECT_EQ(
      one("average_pool(x) {kernel=[2], strides=[2], dilations=[1], pads=[1, 1], sizes=[3], count_pads=1}", kLine),
      "fp32[1, 1, 3] 0.5 3.5 2");
  EXPECT_EQ(one("sum_pool(x) {kernel=[3], strides=[1], dilations=[1], pads=[0, 0], sizes=[2]}", kLine),
            "fp32[1, 1, 2] 8 11");
}

TEST(Reference, normalisation) {
  EXPECT_EQ(one("softmax(x) {axis=1}", "fp32[1, 2] = constant {values=[1000, 1000]}"), "fp32[1, 2] 0.5 0.5");
  EXPECT_EQ(one("log_softmax(x) {axis=0}", "fp32[2] = constant {values=[0, 0]}"), "fp32[2] -0.6931 -0.6931");
  EXPECT_EQ(one("layer_norm(x) {axis=1, epsilon=0}", kMatrix), "fp32[2, 3] -1.225 0 1.225 -1.225 0 1.225");
  EXPECT_EQ(one("layer_norm(x) {axis=0, epsilon=0, centre=0}", "fp32[2] = constant {values=[3, 4]}"),
            "fp32[2] 0.8485 1.131");
}

TEST(Reference, other_sizes) {
  constexpr std::string_view kLine = "fp32[2] = constant {values=[1, 3]}";
  EXPECT_EQ(one("resize(x) {scales=[2.0], sizes=[4], mode=\"linear\"}", kLine), "fp32[4] 1 1.5 2.5 3");
  EXPECT_EQ(
      one("resize(x) {scales=[2.0], sizes=[4], mode=\"nearest\", transform=\"asymmetric\", nearest=\"floor\"}", kLine),
      "fp32[4] 1 1 3 3");
  EXPECT_EQ(one("resize(x) {scales=[0.0], sizes=[3], mode=\"linear\", transform=\"align_corners\"}", kLine),
            "fp32[3] 1 2 3");
}

TEST(Reference, tensors_made_of_sizes) {
  EXPECT_EQ(result_of("y = range() {start=5, step=-2, count=3} return y"), "int64[3] 5 3 1");
  EXPECT_EQ(result_of("y = dims() {values=[4, 7], shape=[2], dtype=\"int32\"} return y"), "int32[2] 4 7");
  EXPECT_EQ(one("triangle(x) {k=1, upper=1}", kMatrix), "fp32[2, 3] 0 2 3 0 0 6");
}

TEST(Table, every_rule_has_an_importer_or_an_operator) {
  size_t operators = 0;
  for (const op::Family* family : op::families()) {
    EXPECT_FALSE(family->name.empty());
    for (const op::Operator& one : family->operators) {
      ++operators;
      EXPECT_EQ(op::find_operator(one.name), &one);
    }
    for (const op::OnnxRule& rule : family->rules)
      EXPECT_TRUE(rule.import || op::find_operator(rule.becomes)) << rule.op;
  }
  EXPECT_GT(operators, 80u);
}

TEST(Table, the_newest_rule_that_is_not_newer_holds) {
  EXPECT_EQ(op::find_rule("", "Clip", 10)->since, 6);
  EXPECT_EQ(op::find_rule("", "Clip", 11)->since, 11);
  EXPECT_EQ(op::find_rule("", "Clip", 20)->since, 11);
  EXPECT_EQ(op::find_rule("", "Gelu", 19), nullptr);
  EXPECT_EQ(op::find_rule("com.example", "Relu", 19), nullptr);
}

}  // namespace
}  // namespace quern::model
