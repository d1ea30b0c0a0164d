// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::pass {

/// Computes what constants alone determine, and takes shape arithmetic out of the graph: a tensor whose elements are
/// expressions over free dims is made from those dims, whatever computed it. Nodes that compute the same become one.
/// A fold whose result is larger than 1 MiB and than twice its inputs is left to the device.
Status fold(ir::Graph& graph);

}  // namespace quern::model::pass
