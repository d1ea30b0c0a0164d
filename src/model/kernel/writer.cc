// SPDX-License-Identifier: Apache-2.0
#include "model/kernel/writer.h"

#include <algorithm>

#include "base/hash.h"
#include "model/kernel/code.h"
#include "model/op/table.h"

namespace quern::model::op {

size_t Lowering::inputs() const {
  if (!node_->body) return node_->inputs.size();
  return node_->op == kFused ? 0 : node_->inputs.size() + 1 - node_->body->inputs.size();
}

Dtype Lowering::made_dtype() const {
  return node_->body ? node_->body->type(node_->body->inputs[0]).dtype : result().dtype;
}

kernel::BufferId Lowering::scratch(ir::Type type) {
  out_.buffers.push_back({kernel::Buffer::Role::kScratch, "", std::move(type), {}});
  return static_cast<kernel::BufferId>(out_.buffers.size() - 1);
}

kernel::BufferId Lowering::constant_buffer(ir::Tensor tensor) {
  ir::Type type{tensor.dtype(), ir::dims_of(tensor.sizes())};
  out_.buffers.push_back({kernel::Buffer::Role::kConstant, "", std::move(type), std::move(tensor)});
  return static_cast<kernel::BufferId>(out_.buffers.size() - 1);
}

void Lowering::launch(std::string_view name, const std::string& parameters, const std::string& body,
                      std::vector<kernel::Argument> arguments, ir::Dims global, ir::Dims local) {
  const std::string text = fmt::format("({}) {{\n{}}}\n", parameters, body);
  const auto [known, is_new] =
      kernels_.emplace(fmt::format("{}{}", name, text), static_cast<uint32_t>(out_.kernels.size()));
  if (is_new) {
    // The name tells two kernels of one operator apart, and is the same wherever the text is.
    Fnv1a hash;
    hash.add(text);
    std::string entry = fmt::format("{}_{:08x}", name, static_cast<uint32_t>(hash.value() ^ (hash.value() >> 32)));
    std::string source = fmt::format("__kernel void {}{}", entry, text);
    out_.kernels.push_back({std::move(entry), std::move(source)});
  }
  out_.steps.push_back({kernel::Step::Kind::kLaunch, static_cast<uint32_t>(out_.launches.size())});
  out_.launches.push_back({known->second, std::move(arguments), std::move(global), std::move(local), node_->origins});
}

}  // namespace quern::model::op

namespace quern::model::kernel {

std::string Writer::pointer(Argument::Kind kind, BufferId buffer, Dtype dtype) {
  const std::string name = fmt::format("p{}", arguments_.size());
  const bool is_read_only = kind == Argument::Kind::kIn;
  parameters_ += fmt::format("{}__global {}{}* {}", parameters_.empty() ? "" : ", ", is_read_only ? "const " : "",
                             storage_type(dtype), name);
  arguments_.push_back({kind, buffer, {}});
  return name;
}

std::string Writer::whole(const ir::Dim& value) {
  if (value.is(0) || value.is(1)) return value.is(0) ? "0" : "1";
  for (const auto& [known, name] : wholes_)
    if (known == value) return name;
  const std::string name = fmt::format("n{}", wholes_.size());
  parameters_ += fmt::format("{}long {}", parameters_.empty() ? "" : ", ", name);
  arguments_.push_back({Argument::Kind::kWhole, 0, value});
  wholes_.emplace_back(value, name);
  return name;
}

void Writer::launch(std::string_view name, ir::Dims global) {
  lowering_.launch(name, parameters_, body_, std::move(arguments_), std::move(global));
}

std::vector<ir::Dim> Places::aligned(const ir::Dims& operand, size_t rank) {
  ir::Dims out(rank - operand.size(), 1);
  out.insert(out.end(), operand.begin(), operand.end());
  return out;
}

Places::Places(Writer& writer, const ir::Dims& to, const std::vector<ir::Dims>& operands, std::string_view i)
    : writer_(writer), i_(i), operands_(operands) {
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d].is(1)) continue;
    Group group{to[d], {}, {}};
    for (const ir::Dims& operand : operands) group.is_repeated.push_back(aligned(operand, to.size())[d].is(1));
    if (!groups_.empty() && groups_.back().is_repeated == group.is_repeated)
      groups_.back().size = groups_.back().size * group.size;
    else
      groups_.push_back(std::move(group));
  }
  if (groups_.size() <= 1) {
    for (Group& group : groups_) group.coordinate = i_;
    return;
  }
  std::string rest(i);
  for (size_t g = groups_.size(); g-- > 0;) {
    Group& group = groups_[g];
    group.coordinate = writer.fresh("c");
    if (g == 0) {
      writer.line("const long {} = {};", group.coordinate, rest);
      break;
    }
    const std::string size = writer.whole(group.size), next = writer.fresh("r");
    writer.line("const long {} = {} % {}, {} = {} / {};", group.coordinate, rest, size, next, rest, size);
    rest = next;
  }
}

