// SPDX-License-Identifier: Apache-2.0
#include "model/pass/canonical.h"

#include <vector>

#include "model/pass/fold.h"
#include "model/pass/rules.h"

namespace quern::model::pass {

Status canonical(ir::Graph& graph) {
  std::vector<Rule> rules;
  for (const auto part : {view_rules(), arithmetic_rules(), absorb_rules()})
    rules.insert(rules.end(), part.begin(), part.end());
  // Rules leave constants to compute and nodes that became the same, and both may be what another rule waits for.
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    QUERN_TRY(const bool is_changed, apply_rules(graph, rules));
    QUERN_TRY(fold(graph));
    if (!is_changed) break;
  }
  return {};
}

}  // namespace quern::model::pass
