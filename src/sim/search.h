// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/coverage.h"
#include "sim/model.h"
#include "sim/trial.h"

/// The hunt for bugs of the core: models made up at random, run with everything going wrong and all checkers on.
namespace quern::sim {

/// Host, devices, tenants, functions, loads, programs, quotas, limits, policies and faults of a seed. The same seed
/// gives the same model, everywhere.
Model random_model(uint64_t seed);

/// What a seed must reach to count; a model that does not is made longer and run again.
constexpr uint64_t kLeastSteps = 2000;
constexpr uint64_t kLeastFaultKinds = 3;

struct SeedResult {
  uint64_t seed = 0;
  Model model;         ///< as it was run last
  uint32_t tries = 0;  ///< how often, until it was long enough
  World::Outcome outcome;
  uint64_t fault_kinds = 0;
  std::optional<Violation> violation;
};
/// `only`: the one checker to be on.
SeedResult run_seed(uint64_t seed, Coverage* coverage = nullptr, std::string_view only = {});

/// All that is to be told of a seed that failed: what is wrong, the command that shows it again (`options` are added to
/// it), the smallest model found that shows it too, and what happened just before.
std::string tell_failure(const SeedResult& result, const std::string& options = "");

}  // namespace quern::sim