std::string Places::of(const ir::Dims& operand) const {
  const auto found = std::find(operands_.begin(), operands_.end(), operand);
  QUERN_CHECK(found != operands_.end(), "the operand is one of those that places were made for");
  const auto index = static_cast<size_t>(found - operands_.begin());
  std::string out;
  ir::Dim stride = 1;
  for (size_t g = groups_.size(); g-- > 0;) {
    const Group& group = groups_[g];
    if (group.is_repeated[index]) continue;
    const std::string term =
        stride.is(1) ? group.coordinate : fmt::format("{} * {}", group.coordinate, writer_.whole(stride));
    out = out.empty() ? term : fmt::format("{} + {}", out, term);
    stride = stride * group.size;
  }
  return out.empty() ? "0" : out;
}

std::string emit_body(Writer& writer, op::Lowering& lowering, const ir::Graph& body,
                      const std::vector<std::string>& given, const std::vector<ir::ValueId>& rest, std::string_view i) {
  const ir::Dims to = lowering.result().dims;
  std::vector<ir::Dims> operands;
  for (const ir::ValueId id : rest) operands.push_back(lowering.graph().type(id).dims);
  const Places places(writer, to, operands, i);
  std::map<ir::ValueId, std::string> variables;
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    if (k < given.size()) {
      variables[body.inputs[k]] = given[k];
      continue;
    }
    const size_t r = k - given.size();
    const Dtype dtype = lowering.graph().type(rest[r]).dtype;
    const std::string pointer = writer.in(lowering.buffer_of(rest[r]), dtype), name = writer.fresh("x");
    writer.line("const {} {} = {};", compute_type(dtype), name, load(dtype, pointer, places.of(operands[r])));
    variables[body.inputs[k]] = name;
  }
  const auto operand = [&](ir::ValueId id) {
    const ir::Tensor* constant = body.constant(id);
    if (!constant) return variables[id];
    return is_float(constant->dtype()) ? literal(constant->dtype(), constant->real(0))
                                       : literal_of_whole(constant->dtype(), constant->whole(0));
  };
  for (const ir::Node& node : body.nodes) {
    op::Code code{node.op, node.attributes, {}, body.type(node.outputs[0]).dtype, {}};
    for (const ir::ValueId id : node.inputs) {
      code.from.push_back(body.type(id).dtype);
      code.operands.push_back(operand(id));
    }
    const std::string name = writer.fresh("t");
    writer.line("const {0} {1} = ({0})({2});", compute_type(code.to), name, op::find_operator(node.op)->code(code));
    variables[node.outputs[0]] = name;
  }
  return operand(body.outputs[0].value);
}

void finish(Writer& writer, op::Lowering& lowering, std::string_view i, std::string_view value) {
  const ir::Node& node = lowering.node();
  std::string result(value);
  if (node.body) {
    const std::string made = writer.fresh("t");
    writer.line("const {0} {1} = ({0})({2});", compute_type(lowering.made_dtype()), made, value);
    const std::vector<ir::ValueId> rest(node.inputs.begin() + static_cast<ptrdiff_t>(lowering.inputs()),
                                        node.inputs.end());
    result = emit_body(writer, lowering, *node.body, {made}, rest, i);
  }
  const Dtype dtype = lowering.result().dtype;
  writer.line("{}", store(dtype, writer.out(lowering.out(), dtype), i, result));
}

}  // namespace quern::model::kernel
