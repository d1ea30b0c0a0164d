// SPDX-License-Identifier: Apache-2.0
//
// What the checker of gates sees.
#include "sim/gate_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "sim/test_watched.h"

namespace quern::sim {
namespace {

constexpr LauncherId lane = lane_of(e1, 0);  // of run1

Config with(const char* dispatch) {
  Config config;
  config.policy.dispatch = dispatch;
  return config;
}

/// A run of level 5 is on the device; what comes next is told of an urgent one beside it.
Watched<GateChecker>& one_runs(Watched<GateChecker>& watched) {
  watched.step(up(d1)).step(call(r1)).step(ExecutorUp{e1}).step(Started{run1});
  EXPECT_EQ(watched.why(), "");
  return watched;
}
/// The same with the urgent one on the device, and the first closed.
Watched<GateChecker>& one_waits(Watched<GateChecker>& watched) {
  one_runs(watched).step(urgent(r2)).step(Started{run2});
  EXPECT_EQ(watched.why(), "");
  return watched;
}
Change change(std::function<void(Grant&)> how) { return alter<Grant>(std::move(how)); }

TEST(GateChecker, SeesWhoIsLetThroughBesideAMoreUrgentRun) {
  Watched<GateChecker> watched;
  one_runs(watched).step(urgent(r2), drop<Grant>());
  EXPECT_NE(watched.why().find("beside a run that is more urgent"), std::string::npos) << watched.why();
  Watched<GateChecker> again;
  Grant open{.launcher = lane, .open = true, .tells = true, .depth = Duration::micros(1)};
  one_waits(again).wait(1, add_first(open));
  EXPECT_TRUE(again.fails());
}

TEST(GateChecker, OneThatGivesWayByItselfMayGoOn) {
  Config config;
  config.best_effort = 5;
  const auto beside_urgent = [&](const Change& change) {
    Watched<GateChecker> watched(config);
    Submit other = call(r2), urgent_one = urgent(r3);
    other.priority = 6;
    other.domain = DomainId{2};
    urgent_one.domain = DomainId{3};
    one_runs(watched).step(other).step(ExecutorUp{e2}).step(urgent_one).step(ExecutorUp{ExecutorId{3}}, change);
    return watched.why();
  };
  EXPECT_EQ(beside_urgent(nullptr), "");
  const auto both = beside_urgent([](std::vector<Action>& actions) {
    drop<Grant>()(actions);
    actions.insert(actions.begin(), Grant{.launcher = lane_of(e2, 0), .open = true, .depth = Duration::micros(1)});
  });
  EXPECT_NE(both.find("beside another that gives way by itself"), std::string::npos) << both;
  config.best_effort = 9;
  EXPECT_NE(beside_urgent(drop<Grant>()), "");
}

TEST(GateChecker, WhereADeviceHasNoClassesNobodyGivesWay) {
  Config config;
  config.best_effort = 5;
  for (const bool classes : {true, false}) {
    DeviceUp device = up(d1);
    device.classes = classes;
    Submit other = call(r1), urgent_one = urgent(r2);
    other.priority = 6;
    urgent_one.domain = DomainId{2};
    Watched<GateChecker> watched(config);
    watched.step(device).step(other).step(ExecutorUp{e1}).step(urgent_one).step(ExecutorUp{e2});
    EXPECT_EQ(watched.why(), "") << "the core knows";
    // Were it let go on, that would be right with classes only.
    watched.wait(1, [](std::vector<Action>& actions) {
      drop<Grant>()(actions);
      actions.insert(actions.begin(), Grant{.launcher = lane_of(e1, 0), .open = true, .depth = Duration::micros(1)});
    });
    EXPECT_EQ(watched.why() == "", classes) << watched.why();
  }
}

TEST(GateChecker, SeesAProgramThatIsLetThroughBesideAMoreUrgentRun) {
  Watched<GateChecker> watched;
  one_runs(watched).step(LauncherUp{p1, d1, FunctionId{99}, 7, {}});
  EXPECT_EQ(watched.why(), "");
  watched.step(WorkReady{p1, {{0, Duration::millis(1), true}}, false});
  EXPECT_EQ(watched.why(), "");
  watched.wait(1, add_first(Grant{.launcher = p1, .open = true, .depth = Duration::micros(1)}));
  EXPECT_TRUE(watched.fails());
}

TEST(GateChecker, LetsWhoWaitsHaveATurn) {
  Watched<GateChecker> watched;
  one_waits(watched);
  bool had_turn = false;
  watched.wait(250, change([&](Grant& grant) { had_turn |= grant.launcher == lane && grant.open; }));
  EXPECT_TRUE(had_turn);
  EXPECT_EQ(watched.why(), "");
}

TEST(GateChecker, SeesATurnThatIsTooLong) {
  Watched<GateChecker> watched;
  one_waits(watched);
  watched.wait(250, change([](Grant& grant) { grant.until = grant.until + Duration::millis(9); }));
  EXPECT_NE(watched.why().find("has a turn until"), std::string::npos) << watched.why();
  // Without an end it is for the core to end it.
  Watched<GateChecker> endless;
  one_waits(endless).wait(250, [](std::vector<Action>& actions) {
    const auto is_closed = [](const Action& action) {
      const auto* grant = std::get_if<Grant>(&action);
      return grant && !grant->open;
    };
    std::erase_if(actions, is_closed);
    change([](Grant& grant) { grant.until = Time::never(); })(actions);
  });
  EXPECT_NE(endless.why().find("beside a run that is more urgent"), std::string::npos) << endless.why();
}

TEST(GateChecker, SeesWhoNeverHasATurn) {
  Watched<GateChecker> watched;
  one_waits(watched);
  watched.wait(140, drop<Grant>());
  EXPECT_EQ(watched.why(), "");
  watched.wait(30, drop<Grant>());
  EXPECT_NE(watched.why().find("has work, and was closed for"), std::string::npos) << watched.why();
  Config config;
  config.least_share = 0;
  Watched<GateChecker> none(config);
  one_waits(none).wait(300);
  EXPECT_EQ(none.why(), "");
}

TEST(GateChecker, SeesWhoIsClosedBehindItsRequest) {
  const auto asks_and_waits = [](Watched<GateChecker>& watched) -> Watched<GateChecker>& {
    Submit asks = call(r1);
    asks.quota = {.request = 300, .limit = 1000, .units = 1000};
    watched.step(up(d1)).step(asks).step(ExecutorUp{e1}).step(Started{run1}).step(urgent(r2)).step(Started{run2});
    EXPECT_EQ(watched.why(), "");
    return watched;
  };
  Watched<GateChecker> watched;
  asks_and_waits(watched).wait(20);
  EXPECT_EQ(watched.why(), "");
  Watched<GateChecker> closed;
  bool closes = true;
  asks_and_waits(closed).wait(20, [&](std::vector<Action>& actions) {
    drop<Grant>()(actions);
    const Grant close{.launcher = lane, .tells = true, .meters = true, .why = Grant::Why::kUrgent};
    if (std::exchange(closes, false)) actions.insert(actions.begin(), close);
  });
  EXPECT_NE(closed.why().find("behind its request, and is closed"), std::string::npos) << closed.why();
}

TEST(GateChecker, SeesWhoIsClosedForNothing) {
  Watched<GateChecker> watched(with("strict"));
  one_waits(watched).step(Finished{.run = run2}, drop<Grant>());
  EXPECT_NE(watched.why().find("not let through for good"), std::string::npos) << watched.why();
  // Where gaps are filled, whoever has just ended may be back; but not for ever.
  Watched<GateChecker> filling;
  one_waits(filling).step(Finished{.run = run2}, drop<Grant>());
  filling.wait(50, drop<Grant>());
  EXPECT_EQ(filling.why(), "");
  filling.wait(1, drop<Grant>());
  EXPECT_TRUE(filling.fails());
}

TEST(GateChecker, SeesGrantsThatMakeNoSense) {
  const auto fails = [](const Change& how) {
    Watched<GateChecker> watched;
    one_runs(watched).step(urgent(r2), how);
    return watched.fails();
  };
  EXPECT_FALSE(fails(nullptr));
  EXPECT_TRUE(fails(change([](Grant& grant) { grant.depth = {0}; })));
  EXPECT_TRUE(fails(change([](Grant& grant) { grant.launches = 0; })));
  EXPECT_TRUE(fails(change([](Grant& grant) { grant.depth = Duration::millis(3); })));
  EXPECT_TRUE(fails(change([](Grant& grant) { grant.until = {1}; })));
  EXPECT_TRUE(fails(change([](Grant& grant) { grant.launcher = p9; })));
  EXPECT_TRUE(fails(change([](Grant& grant) { grant.launcher = lane_of(e9, 0); })));
  EXPECT_TRUE(fails(change([](Grant& grant) { grant.launcher = lane_of(e1, 3); })));
  EXPECT_TRUE(fails([](std::vector<Action>& actions) { std::reverse(actions.begin(), actions.end()); }));
  Watched<GateChecker> twice;
  Grant closed;
  one_runs(twice).step(urgent(r2), change([&](Grant& grant) {
                         if (!grant.open) closed = grant;
                       }));
  EXPECT_EQ(twice.why(), "");
  twice.wait(1, add_first(closed));
  EXPECT_NE(twice.why().find("what it was told before"), std::string::npos) << twice.why();
}

TEST(GateChecker, SeesAGateThatIsClosedWhereNoneIs) {
  Watched<GateChecker> watched(with("none"));
  one_waits(watched).step(LauncherUp{p1, d1, FunctionId{99}, 7, {}});
  EXPECT_EQ(watched.why(), "");
  watched.wait(1, add_first(Grant{.launcher = lane}));
  EXPECT_NE(watched.why().find("nothing ever is"), std::string::npos) << watched.why();
}

}  // namespace
}  // namespace quern::sim
