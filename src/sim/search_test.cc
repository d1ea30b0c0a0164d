// SPDX-License-Identifier: Apache-2.0
#include "sim/search.h"

#include <gtest/gtest.h>

#include "sim/shrink.h"

namespace quern::sim {
namespace {

void hunt(uint64_t seeds) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const SeedResult result = run_seed(seed, &coverage);
    if (result.violation) FAIL() << tell_failure(result);
    EXPECT_GE(result.outcome.steps, kLeastSteps) << "seed " << seed;
    EXPECT_GE(result.fault_kinds, kLeastFaultKinds) << "seed " << seed;
  }
  for (const std::string& name : coverage.missing()) ADD_FAILURE() << "never met: " << name;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// As many as take a minute: what is sought here is what the sanitizer sees. Too few to meet everything there is.
TEST(Search, FindsNothing) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const SeedResult result = run_seed(seed);
    if (result.violation) FAIL() << tell_failure(result);
  }
}
#else
TEST(Search, FindsNothing) { hunt(300); }
#endif
TEST(Search, DISABLED_LongFindsNothing) { hunt(10'000); }

TEST(Search, IsTheSameTwice) {
  EXPECT_EQ(to_text(random_model(7)), to_text(random_model(7)));
  EXPECT_NE(to_text(random_model(7)), to_text(random_model(8)));
  const SeedResult first = run_seed(7), second = run_seed(7);
  EXPECT_EQ(first.outcome.steps, second.outcome.steps);
  EXPECT_EQ(first.outcome.ended, second.outcome.ended);
  EXPECT_EQ(first.outcome.faults, second.outcome.faults);
}

TEST(Coverage, KnowsWhatIsMissing) {
  Coverage coverage;
  const size_t all = coverage.rows().size();
  EXPECT_EQ(coverage.missing().size(), all);
  coverage.count_step(sched::Tick{}, {});
  EXPECT_EQ(coverage.missing().size(), all - 1);
}

TEST(Shrink, KeepsWhatFails) {
  // Not enough time to end: a function that takes two hours, one call of it, and much that does not matter.
  Model model = random_model(1);
  model.faults = {};
  model.functions[0].device_time = Duration::seconds(7200);
  model.functions[0].device_limit = model.functions[0].timeout = Duration::forever();
  model.functions[0].memory_bytes = 0;
  model.tenants[model.functions[0].tenant].limits = {};
  model.config = {};
  const Trial trial = try_model(model, 1);
  ASSERT_TRUE(trial.violation);
  const Shrunk shrunk = shrink(model, 1, *trial.violation);
  EXPECT_LE(shrunk.runs, 200u);
  EXPECT_EQ(shrunk.violation.checker, trial.violation->checker) << trial.violation->text;
  EXPECT_EQ(shrunk.model.loads.size(), 1u);
  EXPECT_EQ(shrunk.model.functions.size(), 1u);
  EXPECT_NE(shrunk.trail, "");
}

}  // namespace
}  // namespace quern::sim
