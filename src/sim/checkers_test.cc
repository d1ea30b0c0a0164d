// SPDX-License-Identifier: Apache-2.0
//
// Checkers through changed actions; unchanged, all are quiet. Those of memory, gates, quotas and hangs have tests of
// their own.
#include <gtest/gtest.h>

#include "sim/ends_checker.h"
#include "sim/fairness_checker.h"
#include "sim/gate_checker.h"
#include "sim/hang_checker.h"
#include "sim/idle_checker.h"
#include "sim/ledger_checker.h"
#include "sim/limits_checker.h"
#include "sim/liveness_checker.h"
#include "sim/pins_checker.h"
#include "sim/quota_checker.h"
#include "sim/test_watched.h"
#include "sim/urgent_checker.h"

namespace quern::sim {
namespace {

template <class C>
class EveryChecker : public testing::Test {};
using All = testing::Types<EndsChecker, LedgerChecker, PinsChecker, LimitsChecker, FairnessChecker, IdleChecker,
                           UrgentChecker, GateChecker, QuotaChecker, LivenessChecker, HangChecker>;
TYPED_TEST_SUITE(EveryChecker, All);

TYPED_TEST(EveryChecker, IsQuietWhileAllIsWell) {
  Watched<TypeParam> watched;
  watched.step(TenantSet{.tenant = t1, .weight = 2, .limits = {.in_flight = 2, .queued = 1}}).running();
  watched.step(call(r2, {{o1, kGiB}})).step(call(r3)).step(call(r9));
  watched.step(Cancel{r3}).step(Finished{.run = run1, .device_time = Duration::millis(5)});
  watched.step(Started{run2}).step(DeviceMemory{d1, 6 * kGiB}).step(ExecutorLost{e1, run2});
  watched.step(up(d2)).step(DeviceDown{d1}).step(FunctionGone{FunctionId{7}});
  watched.restart().running().step(Finished{.run = run1, .failed = true, .device_time = Duration::millis(5)});
  watched.end(true);
  EXPECT_EQ(watched.why(), "");
}

TYPED_TEST(EveryChecker, IsQuietWithAHost) {
  Config config;
  config.granularity_bytes = 3000;
  config.room_back = Duration::millis(4);
  for (const DeviceUp& device : {up(d1), up_in_place(d1)}) {
    Watched<TypeParam> watched(config);
    watched.running_from_host(device).step(keep_hot(Time::never()));
    watched.step(Finished{.run = run1, .device_time = Duration::millis(5)}).step(HostUp{2 * kGiB});
    // The lane has all it needs; what is larger makes it grow, and finds no room.
    Submit large = call(r2, {{o1, kGiB}});
    large.memory_bytes = 2 * kGiB;
    watched.step(large).step(Finished{.run = run2, .failed = true, .no_room = true});
    watched.wait(6).step(Finished{.run = RunId{3}, .device_time = Duration::millis(5)});
    watched.step(keep_hot(watched.now)).step(FunctionGone{FunctionId{7}});
    EXPECT_EQ(watched.why(), "") << device.in_place;
  }
}

TYPED_TEST(EveryChecker, IsQuietWhileThingsFail) {
  Config config;
  config.room_back = Duration::millis(2);
  Watched<TypeParam> watched(config);
  watched.step(HostUp{4 * kGiB}).step(up(d1)).step(call(r1, {{o1, kGiB}, {o2, kGiB}}));
  watched.step(Fetched{o1, true}).step(Fetched{o1}).step(Fetched{o2}).step(ExecutorUp{e1}).step(ExecutorUp{e2});
  watched.step(Loaded{e1, o1, true}).step(Finished{.run = run1, .failed = true});
  watched.step(Loaded{e1, o2, true, true}).step(Cancel{r1}).step(ExecutorLost{.executor = e1, .culprit = {}});
  watched.step(DeviceMemory{d1, kGiB}).step(HostUp{kGiB}).step(DeviceMemory{d1, 8 * kGiB}).step(DeviceDown{d1});
  EXPECT_EQ(watched.why(), "");
}

TYPED_TEST(EveryChecker, IsQuietWithLevelsAndPrograms) {
  for (const char* dispatch : {"fill", "strict", "fikit", "none"}) {
    Config config;
    config.policy.dispatch = dispatch;
    Watched<TypeParam> watched(config);
    watched.step(up(d1)).step(call(r1)).step(ExecutorUp{e1}).step(Started{run1});
    Submit other = urgent(r2);
    other.domain = DomainId{2};
    watched.step(other).step(ExecutorUp{e2}).step(Started{run2});
    watched.step(LauncherUp{p1, d1, FunctionId{99}, 3, {}})
        .step(WorkReady{p1, {{0, Duration::millis(1), true}}, false});
    watched.wait(1).step(DeviceUsed{p1, Duration::millis(1)}).step(GapBegun{p1, watched.now, 1});
    watched.step(LauncherGone{p1});
    // Long enough for a turn of the one that waits.
    watched.wait(110);
    watched.step(Finished{.run = run2, .device_time = Duration::millis(5)});
    watched.step(Finished{.run = run1, .device_time = Duration::millis(5)});
    watched.end(true);
    EXPECT_EQ(watched.why(), "") << dispatch;
  }
}

TYPED_TEST(EveryChecker, IsQuietWithQuotas) {
  for (const char* dispatch : {"fill", "strict", "fikit", "none"}) {
    Config config;
    config.policy.dispatch = dispatch;
    config.lanes = 6;
    Watched<TypeParam> watched(config);
    DeviceUp device = up(d1);
    device.units = 4;
    watched.step(device);
    for (uint64_t i = 1; i <= 4; ++i) {
      Submit submit = call(RequestId{i});
      submit.function = FunctionId{i};
      if (i < 4)
        submit.quota = {.request = 100, .limit = 200 * static_cast<uint32_t>(i), .units = i == 1 ? 1000U : 500U};
      watched.step(submit);
    }
    watched.step(ExecutorUp{e1});
    for (uint64_t i = 1; i <= 4; ++i) watched.step(Started{RunId{i}});
    watched.step(LauncherUp{p1, d1, FunctionId{99}, 3, {.request = 0, .limit = 100, .units = 250}});
    watched.step(WorkReady{p1, {{0, Duration::millis(1), true}}, false});
    for (int i = 0; i < 40; ++i) {
      watched.wait(5).step(DeviceUsed{lane_of(e1, i % 4), Duration::millis(i % 7)});
      watched.step(DeviceUsed{p1, Duration::millis(i % 5)});
    }
    Submit changed = call(r9);
    changed.function = FunctionId{2};
    changed.quota = {.request = 0, .limit = 50, .units = 1000};
    watched.step(changed).wait(5).step(DeviceDown{d1}).step(LauncherGone{p1});
    watched.step(FunctionGone{FunctionId{2}});
    EXPECT_EQ(watched.why(), "") << dispatch;
  }
}

// Ends.

TEST(EndsChecker, SeesASecondAnswer) {
  Watched<EndsChecker> watched;
  watched.running().step(Finished{.run = run1}, add(Answer{.request = r1, .end = End::kDone, .run = run1}));
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesAnAnswerToNobody) {
  Watched<EndsChecker> watched;
  watched.running().step(Tick{}, add(Answer{.request = r9, .end = End::kCancelled, .run = {}, .retry_after = {}}));
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesAWrongRun) {
  Watched<EndsChecker> watched;
  watched.running().step(Finished{.run = run1}, alter<Answer>([](Answer& a) { a.run = run9; }));
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesAReasonThatIsNone) {
  for (int i = 0; i <= static_cast<int>(End::kRemoved); ++i) {
    const End end = static_cast<End>(i);
    if (end == End::kDone) continue;
    Watched<EndsChecker> watched;
    const bool later = end == End::kQueueFull || end == End::kWouldBeLate || end == End::kNoDevice ||
                       end == End::kQuarantined || end == End::kLost;
    watched.running().step(Finished{.run = run1}, alter<Answer>([&](Answer& a) {
                             a.end = end;
                             if (later) a.retry_after = Duration::seconds(1);
                           }));
    EXPECT_TRUE(watched.fails()) << name_of(end);
  }
}

TEST(EndsChecker, SeesDoneWithoutAnEnd) {
  Watched<EndsChecker> watched;
  watched.running().step(Tick{}, add(Answer{.request = r1, .end = End::kDone, .run = run1}));
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesWhoIsNotAnsweredInTime) {
  Watched<EndsChecker> watched;
  Submit late = call(r1);
  late.deadline = Time{0} + Duration::millis(3);
  watched.step(up(d1)).step(late).step(Tick{}, drop<Answer>());
  EXPECT_TRUE(watched.fails());
  Watched<EndsChecker> cancelled;
  cancelled.running().step(Cancel{r1}, drop<Answer>());
  EXPECT_TRUE(cancelled.fails());
}

TEST(EndsChecker, SeesARetryThatIsMissing) {
  Watched<EndsChecker> watched;
  watched.step(call(r1), alter<Answer>([](Answer& a) { a.retry_after = {0}; }));
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesACulpritThatGoesOn) {
  Watched<EndsChecker> watched;
  watched.running().step(ExecutorLost{e1, run1}, drop<Answer>());
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesWhoShouldBeKeptApart) {
  Watched<EndsChecker> watched;
  watched.running().step(ExecutorLost{e1, run1}).step(call(r2));
  EXPECT_EQ(watched.why(), "");
  watched.step(ExecutorUp{e2}, [](std::vector<Action>& actions) {
    actions = {StartExecutor{.executor = e9, .device = d1, .domain = DomainId{1}, .own_function = {}},
               sched::Run{.run = run9, .request = r2, .executor = e9}};
  });
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesFailureForALoadThatFailed) {
  Watched<EndsChecker> watched;
  watched.step(up(d1)).step(call(r1, {{o1, kGiB}})).step(ExecutorUp{e1}).step(Loaded{e1, o1, true});
  EXPECT_EQ(watched.why(), "");
  watched.step(Finished{.run = run1, .failed = true}, add(Answer{.request = r1, .end = End::kFailed, .run = run1}));
  EXPECT_TRUE(watched.fails());
}

TEST(EndsChecker, SeesThatNobodyWakesTheCore) {
  Watched<EndsChecker> watched;
  Submit late = call(r1);
  late.deadline = Time{0} + Duration::millis(30);
  watched.step(up(d1)).step(late, drop<WakeAt>());
  EXPECT_TRUE(watched.fails());
}

// Limits.

TEST(LimitsChecker, SeesTooManyInFlight) {
  Watched<LimitsChecker> watched;
  watched.running().pretend(TenantSet{.tenant = t1, .limits = {.memory_bytes = kGiB}});
  EXPECT_TRUE(watched.fails());
}

TEST(LimitsChecker, SeesALaneThatIsTaken) {
  Watched<LimitsChecker> watched;
  watched.running().step(call(r2), alter<sched::Run>([](sched::Run& run) { run.lane = 0; }));
  EXPECT_TRUE(watched.fails());
  Watched<LimitsChecker> none;
  none.running().step(call(r2), alter<sched::Run>([](sched::Run& run) { run.lane = 5; }));
  EXPECT_TRUE(none.fails());
}

TEST(LimitsChecker, SeesARunTooMany) {
  Watched<LimitsChecker> watched;
  watched.running().step(call(r2));
  EXPECT_EQ(watched.why(), "");
  watched.step(call(r3),
               add(sched::Run{.run = run9, .request = r3, .executor = e1, .lane = 2, .level = sched::level_of(5)}));
  EXPECT_NE(watched.why().find("the 3th at level 5"), std::string::npos) << watched.why();
  Config config;
  config.lanes = 1;
  Watched<LimitsChecker> full(config);
  full.running().step(urgent(r2),
                      add(sched::Run{.run = run9, .request = r2, .executor = e1, .level = sched::level_of(0)}));
  EXPECT_TRUE(full.fails());
}

TEST(LimitsChecker, SeesALevelThatIsNotItsOwn) {
  Watched<LimitsChecker> watched;
  watched.running().step(call(r2), alter<sched::Run>([](sched::Run& run) { run.level = sched::level_of(0); }));
  EXPECT_NE(watched.why().find("r2 is of priority 5 and has no quota"), std::string::npos) << watched.why();
  // A tenant may ask for no more than it may have.
  Watched<LimitsChecker> limited;
  limited.step(TenantSet{.tenant = t1, .limits = {.priority = 7}}).running();
  EXPECT_EQ(limited.why(), "");
  limited.step(call(r2), alter<sched::Run>([](sched::Run& run) { run.level = sched::level_of(5); }));
  EXPECT_TRUE(limited.fails());
  Config config;
  config.policy.fairness = "fifo";
  Watched<LimitsChecker> flat(config);
  flat.running().step(urgent(r2));
  EXPECT_EQ(flat.why(), "");
}

TEST(LimitsChecker, SeesALevelTooMany) {
  Config config;
  config.levels_in_flight = 1;
  config.spare_levels = 0;
  Watched<LimitsChecker> watched(config);
  watched.running().step(urgent(r2));
  EXPECT_EQ(watched.why(), "");
  watched.step(Tick{},
               add(sched::Run{.run = run9, .request = r2, .executor = e1, .lane = 1, .level = sched::level_of(0)}));
  EXPECT_NE(watched.why().find("makes 2 levels"), std::string::npos) << watched.why();
}

TEST(LimitsChecker, SeesCompanyForOneThatRunsAlone) {
  Watched<LimitsChecker> watched;
  watched.running().step(ExecutorLost{.executor = e1, .culprit = {}}).step(ExecutorUp{e2}).step(urgent(r2));
  EXPECT_EQ(watched.why(), "");
  watched.step(Tick{},
               add(sched::Run{.run = run9, .request = r2, .executor = e2, .lane = 1, .level = sched::level_of(0)}));
  EXPECT_NE(watched.why().find("is to run alone"), std::string::npos) << watched.why();
}

TEST(LimitsChecker, SeesAnAttemptTooMany) {
  Config config;
  config.most_attempts = 1;
  Watched<LimitsChecker> watched(config);
  watched.running().step(ExecutorLost{.executor = e1, .culprit = {}}, drop<Answer>());
  watched.pretend(Tick{}, {StartExecutor{.executor = e9, .device = d1, .domain = DomainId{1}, .own_function = {}},
                           sched::Run{.run = run9, .request = r1, .executor = e9}});
  EXPECT_TRUE(watched.fails());
}

TEST(LimitsChecker, SeesTwoExecutorsOnADevice) {
  Watched<LimitsChecker> watched;
  Submit other = call(r2);
  other.domain = DomainId{2};
  watched.running().step(other);
  watched.step(Tick{}, [](std::vector<Action>& actions) {
    actions.push_back(StartExecutor{.executor = e9, .device = d1, .domain = DomainId{2}, .own_function = {}});
    actions.push_back(sched::Run{.run = run9, .request = r2, .executor = e9, .lane = 1, .level = sched::level_of(5)});
  });
  EXPECT_NE(watched.why().find("two executors at level 5"), std::string::npos) << watched.why();
}

TEST(LimitsChecker, SeesWhoShouldHaveBeenRefused) {
  Config config;
  config.most_queued_per_tenant = 1;
  config.runs_in_flight = 1;
  Watched<LimitsChecker> full(config);
  full.running().step(call(r2)).step(call(r3), drop<Answer>());
  EXPECT_TRUE(full.fails());
  Watched<LimitsChecker> over;
  over.step(up(d1)).step(TenantSet{.tenant = t1, .limits = {.memory_bytes = kGiB / 2}}).step(call(r1), drop_all());
  EXPECT_TRUE(over.fails());
  Watched<LimitsChecker> not_full;
  not_full.running().step(call(r2), [](std::vector<Action>& actions) {
    actions = {Answer{.request = r2, .end = End::kQueueFull, .run = {}, .retry_after = Duration::seconds(1)}};
  });
  EXPECT_TRUE(not_full.fails());
}

TEST(LimitsChecker, SeesCompanyForARunThatStops) {
  Watched<LimitsChecker> watched;
  watched.running().step(Cancel{r1}).step(call(r2));
  EXPECT_EQ(watched.why(), "");
  watched.step(Tick{},
               add(sched::Run{.run = run2, .request = r2, .executor = e1, .lane = 1, .level = sched::level_of(5)}));
  EXPECT_NE(watched.why().find("was told to stop"), std::string::npos) << watched.why();
}

TEST(LimitsChecker, SeesARunThatWasAnnouncedOtherwise) {
  Watched<LimitsChecker> watched;
  watched.step(up(d1)).step(call(r1));
  watched.step(ExecutorUp{e1}, alter<sched::Run>([](sched::Run& run) { run.executor = e9; }));
  EXPECT_TRUE(watched.fails());
  Watched<LimitsChecker> twice;
  twice.step(up(d1)).step(call(r1), add(Prepare{.run = run1, .request = r1, .executor = e1}));
  EXPECT_TRUE(twice.fails());
}

TEST(LimitsChecker, SeesThatNobodyAsksWhetherARunIsOnTheDevice) {
  Submit brief = call(r1);
  brief.device_time = Duration::millis(1);
  Watched<LimitsChecker> asked;
  asked.step(up(d1)).step(brief).step(ExecutorUp{e1}).step(Started{run1}).step(Tick{}).step(Flight{d1, {}}).wait(1);
  EXPECT_EQ(asked.why(), "");
  Watched<LimitsChecker> watched;
  watched.step(up(d1)).step(brief).step(ExecutorUp{e1}).step(Started{run1}).step(Tick{}, drop<AskFlight>()).wait(3);
  EXPECT_TRUE(watched.fails());
}

TEST(LimitsChecker, SeesARunThatIsToldToStopBeforeItsTime) {
  Submit brief = call(r1);
  brief.device_time = Duration::millis(4);
  Watched<LimitsChecker> watched;
  watched.step(up(d1)).step(brief).step(ExecutorUp{e1}).step(Started{run1}).wait(3);
  watched.step(Flight{d1, {{run1, 1, watched.now, {0}}}}, add(StopRun{run1}));
  EXPECT_NE(watched.why().find("has not had its"), std::string::npos) << watched.why();
}

// Spares.

Submit at(RequestId request, uint8_t priority) {
  Submit submit = call(request);
  submit.priority = priority;
  return submit;
}

/// The core goes by one configuration, and is judged by another.
std::string judge(const Config& config, const Config& by) {
  Scheduler core(config);
  UrgentChecker checker(by);
  Time now{0};
  for (const Event& event : std::vector<Event>{up(d1), at(r1, 7), ExecutorUp{e1}, at(r2, 5), at(r3, 3)}) {
    now = now + Duration::millis(1);
    const std::vector<Action> actions = core.step(now, event);
    checker.on_step(now, event, actions, core);
  }
  return checker.violation();
}

TEST(UrgentChecker, SeesWhoHasNotItsSpareLane) {
  Config config, none;
  config.lanes = none.lanes = 2;
  none.spare_lanes = 0;
  EXPECT_EQ(judge(config, config), "");
  EXPECT_EQ(judge(none, none), "");
  EXPECT_NE(judge(none, config).find("r3 of priority 3 waits"), std::string::npos) << judge(none, config);
}

TEST(UrgentChecker, SeesWhoHasNotItsSpareLevel) {
  Config config, none;
  config.levels_in_flight = none.levels_in_flight = 2;
  none.spare_levels = 0;
  EXPECT_EQ(judge(config, config), "");
  EXPECT_NE(judge(none, config).find("r3 of priority 3 waits"), std::string::npos) << judge(none, config);
}

TEST(UrgentChecker, SeesWhoHasASpareThatIsNotForIt) {
  Config lanes;
  lanes.lanes = 1;
  Watched<UrgentChecker> lane(lanes);
  lane.running().step(at(r2, 6),
                      add(sched::Run{.run = run9, .request = r2, .executor = e1, .lane = 1, .level = level_of(6)}));
  EXPECT_NE(lane.why().find("run9 of priority 6 has a spare lane"), std::string::npos) << lane.why();
  Config levels;
  levels.levels_in_flight = 1;
  Watched<UrgentChecker> level(levels);
  level.running().step(at(r2, 6),
                       add(sched::Run{.run = run9, .request = r2, .executor = e1, .lane = 1, .level = level_of(6)}));
  EXPECT_NE(level.why().find("run9 of priority 6 has a spare level"), std::string::npos) << level.why();
}

// Fairness.

Scheduler::Standing standing(TenantId tenant, Duration vtime, bool is_next, uint8_t priority = 5) {
  return {.tenant = tenant,
          .vtime = vtime.ns,
          .flows = {{.level = sched::level_of(priority), .vtime = vtime.ns, .is_next = is_next}}};
}

TEST(FairnessChecker, SeesALagBeyondItsBound) {
  FairnessChecker checker{Config{}};
  checker.compare(Time{0}, {}, {.lag = 2, .bound = 1});
  EXPECT_FALSE(checker.violation().empty());
  FairnessChecker other{Config{}};
  other.compare(Time{0}, {standing(t1, {0}, true), standing(t2, {9}, true)}, {.lag = 0, .bound = 5});
  EXPECT_FALSE(other.violation().empty());
  FairnessChecker apart{Config{}};
  apart.compare(Time{0}, {standing(t1, {0}, true), standing(t2, {9}, true, 4)}, {.lag = 0, .bound = 5});
  EXPECT_EQ(apart.violation(), "");
}

TEST(FairnessChecker, SeesAVirtualTimeThatFalls) {
  FairnessChecker checker{Config{}};
  checker.compare(Time{0}, {standing(t1, Duration::millis(9), false)}, {});
  EXPECT_EQ(checker.violation(), "");
  checker.compare(Time{1}, {standing(t1, Duration::millis(7), false)}, {});
  EXPECT_FALSE(checker.violation().empty());
}

TEST(FairnessChecker, SeesALevelAboveItsTenant) {
  FairnessChecker checker{Config{}};
  Scheduler::Standing low = standing(t1, Duration::millis(9), false);
  low.vtime = 0;
  checker.compare(Time{0}, {low}, {});
  EXPECT_FALSE(checker.violation().empty());
}

TEST(FairnessChecker, SeesWhoGotMoreThanOthers) {
  // As many as it takes; of another level, they are nobody's loss.
  const auto runs_until_seen = [](uint8_t priority) {
    FairnessChecker checker{Config{}};
    const std::vector<Scheduler::Standing> standings = {standing(t1, {0}, true), standing(t2, {0}, true)};
    const auto pass = [&](const Event& event, const std::vector<Action>& actions) {
      checker.follow(Time{0}, event, actions);
      checker.compare(Time{0}, standings, {.lag = 0, .bound = Duration::millis(1).ns});
    };
    pass(up(d1), {});
    uint64_t next = 1;
    while (checker.violation().empty() && next < 100) {
      const RequestId request{next};
      const RunId run{next++};
      pass(call(request),
           {StartExecutor{.executor = e1, .device = d1, .domain = DomainId{1}, .own_function = {}},
            sched::Run{.run = run, .request = request, .executor = e1, .level = sched::level_of(priority)}});
      pass(Finished{.run = run, .device_time = Duration::millis(1)}, {Answer{.request = request, .run = run}});
    }
    return next;
  };
  EXPECT_LT(runs_until_seen(5), 20u);
  EXPECT_EQ(runs_until_seen(4), 100u);
}

// Idle devices.

TEST(IdleChecker, SeesADeviceThatIdles) {
  Config config;
  config.runs_in_flight = 1;
  Watched<IdleChecker> watched(config);
  watched.step(up(d1)).step(call(r1)).step(ExecutorUp{e1}).step(call(r2)).step(Started{run1});
  EXPECT_EQ(watched.why(), "");
  watched.pretend(Finished{.run = run1});
  EXPECT_TRUE(watched.fails());
}

TEST(IdleChecker, SeesADeviceThatComesBackAndIdles) {
  Config config;
  config.runs_in_flight = 1;
  Watched<IdleChecker> watched(config);
  watched.step(up(d1)).step(up(d2)).step(call(r1)).step(call(r2)).step(ExecutorUp{e1}).step(ExecutorUp{e2});
  watched.step(Started{run1}).step(Started{run2}).step(call(r3)).pretend(Finished{.run = run2});
  EXPECT_TRUE(watched.fails());
}

TEST(IdleChecker, LetsLimitsAndPoliciesBe) {
  Config config;
  config.runs_in_flight = 1;
  Watched<IdleChecker> limited(config);
  limited.step(up(d1)).step(up(d2)).step(TenantSet{.tenant = t1, .limits = {.in_flight = 1}});
  limited.step(call(r1)).step(ExecutorUp{e1}).step(call(r2)).step(Started{run1});
  EXPECT_EQ(limited.why(), "");
  EXPECT_FALSE(IdleChecker::applies_to({.placement = "exclusive"}));
}

// Liveness.

TEST(LivenessChecker, SeesWhoWasNeverAnswered) {
  Watched<LivenessChecker> watched;
  watched.running();
  watched.end(true);
  EXPECT_TRUE(watched.fails());
  Watched<LivenessChecker> dropped;
  dropped.running().step(Finished{.run = run1}, drop<Answer>());
  dropped.end(true);
  EXPECT_TRUE(dropped.fails());
}

TEST(LivenessChecker, SeesTimeThatRanOut) {
  Watched<LivenessChecker> watched;
  watched.running().step(Finished{.run = run1});
  watched.end(false);
  EXPECT_TRUE(watched.fails());
}

TEST(LivenessChecker, SeesACircle) {
  LivenessChecker checker;
  const Scheduler core{Config{}};
  for (uint64_t i = 0; i <= LivenessChecker::kMostSteps; ++i) checker.on_step(Time{0}, Tick{}, {}, core);
  EXPECT_FALSE(checker.violation().empty());
}

}  // namespace
}  // namespace quern::sim
