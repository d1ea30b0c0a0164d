// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/ir/graph.h"

namespace quern::model::pass {

/// A pass rewrites a graph that means the same afterwards. Graphs between passes are ordered and checked, and the
/// interpreter runs them.
struct Pass {
  std::string_view name;
  Status (*run)(ir::Graph& graph);
};

/// Those that every device takes, in their order.
std::span<const Pass> passes();

/// Runs all of them. After each the graph is checked, and `observer` sees it. An error names the pass.
Status run_passes(ir::Graph& graph, const std::function<void(const Pass& pass, const ir::Graph& graph)>& observer = {});

}  // namespace quern::model::pass
