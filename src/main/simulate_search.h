// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace quern::main {

/// What `quern simulate --search` was asked for.
struct SearchFlags {
  uint64_t seeds = 300, first_seed = 1;
  bool json = false;
};

/// Runs the seeds one after another with progress on standard error, stops at the first that fails and tells all about
/// it, and ends with how often everything was met on standard output. True if no rule was broken and, from so many
/// seeds on that it can be asked for, nothing was left untried.
Result<bool> run_search(const SearchFlags& flags);

/// From so many seeds on nothing may be left untried.
constexpr uint64_t kSeedsForAll = 300;

}  // namespace quern::main
