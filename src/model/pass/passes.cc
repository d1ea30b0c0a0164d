// SPDX-License-Identifier: Apache-2.0
#include "model/pass/passes.h"

#include <fmt/format.h>

#include "model/op/check.h"
#include "model/pass/canonical.h"
#include "model/pass/fold.h"
#include "model/pass/fuse.h"
#include "model/pass/recognise.h"

namespace quern::model::pass {

std::span<const Pass> passes() {
  static constexpr Pass kPasses[] = {
      {"fold", fold}, {"canonical", canonical}, {"recognise", recognise}, {"fuse", fuse}};
  return kPasses;
}

Status run_passes(ir::Graph& graph, const std::function<void(const Pass&, const ir::Graph&)>& observer) {
  for (const Pass& pass : passes()) {
    const auto named = [&](const Error& error) {
      return Error{error.code, fmt::format("pass {}: {}", pass.name, error.text)};
    };
    if (Status status = pass.run(graph); !status.ok()) return named(status.error());
    if (Status status = op::check_graph(graph); !status.ok()) return named(status.error());
    if (observer) observer(pass, graph);
  }
  return {};
}

}  // namespace quern::model::pass
