// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// The text form of a graph, for golden tests and for people:
//
//     dim n in 1..32
//     graph(x: fp32[n, 3, 8, 8]) {
//       w: fp32[4, 3, 3, 3] = constant {random=1}
//       y: fp32[n, 4, 8, 8] = conv(x, w) {pads=[1, 1, 1, 1]} @Conv_0
//       z: fp32[n, 4, 8, 8] = relu(y)
//       require n == m
//       return z, features=y
//     }
//
// A name has no spaces and none of `(){}[],="@#`, or stands in quotes. `_` is an input that is left out. A constant
// states its elements (`values`), one element for all (`fill`), or a seed (`random`). Large constants are written as a
// hash, which tells them apart and cannot be read back. `@` names the ONNX nodes that a node computes, `#` begins a
// comment. A body stands behind `with`, as a graph in which every type is stated:
//
//     y: fp32[n, 4] = matmul(x, w, b) with graph(p: fp32[n, 4], q: fp32[4]) {
//       s: fp32[n, 4] = add(p, q)
//       return s
//     }
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::ir {

std::string show_graph(const Graph& graph);
/// " {axis=1, keep=0}"; "" of none.
std::string show_attributes(const Attributes& attributes);

/// A graph as text states it. A type may be left out where an operator tells it: op/check.h infers those, and checks
/// the others.
struct ParsedGraph {
  Graph graph;
  std::vector<bool> has_type;  ///< for every value whether the text states its type
};
/// kInvalid names the line.
Result<ParsedGraph> parse_graph(std::string_view text);

}  // namespace quern::model::ir
