// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/kernel/lowered.h"

namespace quern::model::op {

/// A graph on its way to launches, as the lowering of one operator sees it.
class Lowering {
 public:
  Lowering(const ir::Graph& graph, kernel::Lowered& out, std::vector<kernel::BufferId>& buffers)
      : graph_(graph), out_(out), buffers_(buffers) {}

  /// The node that is lowered next.
  void begin(const ir::Node& node) { node_ = &node; }

  const ir::Node& node() const { return *node_; }
  const ir::Attributes& attributes() const { return node_->attributes; }
  /// Inputs of the operator itself, without those of a body.
  size_t inputs() const;
  bool has(size_t i) const { return i < inputs() && node_->inputs[i] != ir::kNone; }
  const ir::Type& type(size_t i) const { return graph_.type(node_->inputs[i]); }
  const ir::Tensor* constant(size_t i) const { return has(i) ? graph_.constant(node_->inputs[i]) : nullptr; }
  /// What the operator makes, before a body.
  Dtype made_dtype() const;
  const ir::Type& result(size_t i = 0) const { return graph_.type(node_->outputs[i]); }
  kernel::BufferId in(size_t i) const { return buffer_of(node_->inputs[i]); }
  kernel::BufferId out(size_t i = 0) const { return buffer_of(node_->outputs[i]); }
  kernel::BufferId buffer_of(ir::ValueId id) const { return buffers_[id]; }
  const ir::Graph& graph() const { return graph_; }

  kernel::BufferId scratch(ir::Type type);
  kernel::BufferId constant_buffer(ir::Tensor tensor);

  /// Adds a launch of a kernel of this text; kernels of the same text are one.
  void launch(std::string_view name, const std::string& parameters, const std::string& body,
              std::vector<kernel::Argument> arguments, ir::Dims global, ir::Dims local = {});

 private:
  const ir::Graph& graph_;
  kernel::Lowered& out_;
  std::vector<kernel::BufferId>& buffers_;  // of every value
  const ir::Node* node_ = nullptr;
  std::map<std::string, uint32_t> kernels_;  // by text
};

}  // namespace quern::model::op

namespace quern::model::kernel {

/// One kernel while its text grows: parameters appear as they are asked for.
class Writer {
 public:
  explicit Writer(op::Lowering& lowering) : lowering_(lowering) {}

  /// The name of a parameter that points to a buffer: "p0".
  std::string in(BufferId buffer, Dtype dtype) { return pointer(Argument::Kind::kIn, buffer, dtype); }
  std::string out(BufferId buffer, Dtype dtype) { return pointer(Argument::Kind::kOut, buffer, dtype); }
  std::string partial(BufferId buffer, Dtype dtype) { return pointer(Argument::Kind::kPartial, buffer, dtype); }
  std::string inout(BufferId buffer, Dtype dtype) { return pointer(Argument::Kind::kInout, buffer, dtype); }
  /// A whole number: a parameter, "n0", the same one for the same expression. 0 and 1 are literals.
  std::string whole(const ir::Dim& value);

  /// Appends a line of the body.
  template <class... T>
  Writer& line(fmt::format_string<T...> format, T&&... arguments) {
    body_ += "  " + fmt::format(format, std::forward<T>(arguments)...) + "\n";
    return *this;
  }
  Writer& text(std::string_view text) {
    body_ += text;
    return *this;
  }
  std::string fresh(std::string_view prefix) { return fmt::format("{}{}", prefix, next_++); }

  /// Adds the launch. `name` is what the kernel's name begins with.
  void launch(std::string_view name, ir::Dims global);

 private:
  std::string pointer(Argument::Kind kind, BufferId buffer, Dtype dtype);

  op::Lowering& lowering_;
  std::vector<Argument> arguments_;
  std::vector<std::pair<ir::Dim, std::string>> wholes_;
  std::string parameters_, body_;
  int next_ = 0;
};

/// Takes the place of an element in a tensor apart, so that operands which repeat along it can be read: dimensions
/// along which all operands behave alike are one. Statements are emitted once, by the constructor.
class Places {
 public:
  /// `i` is the place in a tensor of sizes `to`, an expression; `operands` are the sizes of what is read there.
  Places(Writer& writer, const ir::Dims& to, const std::vector<ir::Dims>& operands, std::string_view i);
  /// The place in one of the operands, an expression.
  std::string of(const ir::Dims& operand) const;

 private:
  struct Group {
    ir::Dim size;
    std::vector<bool> is_repeated;  // of every operand
    std::string coordinate;
  };
  static std::vector<ir::Dim> aligned(const ir::Dims& operand, size_t rank);

  Writer& writer_;
  std::string i_;
  std::vector<ir::Dims> operands_;
  std::vector<Group> groups_;
};

/// Emits the statements of a body and returns the variable of its result. The first inputs of the body are `given`,
/// variables; the others are read at place `i` of the node's output from the buffers of `rest`.
std::string emit_body(Writer& writer, op::Lowering& lowering, const ir::Graph& body,
                      const std::vector<std::string>& given, const std::vector<ir::ValueId>& rest, std::string_view i);

/// Stores `value`, an expression of what the operator made for place `i` of the output, behind the node's body if it
/// has one.
void finish(Writer& writer, op::Lowering& lowering, std::string_view i, std::string_view value);

}  // namespace quern::model::kernel
