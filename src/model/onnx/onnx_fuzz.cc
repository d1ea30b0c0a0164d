// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "model/onnx/read.h"
#include "model/onnx/tensor.h"
#include "model/onnx/write_test.h"

using namespace quern;
using namespace quern::model;

namespace {

void decode_all(const std::vector<onnx::Tensor>& tensors) {
  for (const onnx::Tensor& tensor : tensors) {
    auto decoded = onnx::decode(tensor, [](const std::string&) -> Result<onnx::Span> { return onnx::Span(); });
    if (decoded.ok()) QUERN_CHECK(decoded->sizes() == tensor.dims, "the sizes are those of the file");
  }
}
void visit(const onnx::Graph& graph) {
  decode_all(graph.initialisers);
  for (const onnx::Node& node : graph.nodes)
    for (const onnx::Attribute& attribute : node.attributes) {
      decode_all(attribute.tensors);
      for (const onnx::Graph& inner : attribute.graphs) visit(inner);
    }
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  // Limits as small as the inputs, so that they are reached.
  auto model = onnx::read_model(input, {.nodes = 64, .name_bytes = 64, .graph_depth = 4, .memory_bytes = 1 << 16});
  if (model.ok()) visit(model->graph);
}

FuzzPlan fuzz_plan() {
  using namespace onnx::test;
  const Proto inner = graph({.nodes = {node("Add", {"a", "b"}, {"c"})}, .outputs = {value("c", 1, {"2"})}});
  const Proto external = tensor("e", 1, {2}).message(13, Proto().bytes(1, "location").bytes(2, "w.bin")).number(14, 1);
  FuzzPlan plan;
  plan.rounds = 100'000;
  plan.seeds = {
      model_file({.nodes = {node("Conv", {"x", "w"}, {"y"}, {wholes("pads", {1, 1, 1, 1}), real("alpha", 0.5f)}, "c0")},
                  .inputs = {value("x", 1, {"batch", "3"})},
                  .outputs = {value("y", 1, {"?", "-1"})},
                  .initialisers = {floats("w", {1, 2}, {1, 2}), int64s("s", {2}, {3, 4}), external}}),
      model_file(
          {.nodes = {node("If", {"c"}, {"y"}, {Proto().bytes(1, "then").message(6, inner).number(20, 5)}),
                     node("Constant", {}, {"k"},
                          {Proto().bytes(1, "value").message(5, floats("v", {1}, {1})).number(20, 4)})},
           .initialisers = {tensor("t", 10, {2}).packed(5, {0x3e00, 0xc000}), tensor("u", 9, {1}).number(5, 1)}}),
      Proto()
          .message(25, Proto().bytes(1, "f").bytes(4, "x").bytes(5, "y").message(7, node("Relu", {"x"}, {"y"})))
          .text(),
  };
  plan.words = {"\x0a",
                "\x12",
                "\x2a",
                "\x3a",
                "\xff\xff\xff\xff\x0f",
                std::string(9, '\xff') + "\x01",
                "\x08\x01",
                "location",
                std::string("\0", 1)};
  return plan;
}
