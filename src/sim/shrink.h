// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "sim/model.h"
#include "sim/trial.h"

namespace quern::sim {

/// A small model that breaks the same checker's rule as a large one.
struct Shrunk {
  Model model;
  Violation violation;  ///< of the small one
  std::string trail;    ///< the last steps before it
  uint32_t runs = 0;    ///< that it took
};

/// Takes away loads, faults, devices, host, tenants, functions, objects, limits and time, one after another, and keeps
/// what is gone as long as the same checker fails. A greedy search of at most `most_runs` runs: small, not smallest.
Shrunk shrink(const Model& model, uint64_t seed, const Violation& violation, uint32_t most_runs = 200);

/// One line per thing, with what differs from the default.
std::string to_text(const Model& model);

}  // namespace quern::sim
