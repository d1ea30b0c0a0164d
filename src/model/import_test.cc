// SPDX-License-Identifier: Apache-2.0
#include "model/import.h"

#include <gmock/gmock.h>

#include "model/interpret.h"
#include "model/ir/text.h"
#include "model/onnx/read.h"
#include "model/onnx/write_test.h"

namespace quern::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace onnx::test;

struct Read {
  std::string file;
  Imported imported;
  std::string error;

  const ir::Graph& graph() const { return imported.graph; }
  std::string type_of(size_t output) const {
    return error.empty() ? ir::show_type(graph().type(graph().outputs[output].value)) : error;
  }
};
Read imported(const GraphParts& parts, const Binding& binding = {}, int64_t opset = 17) {
  Read out;
  out.file = model_file(parts, opset);
  auto model = onnx::read_model(as_bytes_of(out.file));
  EXPECT_TRUE(model.ok()) << model.error().text;
  auto result = import_model(*model, {}, binding);
  if (!result.ok())
    out.error = result.error().text;
  else if (!result->refusals.empty())
    out.error = error_of(result->refusals).text;
  if (result.ok()) out.imported = *std::move(result);
  return out;
}
constexpr int kFloat = 1, kInt64 = 7;

TEST(Import, a_model_becomes_a_typed_graph_in_the_order_of_its_structure) {
  const Read read = imported({.nodes = {node("Relu", {"s"}, {"y"}, {}, "r"), node("Add", {"x", "w"}, {"s"}, {}, "a")},
                              .inputs = {value("x", kFloat, {"batch", "2"})},
                              .outputs = {value("y", kFloat, {"batch", "2"})},
                              .initialisers = {floats("w", {2}, {1, 2}), floats("unused", {1}, {1})}});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(ir::show_graph(read.graph()), R"(dim batch in 1..2147483647
graph(x: fp32[batch, 2]) {
  w: fp32[2] = constant {values=[1.0, 2.0]}
  s: fp32[batch, 2] = add(x, w) @a
  y: fp32[batch, 2] = relu(s) @r
  return y
}
)");
}

TEST(Import, everything_unsupported_is_named_at_once_with_its_nodes) {
  const Read read = imported(
      {.nodes = {node("Foo", {"x"}, {"a"}, {}, "first"), node("Relu", {"a"}, {"b"}, {}, "after"),
                 node("Rellu", {"x"}, {"c"}, {}, "second"), node("Softmax", {"x"}, {"d"}, {whole("axis", 9)}, "third"),
                 node("Relu", {"x"}, {"e"}, {whole("speed", 9)}, "fourth"), node("Sum", {"b", "c", "d", "e"}, {"y"})},
       .inputs = {value("x", kFloat, {"2"})},
       .outputs = {value("y", kFloat, {"2"})}});
  EXPECT_THAT(read.error, HasSubstr("4 nodes are not supported"));
  EXPECT_THAT(read.error, HasSubstr("node 'first' (Foo): the operator is not supported"));
  EXPECT_THAT(read.error, HasSubstr("node 'second' (Rellu): the operator is not supported; did you mean 'Relu'?"));
  EXPECT_THAT(read.error, HasSubstr("node 'third' (Softmax): axis 9 of a tensor with 1 dimensions"));
  EXPECT_THAT(read.error, HasSubstr("node 'fourth' (Relu): attributes 'speed' are not known"));
}

TEST(Import, what_no_output_needs_is_not_looked_at) {
  const Read read = imported({.nodes = {node("Foo", {"x"}, {"a"}), node("Relu", {"x"}, {"y"})},
                              .inputs = {value("x", kFloat, {"2"})},
                              .outputs = {value("y", kFloat, {"2"})}});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.graph().nodes.size(), 1u);
}

TEST(Import, outputs_that_are_not_asked_for_are_not_computed) {
  const GraphParts parts{.nodes = {node("Foo", {"x"}, {"a"}), node("Relu", {"x"}, {"y"})},
                         .inputs = {value("x", kFloat, {"2"})},
                         .outputs = {value("a", kFloat, {"2"}), value("y", kFloat, {"2"})}};
  EXPECT_EQ(imported(parts, {.outputs = {"y"}}).error, "");
  EXPECT_THAT(imported(parts, {.outputs = {"z"}}).error, HasSubstr("no output 'z'"));
}

TEST(Import, dims_without_a_name_get_one_of_input_and_axis) {
  const Read read =
      imported({.nodes = {node("Identity", {"x.1"}, {"y"}), node("Relu", {"z"}, {"w"})},
                .inputs = {value("x.1", kFloat, {"?", "?", "my dim", "-1"}), value("z", kFloat, {"?", "my dim"})},
                .outputs = {value("y", kFloat, {}), value("w", kFloat, {})}});
  EXPECT_EQ(read.type_of(0), "fp32[x_1_0, x_1_1, my_dim, x_1_3]");
  EXPECT_EQ(read.type_of(1), "fp32[z_0, my_dim]");
}

// Reshape to [batch, -1] by way of Shape, Gather, Unsqueeze and Concat, as exporters write it.
GraphParts exported_flatten() {
  return {.nodes = {node("Shape", {"x"}, {"shape"}), node("Gather", {"shape", "zero"}, {"n"}, {whole("axis", 0)}),
                    node("Unsqueeze", {"n", "axes"}, {"n1"}),
                    node("Concat", {"n1", "rest"}, {"to"}, {whole("axis", 0)}), node("Reshape", {"x", "to"}, {"y"})},
          .inputs = {value("x", kFloat, {"batch", "3", "h", "w"})},
          .outputs = {value("y", kFloat, {"batch", "f"})},
          .initialisers = {int64s("zero", {}, {0}), int64s("axes", {1}, {0}), int64s("rest", {1}, {-1})}};
}

