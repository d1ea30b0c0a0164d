// SPDX-License-Identifier: Apache-2.0
#include "model/ir/text.h"

#include <gmock/gmock.h>

#include "model/op/check.h"

namespace quern::model {
namespace {

using ::testing::HasSubstr;

ir::Graph graph_of(std::string_view text) {
  auto parsed = ir::parse_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().text;
  if (!parsed.ok()) return {};
  auto graph = op::complete(*std::move(parsed));
  EXPECT_TRUE(graph.ok()) << graph.error().text;
  return graph.ok() ? *std::move(graph) : ir::Graph();
}
std::string parse_error(std::string_view text) {
  auto parsed = ir::parse_graph(text);
  return parsed.ok() ? "" : parsed.error().text;
}

constexpr std::string_view kText = R"(dim n in 1..32
graph(x: fp32[n, 3, 8, 8], "odd name": bool[]) {
  w: fp32[1, 3, 1, 1] = constant {values=[0.5, -1.5, 2.0]}
  ones: fp32[1] = constant {fill=1.0}
  y: fp32[n, 1, 8, 8] = conv(x, w) {dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]} @Conv_0 @"Conv 1"
  z: fp32[n, 1, 8, 8] = leaky_relu(y) {alpha=0.1}
  r: fp32[64 * n] = reshape(z) {shape=[64 * n]}
  require n == 4
  return r, features=y
}
)";

TEST(IrText, a_graph_survives_its_text) {
  std::string text(kText);
  // `ones` is used by nothing, and constants are shown where they are used first.
  text.erase(text.find("  ones"), std::string("  ones: fp32[1] = constant {fill=1.0}\n").size());
  EXPECT_EQ(ir::show_graph(graph_of(kText)), text);
  EXPECT_EQ(ir::show_graph(graph_of(text)), text);
}

TEST(IrText, types_that_are_left_out_are_inferred_and_others_checked) {
  const ir::Graph graph = graph_of("graph(x: fp32[a, 1], y: fp32[4]) { z = add(x, y) return z }");
  EXPECT_EQ(ir::show_type(graph.type(graph.outputs[0].value)), "fp32[a, 4]");
  auto parsed = ir::parse_graph("graph(x: fp32[2]) { z: fp32[3] = relu(x) return z }");
  ASSERT_TRUE(parsed.ok());
  auto wrong = op::complete(*std::move(parsed));
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().text, HasSubstr("'z' is fp32[2], and the text states fp32[3]"));
}

TEST(IrText, bounds_of_dims_hold_in_expressions) {
  const ir::Graph graph = graph_of(
      "dim s in 1..16\ngraph(x: fp32[s]) { y = slice(x) {starts=[0], sizes=[min(s, 16)], steps=[1]} return y }");
  EXPECT_EQ(ir::show_type(graph.type(graph.outputs[0].value)), "fp32[s]");
}

TEST(IrText, what_is_wrong_is_told_with_its_line) {
  EXPECT_THAT(parse_error("graph(x: fp32[2]) {\n  y = relu(q)\n  return y }"), HasSubstr("line 2: 'q' is used before"));
  EXPECT_THAT(parse_error("graph(x: fp33[2]) { return x }"), HasSubstr("'fp33' is no dtype"));
  EXPECT_THAT(parse_error("graph(x) { return x }"), HasSubstr("a name and a type"));
  EXPECT_THAT(parse_error("graph(x: fp32[2]) { x = relu(x) return x }"), HasSubstr("made twice"));
  EXPECT_THAT(parse_error("graph() { c: fp32[2] = constant {hash=\"ab\"} return c }"), HasSubstr("cannot be read"));
  for (size_t size = 0; size < kText.size() - 2; ++size) EXPECT_NE(parse_error(kText.substr(0, size)), "") << size;
}

TEST(IrGraph, order_depends_on_structure_and_drops_what_nobody_needs) {
  constexpr std::string_view kOne = R"(graph(x: fp32[2]) {
    a = relu(x)
    b = neg(x)
    dead = exp(x)
    c = add(b, a)
    return c
  })";
  constexpr std::string_view kOther = R"(graph(x: fp32[2]) {
    b = neg(x)
    a = relu(x)
    c = add(b, a)
    return c
  })";
  ir::Graph one = graph_of(kOne), other = graph_of(kOther);
  for (ir::Graph* graph : {&one, &other}) {
    ASSERT_TRUE(graph->order().ok());
    graph->compact();
    EXPECT_TRUE(op::check_graph(*graph).ok());
  }
  EXPECT_EQ(ir::show_graph(one), ir::show_graph(other));
  EXPECT_EQ(one.nodes.size(), 3u);
  EXPECT_EQ(one.values.size(), 4u);
}

TEST(IrGraph, a_circle_is_refused) {
  ir::Graph graph = graph_of("graph(x: fp32[2]) { a = add(x, x) b = relu(a) return b }");
  graph.nodes[0].inputs[1] = graph.nodes[1].outputs[0];
  const Status status = graph.order();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().text, HasSubstr("reads what is computed from its own output"));
}

TEST(IrGraph, a_node_before_what_it_reads_or_of_a_wrong_type_fails_the_check) {
  ir::Graph graph = graph_of("graph(x: fp32[2]) { a = relu(x) b = neg(a) return b }");
  EXPECT_TRUE(op::check_graph(graph).ok());
  ir::Graph swapped = graph;
  std::swap(swapped.nodes[0], swapped.nodes[1]);
  EXPECT_THAT(op::check_graph(swapped).error().text, HasSubstr("before it is made"));
  graph.values[graph.outputs[0].value].type.dtype = Dtype::kInt8;
  EXPECT_THAT(op::check_graph(graph).error().text, HasSubstr("and the graph says"));
}

}  // namespace
}  // namespace quern::model
