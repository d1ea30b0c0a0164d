// SPDX-License-Identifier: Apache-2.0
//
// Every checker on events and actions written by hand. Most of the time a real core is stepped, and what it did is
// changed on its way to the checker: an action is dropped, doubled or made up. Unchanged, all checkers are quiet.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "sched/scheduler.h"
#include "sim/ends_checker.h"
#include "sim/fairness_checker.h"
#include "sim/idle_checker.h"
#include "sim/ledger_checker.h"
#include "sim/limits_checker.h"
#include "sim/liveness_checker.h"
#include "sim/pins_checker.h"

namespace quern::sim {
namespace {

using namespace sched;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr DeviceId d1{1}, d2{2};
constexpr ExecutorId e1{1}, e2{2}, e9{9};
constexpr ObjectId o1{1}, o2{2};
constexpr RunId run1{1}, run2{2}, run9{9};
constexpr RequestId r1{1}, r2{2}, r3{3}, r9{9};
constexpr TenantId t1{1}, t2{2};

Submit call(RequestId request, std::vector<ObjectNeed> objects = {}) {
  return {.request = request,
          .function = FunctionId{7},
          .tenant = t1,
          .domain = DomainId{1},
          .memory_bytes = kGiB,
          .objects = std::move(objects)};
}
DeviceUp up(DeviceId device) { return {.device = device, .memory_bytes = 8 * kGiB, .context_bytes = kGiB / 4}; }

/// What the checker is told of the actions of a step.
using Change = std::function<void(std::vector<Action>&)>;

Change drop_all() {
  return [](std::vector<Action>& actions) { actions.clear(); };
}
template <class A>
Change drop() {
  return [](std::vector<Action>& actions) {
    std::erase_if(actions, [](const Action& action) { return std::holds_alternative<A>(action); });
  };
}
Change add(Action action) {
  return [action](std::vector<Action>& actions) { actions.push_back(action); };
}
/// Changes every action of a kind.
template <class A>
Change alter(std::function<void(A&)> how) {
  return [how](std::vector<Action>& actions) {
    for (Action& action : actions)
      if (auto* one = std::get_if<A>(&action)) how(*one);
  };
}

/// A core, and a checker that watches it through a glass.
template <class C>
class Watched {
 public:
  Watched() : Watched(Config{}) {}
  explicit Watched(const Config& config)
      : checker(make(config)), config_(config), core_(std::make_unique<Scheduler>(config)) {}

  Watched& step(const Event& event, const Change& change = nullptr) {
    now = now + Duration::millis(1);
    std::vector<Action> actions = core_->step(now, event);
    if (change) change(actions);
    checker.on_step(now, event, actions, *core_);
    return *this;
  }
  /// The checker is told of something that the core did not see.
  Watched& pretend(const Event& event, const std::vector<Action>& actions = {}) {
    now = now + Duration::millis(1);
    checker.on_step(now, event, actions, *core_);
    return *this;
  }
  /// A device, an executor, and a run of r1 with two objects that is on the device.
  Watched& running() {
    step(up(d1)).step(call(r1, {{o1, kGiB}, {o2, kGiB}})).step(ExecutorUp{e1});
    return step(Loaded{e1, o1}).step(Loaded{e1, o2}).step(Started{run1});
  }
  Watched& restart() {
    core_ = std::make_unique<Scheduler>(config_);
    checker.on_restart(now);
    return *this;
  }
  /// All is over.
  void end(bool drained) { checker.on_end(now, drained, *core_); }
  Scheduler::Books books() const { return *core_->books(d1); }
  bool fails() const { return !checker.violation().empty(); }
  const std::string& why() const { return checker.violation(); }

  Time now = {0};
  C checker;

 private:
  static C make(const Config& config) {
    if constexpr (std::is_constructible_v<C, const Config&>) {
      return C(config);
    } else {
      return C();
    }
  }

