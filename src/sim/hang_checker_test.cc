// SPDX-License-Identifier: Apache-2.0
#include "sim/hang_checker.h"

#include <gtest/gtest.h>

#include "sim/test_watched.h"

namespace quern::sim {
namespace {

TEST(HangChecker, SeesAHangThatIsNotFoundInTime) {
  Config config;
  config.stop_grace = Duration::millis(2);
  Submit brief = call(r1);
  brief.device_time = Duration::millis(3);
  const auto hung = [&](Watched<HangChecker>& watched) {
    watched.step(up(d1)).step(brief).step(ExecutorUp{e1}).step(Started{run1});
    watched.checker.on_hang(watched.now, run1);
    watched.wait(4);
    EXPECT_EQ(watched.why(), "");
  };
  Watched<HangChecker> late(config);
  hung(late);
  late.wait(2);
  EXPECT_TRUE(late.fails());
  Watched<HangChecker> found(config);
  hung(found);
  found.wait(1, add(KillExecutor{.executor = e1, .because = run1})).wait(5);
  EXPECT_EQ(found.why(), "");
}

TEST(HangChecker, SeesThatAnotherIsBlamed) {
  const auto hung = [&](Watched<HangChecker>& watched) {
    watched.step(up(d1)).step(call(r1)).step(ExecutorUp{e1}).step(call(r2)).step(Started{run1}).step(Started{run2});
    watched.checker.on_hang(watched.now, run2);
  };
  Watched<HangChecker> killed;
  hung(killed);
  killed.wait(1, add(KillExecutor{.executor = e1, .because = run1}));
  EXPECT_TRUE(killed.fails());
  Watched<HangChecker> answered;
  hung(answered);
  answered.wait(1, add(Answer{.request = r1, .end = End::kDeadlineRunning, .run = run1, .retry_after = {0}}));
  EXPECT_TRUE(answered.fails());
}

TEST(HangChecker, LetsARunOnAnotherPartBeBlamedForItself) {
  const auto fails = [](uint32_t units_of_hung) {
    Watched<HangChecker> watched;
    DeviceUp device = up(d1);
    device.units = 4;
    Submit hangs = call(r1), overdue = call(r2);
    hangs.quota = {.request = 100, .limit = 1000, .units = units_of_hung};
    overdue.function = FunctionId{8};
    overdue.quota = {.request = 100, .limit = 1000, .units = 500};
    watched.step(device).step(hangs).step(ExecutorUp{e1}).step(overdue).step(Started{run1}).step(Started{run2});
    watched.checker.on_hang(watched.now, run1);
    EXPECT_EQ(watched.why(), "");
    watched.wait(1, add(KillExecutor{.executor = e1, .because = run2}));
    return watched.fails();
  };
  EXPECT_TRUE(fails(1000));
  EXPECT_FALSE(fails(500));
}

TEST(HangChecker, SeesThatWhoIsBehindIsToldToStop) {
  Submit brief = call(r2);
  brief.device_time = Duration::millis(3);
  const auto behind = [&](bool shares_time) {
    Watched<HangChecker> watched;
    DeviceUp device = up(d1);
    device.shares_time = shares_time;
    watched.step(device).step(call(r1)).step(ExecutorUp{e1}).step(brief).step(Started{run1}).step(Started{run2});
    watched.checker.on_hang(watched.now, run1);
    const Time since = watched.now + Duration::millis(1);
    watched.wait(2).step(Flight{d1, {{run1, 1, {0}, {0}}, {run2, 2, since, {0}}}});
    watched.wait(1, add(StopRun{run2}));
    return watched.fails();
  };
  EXPECT_TRUE(behind(false));
  EXPECT_TRUE(behind(true));
}

// The launch of the neighbour was made after the one that hangs, and before that began to hang; in another executor.
TEST(HangChecker, SeesThatWhoIsBehindInAnotherExecutorIsBlamed) {
  const auto blamed = [&](bool shares_time, Action action) {
    Watched<HangChecker> watched;
    DeviceUp device = up(d1);
    device.shares_time = shares_time;
    Submit other = urgent(r2);
    other.domain = DomainId{2};
    other.device_time = Duration::millis(3);
    watched.step(device).step(call(r1)).step(ExecutorUp{e1}).step(Started{run1});
    watched.step(other).step(ExecutorUp{e2}).step(Started{run2});
    const Time first = watched.now;
    watched.wait(1);
    watched.step(Flight{d1, {{run1, 1, first, {0}}, {run2, 2, watched.now, {0}}}});
    watched.checker.on_hang(watched.now, run1);
    watched.wait(1, add(std::move(action)));
    return watched.fails();
  };
  // A device that divides its time executes launches of two executors side by side.
  for (const Action& action : {Action(StopRun{run2}), Action(KillExecutor{.executor = e2, .because = run2})}) {
    EXPECT_TRUE(blamed(false, action));
    EXPECT_FALSE(blamed(true, action));
  }
}

}  // namespace
}  // namespace quern::sim
