// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ir/attribute.h"
#include "model/ir/tensor.h"
#include "model/ir/type.h"

namespace quern::model::ir {

/// The index of a value in its graph.
using ValueId = uint32_t;
/// An optional input that is left out.
constexpr ValueId kNone = UINT32_MAX;

/// A tensor of the graph: an input, a constant, or what a node computes.
struct Value {
  std::string name = {};  ///< for people; need not be unique
  Type type = {};
  std::optional<Tensor> constant = {};  ///< the elements, if they are known: sizes as in `type`
  /// The elements as expressions over free dims, of a small tensor that is computed from sizes. Not set for constants.
  std::optional<Dims> contents = {};
};

/// One application of an operator of op/table.h. A node makes all outputs that it has; it may have fewer than its
/// operator can make.
struct Node {
  std::string op;
  std::vector<ValueId> inputs, outputs;
  Attributes attributes;
  std::vector<std::string> origins;  ///< names of the ONNX nodes that it computes, for people
};

/// Two expressions that must have the same value, else the graph computes something else. They come from shapes that
/// nothing but the sizes of a call can tell to fit.
struct Requirement {
  Dim a, b;
  std::string reason;  ///< "node 'Add_3': sizes 1 of its inputs"
};

/// A size that a call chooses. Every use of the name in the graph has these bounds.
struct FreeDim {
  std::string name;
  int64_t low = 1, high = kLargestDim;
};

struct Output {
  std::string name;
  ValueId value = kNone;
};

/// A typed graph. Nodes stand in an order in which every node comes after those that it reads; each value has one
/// maker. A graph is a plain value: passes change it in place and leave it ordered (`order()`).
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<Output> outputs;
  std::vector<FreeDim> dims;
  std::vector<Requirement> requirements;

  ValueId add(Value value);
  ValueId add_constant(Tensor tensor, std::string name = "");
  const Value& at(ValueId id) const { return values[id]; }
  const Type& type(ValueId id) const { return values[id].type; }
  const Tensor* constant(ValueId id) const {
    return id != kNone && values[id].constant ? &*values[id].constant : nullptr;
  }

  /// Every use of `from` becomes a use of `to`, also as an output of the graph.
  void replace(ValueId from, ValueId to);
  /// For every value the node that makes it; nothing for inputs and constants. Valid until a node is added or moved.
  std::vector<std::optional<uint32_t>> makers() const;
  /// For every value how often nodes and outputs use it.
  std::vector<uint32_t> uses() const;
  /// Drops nodes that no output needs and puts the others into the order of a walk from the outputs, which depends on
  /// the structure of the graph alone: neither on names nor on the order before. kInvalid if nodes read in a circle.
  Status order();
  /// Drops values that nothing uses, so that ids are dense again.
  void compact();
};

/// What is known of the elements of a value as expressions: its contents, or its constant if that is small and of whole
/// numbers. Floats that are whole count as such.
std::optional<Dims> contents_of(const Value& value);
/// Larger tensors are no shapes.
constexpr size_t kMostContents = 64;

}  // namespace quern::model::ir