  const Config config_;
  std::unique_ptr<Scheduler> core_;
};

template <class C>
class EveryChecker : public testing::Test {};
using All = testing::Types<EndsChecker, LedgerChecker, PinsChecker, LimitsChecker, FairnessChecker, IdleChecker,
                           LivenessChecker>;
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

TEST(EndsChecker, SeesThatNobodyWakesTheCore) {
  Watched<EndsChecker> watched;
  Submit late = call(r1);
  late.deadline = Time{0} + Duration::millis(30);
  watched.step(up(d1)).step(late, drop<WakeAt>());
  EXPECT_TRUE(watched.fails());
}

// The ledger.

TEST(LedgerChecker, SeesALoadThatDoesNotFit) {
  Watched<LedgerChecker> watched;
  watched.running().step(Tick{}, add(Load{.executor = e1, .object = ObjectId{3}, .bytes = 7 * kGiB}));
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesWhatIsLoadedTwice) {
  Watched<LedgerChecker> watched;
  watched.running().step(Tick{}, add(Load{.executor = e1, .object = o1, .bytes = 1}));
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesAnExecutorThatIsNotUp) {
  Watched<LedgerChecker> watched;
  watched.step(up(d1)).step(call(r1), add(Load{.executor = e1, .object = o1, .bytes = 1}));
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesARunWithoutItsObjects) {
  Watched<LedgerChecker> watched;
  watched.step(up(d1)).step(call(r1, {{o1, kGiB}}));
  watched.step(ExecutorUp{e1}, add(sched::Run{.run = run1, .request = r1, .executor = e1}));
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesBooksThatAreWrong) {
  Watched<LedgerChecker> dropped;
  dropped.step(up(d1)).step(call(r1, {{o1, kGiB}})).step(ExecutorUp{e1}, drop<Load>());
  EXPECT_TRUE(dropped.fails());
  Watched<LedgerChecker> unheard;
  unheard.running().pretend(Finished{.run = run1});
  EXPECT_TRUE(unheard.fails());
}

TEST(LedgerChecker, SeesPromisesThatCannotBeKept) {
  Watched<LedgerChecker> watched;
  watched.running();
  auto books = watched.books();
  books.promised_bytes = 7 * kGiB;
  watched.checker.compare(watched.now, d1, books);
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesTwoExecutorsOfOneDomain) {
  Watched<LedgerChecker> watched;
  watched.running().step(Tick{},
                         add(StartExecutor{.executor = e9, .device = d1, .domain = DomainId{1}, .own_function = {}}));
  EXPECT_TRUE(watched.fails());
}

// Pins.

TEST(PinsChecker, SeesWhatLeavesUnderARun) {
  Watched<PinsChecker> watched;
  watched.running().step(Tick{}, add(Unload{.executor = e1, .object = o2}));
  EXPECT_TRUE(watched.fails());
}

TEST(PinsChecker, SeesAKillWithoutReason) {
  Watched<PinsChecker> watched;
  watched.running().step(Tick{}, add(KillExecutor{.executor = e1, .because = {}}));
  EXPECT_TRUE(watched.fails());
  Watched<PinsChecker> made_up;
  made_up.running().step(Tick{}, add(KillExecutor{.executor = e1, .because = run1}));
  EXPECT_TRUE(made_up.fails());
}

TEST(PinsChecker, SeesPinsThatAreMissing) {
  Watched<PinsChecker> watched;
  watched.running();
  auto books = watched.books();
  books.entries.back().pins = 0;
  watched.checker.compare(watched.now, d1, books);
  EXPECT_TRUE(watched.fails());
}

TEST(PinsChecker, SeesPinsThatStay) {
  Watched<PinsChecker> watched;
  watched.running();
  auto books = watched.books();
  books.entries.back().pins = 2;
  watched.checker.compare(watched.now, d1, books);
  EXPECT_FALSE(watched.fails());
  watched.checker.compare_all(watched.now, {books}, {});
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
  none.running().step(call(r2), alter<sched::Run>([](sched::Run& run) { run.lane = 2; }));
  EXPECT_TRUE(none.fails());
}

TEST(LimitsChecker, SeesARunTooMany) {
  Watched<LimitsChecker> watched;
  watched.running().step(call(r2)).step(call(r3),
                                        add(sched::Run{.run = run9, .request = r3, .executor = e1, .lane = 1}));
  EXPECT_TRUE(watched.fails());
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
    actions.push_back(sched::Run{.run = run9, .request = r2, .executor = e9, .lane = 1});
  });
  EXPECT_TRUE(watched.fails());
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
  watched.step(Tick{}, add(sched::Run{.run = run2, .request = r2, .executor = e1, .lane = 1}));
  EXPECT_TRUE(watched.fails());
}

