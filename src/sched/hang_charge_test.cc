// SPDX-License-Identifier: Apache-2.0
//
// Who pays when an executor is killed for a kernel that hangs: the function of that kernel, and nobody who had a run
// beside it.
#include <gtest/gtest.h>

#include <optional>

#include "sched/ids_test.h"
#include "sched/scheduler.h"

namespace quern::sched {
namespace {

Time after_ms(int64_t ms) { return {Duration::millis(ms).ns}; }

Submit call_of(RequestId request, FunctionId function, TenantId tenant) {
  Submit submit;
  submit.request = request;
  submit.function = function;
  submit.tenant = tenant;
  submit.domain = DomainId{1};
  return submit;
}

/// Two tenants that share an executor, each with a run whose launch is in flight. The launch of the first tenant hangs.
struct HangBesideANeighbour {
  HangBesideANeighbour() {
    core.step(after_ms(0), DeviceUp{.device = d1, .memory_bytes = uint64_t{1} << 30});
    Submit hangs = call_of(RequestId{1}, f1, TenantId{1});
    hangs.device_time = Duration::millis(100);
    core.step(after_ms(0), hangs);
    core.step(after_ms(1), ExecutorUp{ExecutorId{1}});
    core.step(after_ms(1), call_of(RequestId{2}, FunctionId{2}, TenantId{2}));
    core.step(after_ms(1), Started{RunId{1}});
    core.step(after_ms(1), Started{RunId{2}});
  }

  /// Lets time pass until the core kills the executor; true if it does so because of the run that hangs.
  bool is_killed() {
    for (int64_t ms = 2; ms < 1000; ++ms) {
      const Flight flight{d1, {{RunId{1}, 1, after_ms(1), {0}}, {RunId{2}, 1, after_ms(1), {0}}}};
      for (const Action& action : core.step(after_ms(ms), flight))
        if (const auto* kill = std::get_if<KillExecutor>(&action)) {
          now = after_ms(ms);
          return kill->because == RunId{1};
        }
    }
    return false;
  }

  std::optional<int64_t> charged(TenantId tenant) const {
    for (const auto& standing : core.standings())
      if (standing.tenant == tenant) return standing.vtime;
    return std::nullopt;
  }

  Config config;
  Scheduler core{config};
  Time now{0};
};

TEST(HangCharge, ANeighbourIsChargedForItsNextRunOnly) {
  HangBesideANeighbour both;
  const auto before = both.charged(TenantId{2});
  ASSERT_TRUE(before && *before > 0) << "nothing was charged when the run began";
  ASSERT_TRUE(both.is_killed());
  bool runs_again = false;
  for (const Action& action : both.core.step(both.now, ExecutorLost{ExecutorId{1}, std::nullopt}))
    if (const auto* prepare = std::get_if<Prepare>(&action)) runs_again |= prepare->request == RequestId{2};
  EXPECT_TRUE(runs_again);
  EXPECT_EQ(both.charged(TenantId{2}), before) << "the lost run was charged as well";
}

TEST(HangCharge, TheCulpritPaysWhatWasExpectedOfItsRun) {
  HangBesideANeighbour both;
  const auto before = both.charged(TenantId{1});
  ASSERT_TRUE(before && *before > 0);
  ASSERT_TRUE(both.is_killed());
  both.core.step(both.now, ExecutorLost{ExecutorId{1}, std::nullopt});
  EXPECT_EQ(both.charged(TenantId{1}), before) << "what was charged was given back";
}

}  // namespace
}  // namespace quern::sched