TEST(Import, shape_arithmetic_becomes_expressions_of_free_dims) {
  const Read read = imported(exported_flatten());
  EXPECT_EQ(read.type_of(0), "fp32[batch, 3 * h * w]");
  EXPECT_EQ(read.graph().nodes.size(), 1u) << ir::show_graph(read.graph());
}

TEST(Import, dims_that_are_bound_are_numbers) {
  const Read read = imported(exported_flatten(), {.dims = {{"h", 4}, {"w", 5}}});
  EXPECT_EQ(read.type_of(0), "fp32[batch, 60]");
  EXPECT_EQ(read.graph().dims.size(), 1u);
}

TEST(Import, a_shape_that_is_an_input_asks_for_its_elements) {
  const GraphParts parts{.nodes = {node("Reshape", {"x", "s"}, {"y"})},
                         .inputs = {value("x", kFloat, {"6"}), value("s", kInt64, {"2"})},
                         .outputs = {value("y", kFloat, {"a", "b"})}};
  const Read read = imported(parts);
  ASSERT_EQ(read.imported.refusals.size(), 1u);
  EXPECT_THAT(read.imported.refusals[0].text, HasSubstr("the shape is known only when it is called"));
  EXPECT_THAT(read.imported.refusals[0].inputs, ElementsAre("s"));
  const std::vector<int64_t> shape = {2, -1};
  const Read bound = imported(parts, {.inputs = {{"s", ir::Tensor::list(shape)}}});
  EXPECT_EQ(bound.type_of(0), "fp32[2, 3]");
  EXPECT_EQ(bound.graph().inputs.size(), 2u);
}

TEST(Import, sizes_that_only_a_call_can_compare_are_required_to_be_equal) {
  const Read read = imported({.nodes = {node("Add", {"x", "y"}, {"z"}, {}, "sum")},
                              .inputs = {value("x", kFloat, {"a"}), value("y", kFloat, {"b"})},
                              .outputs = {value("z", kFloat, {"c"})}});
  ASSERT_EQ(read.graph().requirements.size(), 1u);
  auto bound = bind_dims(read.graph(),
                         {{"x", ir::Tensor::zeros(Dtype::kFp32, {2})}, {"y", ir::Tensor::zeros(Dtype::kFp32, {3})}});
  ASSERT_FALSE(bound.ok());
  EXPECT_THAT(bound.error().text, HasSubstr("node 'sum': a is 2 and b is 3"));
}

TEST(Import, models_that_contradict_themselves_are_refused) {
  const Proto x = value("x", kFloat, {"2"}), y = value("y", kFloat, {"2"});
  EXPECT_THAT(imported({.nodes = {node("Relu", {"y"}, {"y"})}, .inputs = {x}, .outputs = {y}}).error,
              HasSubstr("reads what is computed from its own output"));
  EXPECT_THAT(imported({.nodes = {node("Relu", {"a"}, {"b"}, {}, "one"), node("Relu", {"b"}, {"a"}, {}, "two")},
                        .inputs = {x},
                        .outputs = {value("a", kFloat, {"2"})}})
                  .error,
              HasSubstr("write a graph without circles"));
  EXPECT_THAT(
      imported({.nodes = {node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})}, .inputs = {x}, .outputs = {y}}).error,
      HasSubstr("'y' is made twice"));
  EXPECT_THAT(imported({.nodes = {node("Relu", {"gone"}, {"y"})}, .inputs = {x}, .outputs = {y}}).error,
              HasSubstr("'gone' is neither an input, nor a weight"));
  EXPECT_THAT(
      imported({.nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {x}, .outputs = {value("y", kInt64, {"2"})}}).error,
      HasSubstr("output 'y' is fp32, and the model states int64"));
  EXPECT_THAT(imported({.nodes = {}, .inputs = {x}, .outputs = {}}).error, HasSubstr("no outputs"));
  EXPECT_THAT(imported({.nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {value("x", 8, {"2"})}, .outputs = {y}}).error,
              HasSubstr("elements of STRING"));
  EXPECT_THAT(
      imported({.nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {value("x", kFloat, {"3000000000"})}, .outputs = {y}})
          .error,
      HasSubstr("the largest is 2147483647"));
}

TEST(Import, versions_outside_the_known_ones_are_refused) {
  const GraphParts parts{.nodes = {node("Relu", {"x"}, {"y"})},
                         .inputs = {value("x", kFloat, {"2"})},
                         .outputs = {value("y", kFloat, {"2"})}};
  EXPECT_EQ(imported(parts, {}, kOldestOpset).error, "");
  EXPECT_EQ(imported(parts, {}, kNewestOpset).error, "");
  EXPECT_THAT(imported(parts, {}, kOldestOpset - 1).error, HasSubstr("version 6 of the operators"));
  EXPECT_THAT(imported(parts, {}, kNewestOpset + 1).error, HasSubstr("version 27 of the operators"));
}

TEST(Import, a_deep_graph_takes_no_stack) {
  GraphParts parts{.inputs = {value("v0", kFloat, {"2"})}, .outputs = {value("v50000", kFloat, {"2"})}};
  for (int i = 0; i < 50'000; ++i)
    parts.nodes.push_back(node("Relu", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)}));
  EXPECT_EQ(imported(parts).graph().nodes.size(), 50'000u);
}

}  // namespace
}  // namespace quern::model
