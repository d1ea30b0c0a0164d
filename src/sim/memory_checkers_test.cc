// SPDX-License-Identifier: Apache-2.0
//
// What the checkers of memory see: the ledgers of devices and host, and pins.
#include <gtest/gtest.h>

#include "sim/ledger_checker.h"
#include "sim/pins_checker.h"
#include "sim/test_watched.h"

namespace quern::sim {
namespace {

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
  EXPECT_EQ(watched.why(), "");
  watched.step(ExecutorUp{e1}, [](std::vector<Action>& actions) {
    std::stable_partition(actions.begin(), actions.end(),
                          [](const Action& action) { return std::holds_alternative<sched::Run>(action); });
  });
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesARunBeforeItsLoadsWhereOneStepFollowsTheOther) {
  Config config;
  config.policy.setup = "in-turn";
  Watched<LedgerChecker> watched(config);
  watched.step(up(d1)).step(call(r1, {{o1, kGiB}})).step(ExecutorUp{e1}, [](std::vector<Action>& actions) {
    actions.push_back(sched::Run{.run = run1, .request = r1, .executor = e1, .lane = 0, .lane_bytes = kGiB});
  });
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesARunThatEndsWithoutItsLoads) {
  Watched<LedgerChecker> watched;
  watched.step(up(d1)).step(call(r1, {{o1, kGiB}})).step(ExecutorUp{e1});
  EXPECT_EQ(watched.why(), "");
  watched.step(Finished{.run = run1});
  EXPECT_NE(watched.why().find("the pool, not the core"), std::string::npos) << watched.why();
}

TEST(LedgerChecker, SeesALaneThatIsWrong) {
  for (const uint64_t bytes : {uint64_t{0}, kGiB / 2, 9 * kGiB}) {
    Watched<LedgerChecker> watched;
    watched.step(up(d1)).step(call(r1));
    watched.step(ExecutorUp{e1}, alter<sched::Run>([&](sched::Run& run) { run.lane_bytes = bytes; }));
    EXPECT_TRUE(watched.fails()) << bytes;
  }
  Watched<LedgerChecker> trimmed;
  trimmed.running().step(Tick{}, add(Trim{.executor = e1, .lane = 1}));
  EXPECT_TRUE(trimmed.fails());
}

TEST(LedgerChecker, SeesAHostThatIsPassedBy) {
  Watched<LedgerChecker> watched;
  watched.step(HostUp{4 * kGiB}).step(up(d1)).step(call(r1, {{o1, kGiB}}));
  EXPECT_EQ(watched.why(), "");
  watched.step(ExecutorUp{e1}, add(Load{.executor = e1, .object = o1, .bytes = kGiB}));
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, SeesAFetchThatIsWrong) {
  Watched<LedgerChecker> large;
  large.step(HostUp{kGiB}).step(up(d1)).step(call(r1, {{o1, kGiB}}), alter<Fetch>([](Fetch& f) { ++f.bytes; }));
  EXPECT_TRUE(large.fails());
  Watched<LedgerChecker> twice;
  twice.step(HostUp{4 * kGiB}).step(up(d1)).step(call(r1, {{o1, kGiB}}), add(Fetch{.object = o1, .bytes = kGiB}));
  EXPECT_TRUE(twice.fails());
  Watched<LedgerChecker> dropped;
  dropped.step(HostUp{4 * kGiB}).step(up(d1)).step(call(r1, {{o1, kGiB}}), drop<Fetch>());
  EXPECT_TRUE(dropped.fails());
  Watched<LedgerChecker> none;
  none.step(up(d1)).step(call(r1, {{o1, kGiB}}), add(Fetch{.object = o1, .bytes = kGiB}));
  EXPECT_TRUE(none.fails());
}

TEST(LedgerChecker, SeesWhatIsForgottenUnderAReader) {
  Watched<LedgerChecker> in_place;
  in_place.running_from_host(up_in_place(d1));
  EXPECT_EQ(in_place.why(), "");
  in_place.step(Tick{}, add(Forget{o1}));
  EXPECT_NE(in_place.why().find("reads it in place"), std::string::npos) << in_place.why();
  Watched<LedgerChecker> on_its_way;
  on_its_way.step(HostUp{4 * kGiB}).step(up(d1)).step(call(r1, {{o1, kGiB}})).step(ExecutorUp{e1});
  on_its_way.step(Fetched{o1}, add(Forget{o1}));
  EXPECT_NE(on_its_way.why().find("on its way to e1"), std::string::npos) << on_its_way.why();
  Watched<LedgerChecker> absent;
  absent.running_from_host(up(d1)).step(Tick{}, add(Forget{ObjectId{9}}));
  EXPECT_TRUE(absent.fails());
}

TEST(LedgerChecker, SeesWhatStaysTooLong) {
  Watched<LedgerChecker> watched;
  watched.running().step(Finished{.run = run1});
  EXPECT_EQ(watched.why(), "");
  auto books = watched.books();
  entry_of(books, Scheduler::Entry::Kind::kObject).until = watched.now;
  watched.checker.compare(watched.now, d1, books);
  EXPECT_NE(watched.why().find("is still there"), std::string::npos) << watched.why();
  Config config;
  config.policy.exit = "fixed";
  Watched<LedgerChecker> asleep(config);
  asleep.running().step(Finished{.run = run1}, drop<WakeAt>());
  EXPECT_NE(asleep.why().find("nobody wakes the core"), std::string::npos) << asleep.why();
}

TEST(LedgerChecker, SeesADeviceThatIsNeverBelievedAgain) {
  Config config;
  config.room_back = Duration::millis(5);
  Watched<LedgerChecker> watched(config);
  Submit other = call(r2);
  other.tenant = t2;
  other.domain = DomainId{2};
  watched.step(up(d1)).step(call(r1)).step(other).step(ExecutorUp{e1});
  watched.step(Finished{.run = run1, .failed = true, .no_room = true});
  EXPECT_EQ(watched.books().memory_bytes, 8 * kGiB) << "one domain alone is not believed";
  watched.step(ExecutorUp{e2}).step(Finished{.run = run2, .failed = true, .no_room = true});
  EXPECT_EQ(watched.why(), "");
  const auto books = watched.books();
  EXPECT_LT(books.memory_bytes, 8 * kGiB);
  watched.checker.compare(watched.now + Duration::millis(4), d1, books);
  EXPECT_EQ(watched.why(), "");
  watched.checker.compare(watched.now + Duration::millis(5), d1, books);
  EXPECT_TRUE(watched.fails());
}

TEST(LedgerChecker, RoundsUpWhatIsOnADevice) {
  Config config;
  config.granularity_bytes = 1 << 20;
  Watched<LedgerChecker> watched(config);
  Submit submit = call(r1, {{o1, 5}});
  submit.memory_bytes = 7;
  watched.step(DeviceUp{.device = d1, .memory_bytes = 8 * kGiB, .context_bytes = 9}).step(submit).step(ExecutorUp{e1});
  EXPECT_EQ(watched.why(), "");
  EXPECT_EQ(watched.books().held_bytes, uint64_t{3} << 20);
}

TEST(LedgerChecker, SeesBooksThatAreWrong) {
  Watched<LedgerChecker> dropped;
  dropped.step(up(d1)).step(call(r1, {{o1, kGiB}})).step(ExecutorUp{e1}, drop<Load>());
  EXPECT_TRUE(dropped.fails());
  Watched<LedgerChecker> unheard;
  unheard.running().pretend(ExecutorLost{.executor = e1, .culprit = {}});
  EXPECT_TRUE(unheard.fails());
  for (const auto kind :
       {Scheduler::Entry::Kind::kObject, Scheduler::Entry::Kind::kLane, Scheduler::Entry::Kind::kContext}) {
    Watched<LedgerChecker> wrong;
    wrong.running();
    auto books = wrong.books();
    ++entry_of(books, kind).bytes;
    wrong.checker.compare(wrong.now, d1, books);
    EXPECT_TRUE(wrong.fails()) << static_cast<int>(kind);
    Watched<LedgerChecker> missing;
    missing.running();
    books = missing.books();
    std::erase_if(books.entries, [&](const auto& entry) { return entry.kind == kind; });
    missing.checker.compare(missing.now, d1, books);
    EXPECT_TRUE(missing.fails()) << static_cast<int>(kind);
  }
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
  for (const auto kind :
       {Scheduler::Entry::Kind::kObject, Scheduler::Entry::Kind::kLane, Scheduler::Entry::Kind::kContext}) {
    Watched<PinsChecker> watched;
    watched.running();
    auto books = watched.books();
    entry_of(books, kind).pins = 0;
    watched.checker.compare(watched.now, d1, books);
    EXPECT_TRUE(watched.fails()) << static_cast<int>(kind);
  }
}

TEST(PinsChecker, SeesALaneThatIsTrimmedUnderARun) {
  Watched<PinsChecker> watched;
  watched.running().step(Tick{}, add(Trim{.executor = e1, .lane = 0}));
  EXPECT_TRUE(watched.fails());
}

TEST(PinsChecker, SeesWhatIsKeptLeave) {
  const auto leaves = [](const Keep& keep, const Action& action) {
    Watched<PinsChecker> watched;
    watched.running().step(keep).step(Finished{.run = run1});
    EXPECT_EQ(watched.why(), "");
    watched.step(Tick{}, add(action));
    return watched.fails();
  };
  const Unload unload{.executor = e1, .object = o1};
  const KillExecutor kill{.executor = e1, .because = {}};
  EXPECT_TRUE(leaves(keep_hot(Time::never()), unload));
  EXPECT_TRUE(leaves(keep_hot(Time::never()), kill));
  EXPECT_FALSE(leaves(keep_hot(Time{Duration::millis(9).ns}), unload));  // its time is over by then
  Keep context = keep_hot(Time::never());
  context.stage = Stage::kContext;
  EXPECT_FALSE(leaves(context, unload));
  EXPECT_TRUE(leaves(context, kill));
}

TEST(PinsChecker, LetsAStuckExecutorTakeAlongWhatIsKept) {
  const auto leaves = [](Duration after_stop) {
    Watched<PinsChecker> watched;
    watched.running().step(keep_hot(Time::never())).step(Finished{.run = run1});
    watched.step(call(r2, {{o1, kGiB}, {o2, kGiB}})).step(Started{run2}).step(Cancel{r2});
    EXPECT_EQ(watched.why(), "");
    watched.now = watched.now + after_stop;
    watched.pretend(Tick{}, {KillExecutor{.executor = e1, .because = {}}});
    return watched.fails();
  };
  EXPECT_TRUE(leaves(Duration{0}));
  EXPECT_FALSE(leaves(Config{}.prepare_grace));
}

TEST(PinsChecker, KnowsThatTheLongerLeaseHolds) {
  const auto leaves = [](Time first, Time second) {
    Watched<PinsChecker> watched;
    watched.running().step(keep_hot(first)).step(keep_hot(second)).step(Finished{.run = run1});
    EXPECT_EQ(watched.why(), "");
    watched.step(Tick{}, add(Unload{.executor = e1, .object = o1}));
    return watched.fails();
  };
  const Time soon{Duration::millis(9).ns}, late{Duration::seconds(9).ns};
  EXPECT_FALSE(leaves(soon, soon));
  EXPECT_TRUE(leaves(Time::never(), soon));
  EXPECT_TRUE(leaves(late, soon));
  EXPECT_TRUE(leaves(soon, late));
}

TEST(PinsChecker, SeesPinsThatStay) {
  Watched<PinsChecker> watched;
  watched.running();
  auto books = watched.books();
  entry_of(books, Scheduler::Entry::Kind::kObject).pins = 2;
  watched.checker.compare(watched.now, d1, books);
  EXPECT_FALSE(watched.fails());
  watched.checker.compare_all(watched.now, {books}, {});
  EXPECT_TRUE(watched.fails());
}

}  // namespace
}  // namespace quern::sim
