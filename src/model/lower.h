// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/result.h"
#include "model/ir/graph.h"
#include "model/kernel/lowered.h"

namespace quern::model {

/// Turns a graph into launches over buffers. A reshape costs nothing: its output is the buffer of its input. Every
/// output of the graph has a buffer of its own, which a launch or a copy writes. kUnsupported names all nodes that no
/// kernel takes.
Result<kernel::Lowered> lower(const ir::Graph& graph);

/// The source of all kernels, with what they need in front.
std::string source_of(const kernel::Lowered& lowered);

}  // namespace quern::model