TEST(LimitsChecker, SeesARunThatIsNotStopped) {
  Watched<LimitsChecker> watched;
  Submit brief = call(r1);
  brief.device_time = Duration::millis(1);
  watched.step(up(d1)).step(brief).step(ExecutorUp{e1}).step(Started{run1}).step(Tick{}, drop<StopRun>());
  EXPECT_TRUE(watched.fails());
}

// Fairness.

TEST(FairnessChecker, SeesALagBeyondItsBound) {
  FairnessChecker checker{Config{}};
  checker.compare(Time{0}, {}, {.lag = 2, .bound = 1});
  EXPECT_FALSE(checker.violation().empty());
  FairnessChecker other{Config{}};
  other.compare(Time{0}, {{.tenant = t1, .vtime = 0, .is_next = true}, {.tenant = t2, .vtime = 9, .is_next = true}},
                {.lag = 0, .bound = 5});
  EXPECT_FALSE(other.violation().empty());
}

TEST(FairnessChecker, SeesAVirtualTimeThatFalls) {
  FairnessChecker checker{Config{}};
  checker.compare(Time{0}, {{.tenant = t1, .vtime = Duration::millis(9).ns}}, {});
  EXPECT_EQ(checker.violation(), "");
  checker.compare(Time{1}, {{.tenant = t1, .vtime = Duration::millis(7).ns}}, {});
  EXPECT_FALSE(checker.violation().empty());
}

TEST(FairnessChecker, SeesWhoGotMoreThanOthers) {
  FairnessChecker checker{Config{}};
  const std::vector<Scheduler::Standing> standings = {{.tenant = t1, .is_next = true}, {.tenant = t2, .is_next = true}};
  const auto pass = [&](const Event& event, const std::vector<Action>& actions) {
    checker.follow(Time{0}, event, actions);
    checker.compare(Time{0}, standings, {.lag = 0, .bound = Duration::millis(1).ns});
  };
  pass(up(d1), {});
  uint64_t next = 1;
  while (checker.violation().empty() && next < 100) {
    const RequestId request{next};
    const RunId run{next++};
    pass(call(request), {StartExecutor{.executor = e1, .device = d1, .domain = DomainId{1}, .own_function = {}},
                         sched::Run{.run = run, .request = request, .executor = e1}});
    pass(Finished{.run = run, .device_time = Duration::millis(1)}, {Answer{.request = request, .run = run}});
  }
  EXPECT_FALSE(checker.violation().empty());
  EXPECT_LT(next, 20u);
}

// Idle devices.

TEST(IdleChecker, SeesADeviceThatIdles) {
  Config config;
  config.runs_in_flight = 1;
  Watched<IdleChecker> watched(config);
  watched.step(up(d1)).step(call(r1)).step(ExecutorUp{e1}).step(call(r2));
  EXPECT_EQ(watched.why(), "");
  watched.pretend(Finished{.run = run1});
  EXPECT_TRUE(watched.fails());
}

TEST(IdleChecker, SeesADeviceThatComesBackAndIdles) {
  Config config;
  config.runs_in_flight = 1;
  Watched<IdleChecker> watched(config);
  watched.step(up(d1)).step(up(d2)).step(call(r1)).step(call(r2)).step(ExecutorUp{e1}).step(ExecutorUp{e2});
  watched.step(call(r3)).pretend(Finished{.run = run2});
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
