// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/ir/graph.h"
#include "model/onnx/proto.h"
#include "model/onnx/tensor.h"

namespace quern::model {

/// Operators of newer versions may mean something else.
constexpr int64_t kOldestOpset = 7, kNewestOpset = 26;

/// What an import may take for granted.
struct Binding {
  /// Sizes of free dims, by their names in the graph (`ir::FreeDim`): the graph then has numbers in their place.
  ir::DimValues dims;
  /// The elements of inputs, for inputs that are shapes or counts: the graph then has constants in their place, and the
  /// inputs are still there. A graph holds for these elements alone.
  std::map<std::string, ir::Tensor, std::less<>> inputs;
  /// Bounds of free dims. A free dim without is unbounded.
  std::map<std::string, ir::Dim::Range, std::less<>> bounds;
  /// The outputs that are asked for; empty: all.
  std::vector<std::string> outputs;
};

/// Why a node of a model is not supported.
struct Refusal {
  std::string node, op;
  std::string text;  ///< "node 'r1' (Resize): …; …"
  /// Inputs of the graph whose elements would decide: import again with them bound. Empty if that does not help.
  std::vector<std::string> inputs;
};

struct Imported {
  ir::Graph graph;  ///< complete if nothing was refused
  std::vector<Refusal> refusals;
};

/// Turns an ONNX model into a graph of our operators, with every type inferred. Only what the outputs need is looked
/// at, in an order that depends on the structure of the graph alone. The graph refers to the weights in the file.
/// An error is one of the model as a whole: a version, an input without a type, a circle. What is not supported is
/// collected, so that a user hears of all of it at once.
Result<Imported> import_model(const onnx::Model& model, const onnx::ExternalFiles& files, const Binding& binding = {});

/// The refusals as one error; there is at least one. At most `most` are named, and the others counted.
Error error_of(const std::vector<Refusal>& refusals, size_t most = 20);

}  // namespace quern::model
