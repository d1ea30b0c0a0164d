// SPDX-License-Identifier: Apache-2.0
#include "model/lower.h"

#include <fmt/format.h>

#include "model/kernel/code.h"
#include "model/kernel/writer.h"
#include "model/op/table.h"

namespace quern::model {
namespace {

using kernel::Buffer;
using kernel::BufferId;

constexpr BufferId kNoBuffer = UINT32_MAX;

class GraphLowering {
 public:
  explicit GraphLowering(const ir::Graph& graph)
      : graph_(graph), buffers_(graph.values.size(), kNoBuffer), lowering_(graph, out_, buffers_) {}

  Result<kernel::Lowered> run() {
    out_.dims = graph_.dims;
    out_.requirements = graph_.requirements;
    for (const ir::ValueId id : graph_.inputs)
      buffers_[id] = add(Buffer::Role::kInput, graph_.at(id).name, graph_.type(id));
    std::string refused;
    for (const ir::Node& node : graph_.nodes) {
      const Status status = lower_node(node);
      if (!status.ok()) refused += fmt::format("{}{}", refused.empty() ? "" : "\n", status.error().text);
    }
    if (!refused.empty()) return unsupported(std::move(refused));
    for (const ir::Output& output : graph_.outputs) write_output(output);
    return std::move(out_);
  }

 private:
  BufferId add(Buffer::Role role, std::string name, ir::Type type) {
    out_.buffers.push_back({role, std::move(name), std::move(type), {}});
    return static_cast<BufferId>(out_.buffers.size() - 1);
  }
  void need_constant(ir::ValueId id) {
    if (id == ir::kNone || buffers_[id] != kNoBuffer || !graph_.constant(id)) return;
    buffers_[id] = add(Buffer::Role::kConstant, graph_.at(id).name, graph_.type(id));
    out_.buffers.back().constant = *graph_.constant(id);
  }

  Status lower_node(const ir::Node& node) {
    for (const ir::ValueId id : node.inputs) need_constant(id);
    if (node.op == "reshape" && !node.body) {
      buffers_[node.outputs[0]] = buffers_[node.inputs[0]];
      return {};
    }
    for (const ir::ValueId id : node.outputs)
      buffers_[id] = add(Buffer::Role::kScratch, graph_.at(id).name, graph_.type(id));
    const op::Operator* op = op::find_operator(node.op);
    const auto named = [&](std::string_view text) {
      return fmt::format("node '{}' ({}): {}", node.origins.empty() ? "" : node.origins[0], node.op, text);
    };
    if (!op || !op->lower) return unsupported(named("no kernel computes it; see docs/onnx.md"));
    lowering_.begin(node);
    if (Status status = op->lower(lowering_); !status.ok())
      return Error{status.error().code, named(status.error().text)};
    return {};
  }

  // The buffer of the value becomes the output, unless it is something else already: an input, a constant, another
  // output, or the buffer of another shape of the same elements.
  void write_output(const ir::Output& output) {
    need_constant(output.value);
    const BufferId made = buffers_[output.value];
    Buffer& buffer = out_.buffers[made];
    if (buffer.role == Buffer::Role::kScratch && buffer.type == graph_.type(output.value)) {
      buffer.role = Buffer::Role::kOutput;
      buffer.name = output.name;
      return;
    }
    const BufferId own = add(Buffer::Role::kOutput, output.name, graph_.type(output.value));
    out_.steps.push_back({kernel::Step::Kind::kCopy, static_cast<uint32_t>(out_.copies.size())});
    out_.copies.push_back({made, own});
  }

  const ir::Graph& graph_;
  kernel::Lowered out_;
  std::vector<BufferId> buffers_;  // of every value
  op::Lowering lowering_;
};

}  // namespace

Result<kernel::Lowered> lower(const ir::Graph& graph) { return GraphLowering(graph).run(); }

std::string source_of(const kernel::Lowered& lowered) {
  std::string out(kernel::prelude());
  for (const kernel::Kernel& kernel : lowered.kernels) out += kernel.source;
  return out;
}

}  // namespace quern::model
