// SPDX-License-Identifier: Apache-2.0
//
// The contract of an operator. One file per family of operators holds all of it: which versions of ONNX operators it
// takes and how they become operators of ours (`OnnxRule`), the attributes, the inference of shapes, the reference, and
// how a device computes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::op {

/// An attribute that every node of an operator has. The kind of `fallback` is the kind of the attribute; its value
/// stands in where a node does not state one, unless the attribute is required.
struct AttributeRule {
  std::string_view name;
  ir::Attribute fallback;
  bool is_required = false;
};

/// A node whose outputs have no types yet, as inference sees it. Inputs that are left out are null.
struct Site {
  std::string_view op;
  std::vector<const ir::Value*> inputs;
  const ir::Attributes& attributes;
  size_t outputs = 1;
  std::vector<ir::Requirement>& requirements;

  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  const ir::Type& type(size_t i) const { return inputs[i]->type; }
  const ir::Dims& dims(size_t i) const { return inputs[i]->type.dims; }
  std::optional<ir::Dims> contents(size_t i) const { return ir::contents_of(*inputs[i]); }
  /// Whether two sizes are the same. What only the sizes of a call can tell becomes a requirement of the graph.
  bool same(const ir::Dim& a, const ir::Dim& b);
};

/// A node with all its sizes as numbers, as the reference sees it. Outputs are zeros of the inferred types.
struct Run {
  std::string_view op;
  std::vector<const ir::Tensor*> inputs;
  std::vector<ir::Tensor>& outputs;
  const ir::Attributes& attributes;

  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  const ir::Tensor& in(size_t i) const { return *inputs[i]; }
  ir::Tensor& out(size_t i = 0) const { return outputs[i]; }
};

/// A node that works element by element, on its way to OpenCL C: the operands are expressions without side effects, of
/// the compute types (kernel/code.h) of their dtypes.
struct Code {
  std::string_view op;
  const ir::Attributes& attributes;
  std::vector<Dtype> from;  ///< of the operands
  Dtype to = Dtype::kFp32;
  std::vector<std::string> operands;
};

/// A graph on its way to launches: kernel/writer.h.
class Lowering;

struct Operator {
  std::string_view name = "";
  std::vector<AttributeRule> attributes = {};
  size_t least_inputs = 1, most_inputs = 1, most_outputs = 1;
  /// Every element of the output depends on one element of each input, those at its place, where inputs broadcast.
  bool is_elementwise = false;
  /// The types of the outputs. An error says what is wrong with the inputs and what to do, without naming the node.
  Result<std::vector<ir::Type>> (*infer)(Site& site) = nullptr;
  /// The elements of the first output as expressions, if those of the inputs are known. Optional: shape arithmetic
  /// only.
  std::optional<ir::Dims> (*contents)(const Site& site) = nullptr;
  /// Computes the outputs in plain C++, as the definition of the operator reads. An error is one of the data: an index
  /// out of range.
  Status (*reference)(Run& run) = nullptr;
  /// The expression that computes one element; of operators that work element by element.
  std::string (*code)(const Code& code) = nullptr;
  /// Adds the launches that compute the node on any device; null for operators that have `code`. Sizes are arguments of
  /// kernels. kUnsupported says what no kernel takes.
  Status (*lower)(Lowering& lowering) = nullptr;
};

class NodeImport;

/// How an ONNX operator becomes operators of ours, from one version of its domain on until the next rule of the same
/// name. Versions that only widen the types share a rule.
struct OnnxRule {
  std::string_view op = "";
  int since = 1;
  Status (*import)(NodeImport& node) = nullptr;
  std::string_view becomes = "";  ///< without `import`: the operator of ours with the same inputs and no attributes
  std::string_view domain = "";
};

/// What a file of this folder gives to the table.
struct Family {
  std::string_view name;  ///< for docs/onnx.md
  std::vector<Operator> operators;
  std::vector<OnnxRule> rules;
};

constexpr size_t kAnyNumber = SIZE_MAX;
/// The operator that is nothing but its body.
constexpr std::string_view kFused = "fused";

}  // namespace quern::model::op
