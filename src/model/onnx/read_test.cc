// SPDX-License-Identifier: Apache-2.0
#include "model/onnx/read.h"

#include <gmock/gmock.h>

#include "model/onnx/write_test.h"

namespace quern::model::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace test;

Result<Model> read(const std::string& file, const Limits& limits = {}) { return read_model(as_bytes_of(file), limits); }
std::string error_of(const std::string& file, const Limits& limits = {}) {
  auto model = read(file, limits);
  return model.ok() ? "" : model.error().text;
}

std::string small_model() {
  return model_file(
      {.nodes = {node("Conv", {"x", "w"}, {"y"}, {wholes("pads", {1, 1, 1, 1}), real("alpha", 0.5f)}, "c0"),
                 node("Relu", {"y"}, {"z"})},
       .inputs = {value("x", 1, {"batch", "3", "8", "8"})},
       .outputs = {value("z", 1, {"batch", "4", "8", "8"})},
       .initialisers = {floats("w", {1, 2}, {1, 2})}});
}

TEST(OnnxRead, a_model_is_read_with_nodes_attributes_values_and_weights) {
  const std::string file = small_model();
  auto model = read(file);
  ASSERT_TRUE(model.ok()) << model.error().text;
  EXPECT_EQ(model->ir_version, 8);
  ASSERT_EQ(model->opsets.size(), 1u);
  EXPECT_EQ(model->opsets[0].version, 17);
  const Graph& graph = model->graph;
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].name, "c0");
  EXPECT_EQ(graph.nodes[0].op, "Conv");
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre("x", "w"));
  EXPECT_THAT(graph.nodes[0].attributes[0].wholes, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(graph.nodes[0].attributes[1].real, 0.5f);
  ASSERT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(graph.inputs[0].kind, ValueInfo::Kind::kTensor);
  EXPECT_EQ(graph.inputs[0].shape[0].name, "batch");
  EXPECT_EQ(graph.inputs[0].shape[1].value, 3);
  ASSERT_EQ(graph.initialisers.size(), 1u);
  EXPECT_THAT(graph.initialisers[0].dims, ElementsAre(1, 2));
}

TEST(OnnxRead, names_and_weights_are_views_into_the_file) {
  const std::string file = small_model();
  auto model = read(file);
  ASSERT_TRUE(model.ok());
  const char* begin = file.data();
  const char* name = model->graph.nodes[0].name.data();
  EXPECT_TRUE(name >= begin && name < begin + file.size());
  const auto* weights = reinterpret_cast<const char*>(model->graph.initialisers[0].message.data());
  EXPECT_TRUE(weights >= begin && weights < begin + file.size());
}

TEST(OnnxRead, repeated_numbers_may_be_packed_or_not) {
  Proto unpacked = Proto().bytes(1, "pads").number(8, 1).number(8, -2).number(20, 7);
  const std::string file = model_file({.nodes = {node("Pad", {"x"}, {"y"}, {unpacked})}});
  auto model = read(file);
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model->graph.nodes[0].attributes[0].wholes, ElementsAre(1, -2));
}

TEST(OnnxRead, the_domain_ai_onnx_is_the_default_domain) {
  Proto named = node("Relu", {"x"}, {"y"}).bytes(7, "ai.onnx");
  const std::string file =
      Proto().message(7, Proto().message(1, named)).message(8, Proto().bytes(1, "ai.onnx").number(2, 13)).text();
  auto model = read(file);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->graph.nodes[0].domain, "");
  EXPECT_EQ(model->opsets[0].domain, "");
}

TEST(OnnxRead, fields_that_are_not_known_are_passed_over) {
  std::string file = small_model();
  file += Proto().number(90, 7).bytes(91, "later").real(92, 1).text();
  EXPECT_TRUE(read(file).ok());
}

TEST(OnnxRead, every_cut_of_a_file_is_refused_or_read_but_never_past_its_end) {
  const std::string file = small_model();
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut(file.data(), size);  // a copy: a sanitizer sees what is read past its end
    (void)read(cut);
  }
  EXPECT_THAT(error_of(file.substr(0, file.size() / 2)), HasSubstr("past the end; the file is damaged, cut off"));
}

TEST(OnnxRead, a_file_without_a_graph_is_refused) {
  EXPECT_THAT(error_of(""), HasSubstr("holds no graph"));
  EXPECT_THAT(error_of(std::string("no model at all")), HasSubstr("onnx: "));
}

TEST(OnnxRead, a_second_graph_is_refused) {
  EXPECT_THAT(error_of(small_model() + small_model()), HasSubstr("a second graph"));
}

TEST(OnnxRead, a_field_of_another_wire_type_is_refused) {
  EXPECT_THAT(error_of(Proto().bytes(1, "8").text()), HasSubstr("field 1 (ir_version) has wire type 2"));
  EXPECT_THAT(error_of(Proto().number(7, 8).text()), HasSubstr("field 7 (graph) has wire type 0"));
}

TEST(OnnxRead, graphs_nested_deeper_than_the_limit_are_refused) {
  Proto inner = graph({});
  for (int i = 0; i < 40; ++i)
    inner = graph({.nodes = {node("If", {"c"}, {"y"}, {Proto().bytes(1, "then").message(6, inner).number(20, 5)})}});
  EXPECT_THAT(error_of(Proto().message(7, inner).text()), HasSubstr("nested more than 32 deep"));
}

TEST(OnnxRead, more_nodes_than_the_limit_are_refused) {
  GraphParts parts;
  for (int i = 0; i < 5; ++i) parts.nodes.push_back(node("Relu", {"x"}, {"y"}));
  EXPECT_EQ(error_of(model_file(parts), {.nodes = 5}), "");
  EXPECT_THAT(error_of(model_file(parts), {.nodes = 4}), HasSubstr("more than 4 nodes"));
}

TEST(OnnxRead, structs_beyond_the_memory_limit_are_refused) {
  // Two bytes of the file make an empty attribute, a struct a hundred times as large.
  Proto many = Proto().bytes(4, "Relu");
  for (int i = 0; i < 1000; ++i) many.message(5, Proto());
  EXPECT_THAT(error_of(model_file({.nodes = {many}}), {.memory_bytes = 100'000}), HasSubstr("more than 100000 bytes"));
}

TEST(OnnxRead, a_name_or_rank_beyond_its_limit_is_refused) {
  EXPECT_THAT(error_of(model_file({.nodes = {node(std::string(5000, 'a'), {}, {})}})),
              HasSubstr("has 5000 bytes; at most"));
  EXPECT_THAT(error_of(model_file({.initialisers = {floats("w", {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1})}})),
              HasSubstr("tensor 'w' has 9 dimensions; at most 8"));
  EXPECT_THAT(error_of(model_file({.initialisers = {floats("w", {-1}, {1})}})), HasSubstr("has a size of -1"));
}

TEST(OnnxRead, groups_and_numbers_without_an_end_are_refused) {
  EXPECT_THAT(error_of("\x0b"), HasSubstr("wire type that ONNX does not use"));
  EXPECT_THAT(error_of(std::string("\x08") + std::string(11, '\xff')), HasSubstr("more than 10 bytes"));
  EXPECT_THAT(error_of(std::string(1, '\0')), HasSubstr("field number is out of range"));
}

}  // namespace
}  // namespace quern::model::onnx
