// SPDX-License-Identifier: Apache-2.0
#include "main/simulate_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "main/command.h"
#include "sim/search.h"

namespace quern::main {

namespace {

struct Totals {
  uint64_t seeds = 0, steps = 0, requests = 0, longest = 0;
};

void print_json(const Totals& totals, const sim::Coverage& coverage, const std::string& failure, bool clean) {
  fmt::print("{{\"seeds\": {}, \"steps\": {}, \"requests\": {}, \"clean\": {}, \"failure\": {}, \"met\": {{",
             totals.seeds, totals.steps, totals.requests, clean, json_string(failure));
  std::string kind;
  for (const auto& row : coverage.rows()) {
    if (row.kind != kind) fmt::print("{}{}: {{", kind.empty() ? "" : "}, ", json_string(row.kind));
    fmt::print("{}{}: {}", row.kind != kind ? "" : ", ", json_string(row.name), row.count);
    kind = row.kind;
  }
  fmt::print("}}}}}}\n");
}

}  // namespace

Result<bool> run_search(const SearchFlags& flags) {
  if (flags.seeds == 0) return invalid("--seeds: is 0; at least one is needed");
  constexpr uint64_t kSeedsPerLine = 1000;
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  sim::Coverage coverage;
  Totals totals;
  std::string failure;
  for (uint64_t i = 0; i < flags.seeds && failure.empty(); ++i) {
    const uint64_t seed = flags.first_seed + i;
    // Also what is left to read when the core itself gives up in the middle of a seed. A file gets a line now and then.
    if (is_terminal) {
      fmt::print(stderr, "\rseed {} ({} of {}) ", seed, i + 1, flags.seeds);
      std::fflush(stderr);
    } else if (i % kSeedsPerLine == 0) {
      fmt::print(stderr, "from seed {} ({} of {})\n", seed, i + 1, flags.seeds);
    }
    const sim::SeedResult result = sim::run_seed(seed, &coverage);
    ++totals.seeds;
    totals.steps += result.outcome.steps;
    totals.requests += result.outcome.requests;
    if (result.violation) failure = sim::tell_failure(result);
  }
  if (is_terminal) fmt::print(stderr, "\n");

  bool clean = failure.empty();
  const auto missing = coverage.missing();
  if (clean && flags.seeds >= kSeedsForAll && !missing.empty()) {
    clean = false;
    for (const std::string& name : missing) failure += fmt::format("search: never met: {}\n", name);
  }
  if (flags.json) {
    print_json(totals, coverage, failure, clean);
    return clean;
  }
  fmt::print("{}{}{} seeds, {} steps, {} requests: {}\n", coverage.to_text(), failure, totals.seeds, totals.steps,
             totals.requests, clean ? "clean" : "FAILED");
  return clean;
}

}  // namespace quern::main
