// SPDX-License-Identifier: Apache-2.0
//
// From the bytes of a file to launches: reader, import, passes and lowering, whatever the bytes are.
#include "base/fuzz_main.h"
#include "model/import.h"
#include "model/lower.h"
#include "model/onnx/read.h"
#include "model/onnx/write_test.h"
#include "model/op/check.h"
#include "model/pass/passes.h"

using namespace quern;
namespace onnx = quern::model::onnx;

void fuzz_one(std::span<const std::byte> input) {
  auto file = onnx::read_model(input, {.nodes = 64, .graph_depth = 4, .memory_bytes = 1 << 18});
  if (!file.ok()) return;
  auto imported = model::import_model(*file, {});
  if (!imported.ok() || !imported->refusals.empty()) return;
  QUERN_CHECK(model::op::check_graph(imported->graph).ok(), "an imported graph is in order");
  const Status status = model::pass::run_passes(imported->graph);
  // A constant may be an index out of range: that is the file's fault. A graph that a pass broke is ours.
  QUERN_CHECK(status.ok() || status.error().code != ErrorCode::kInternal, status.error().text);
  if (status.ok()) (void)model::lower(imported->graph);
}

FuzzPlan fuzz_plan() {
  using namespace onnx::test;
  constexpr int kFloat = 1, kInt64 = 7;
  FuzzPlan plan;
  plan.rounds = 20'000;
  plan.seeds = {
      model_file(
          {.nodes = {node("Conv", {"x", "w"}, {"c"}, {wholes("pads", {1, 1, 1, 1})}), node("Mul", {"c", "s"}, {"m"}),
                     node("Relu", {"m"}, {"r"}), node("MaxPool", {"r"}, {"p"}, {wholes("kernel_shape", {2, 2})}),
                     node("Shape", {"p"}, {"d"}), node("Gather", {"d", "i"}, {"n"}),
                     node("Unsqueeze", {"n", "a"}, {"u"}), node("Concat", {"u", "e"}, {"to"}, {whole("axis", 0)}),
                     node("Reshape", {"p", "to"}, {"y"})},
           .inputs = {value("x", kFloat, {"batch", "2", "6", "6"})},
           .outputs = {value("y", kFloat, {"batch", "f"})},
           .initialisers = {floats("w", {1, 2, 1, 1}, {1, 2}), floats("s", {1, 1, 1}, {2}), int64s("i", {}, {0}),
                            int64s("a", {1}, {0}), int64s("e", {1}, {-1})}}),
      model_file(
          {.nodes = {node("MatMul", {"x", "w"}, {"a"}), node("Add", {"a", "b"}, {"c"}), node("Softmax", {"c"}, {"s"}),
                     node("TopK", {"s", "k"}, {"v", "j"}), node("ReduceMean", {"v"}, {"y"}, {wholes("axes", {1})}),
                     node("Slice", {"j", "z", "o"}, {"t"}), node("Cast", {"t"}, {"q"}, {whole("to", 1)}),
                     node("Pad", {"q", "g"}, {"h"})},
           .inputs = {value("x", kFloat, {"n", "2"})},
           .outputs = {value("y", kFloat, {"n", "1"}), value("h", kFloat, {"a", "b"})},
           .initialisers = {floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}), floats("b", {3}, {1, 2, 3}), int64s("k", {1}, {2}),
                            int64s("z", {1}, {0}), int64s("o", {1}, {1}), int64s("g", {4}, {0, 1, 1, 0})}}),
      model_file({.nodes = {node("Resize", {"x", "", "s"}, {"r"}, {text("mode", "linear")}),
                            node("Transpose", {"r"}, {"t"}, {wholes("perm", {1, 0})}), node("Tile", {"t", "k"}, {"u"}),
                            node("Range", {"a", "l", "d"}, {"q"}), node("Trilu", {"u"}, {"y"}),
                            node("CumSum", {"q", "a"}, {"z"})},
                  .inputs = {value("x", kFloat, {"2", "3"}), value("l", kInt64, {})},
                  .outputs = {value("y", kFloat, {"a", "b"}), value("z", kInt64, {"c"})},
                  .initialisers = {floats("s", {2}, {2, 2}), int64s("k", {2}, {1, 2}), int64s("a", {}, {0}),
                                   int64s("d", {}, {1})}}),
  };
  for (const char* op : {"Add", "Conv", "Expand", "Gather", "GatherND", "Split", "Resize", "If", "Loop",
                         "ConstantOfShape", "Pad", "axis", "perm"})
    plan.words.emplace_back(op);
  plan.words.insert(plan.words.end(), {std::string(8, '\xff'), std::string("\0\0\0\0\0\0\0\x80", 8),
                                       std::string("\xff\xff\xff\x7f\0\0\0\0", 8), "\x01"});
  return plan;
}
