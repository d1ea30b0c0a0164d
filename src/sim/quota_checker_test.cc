// SPDX-License-Identifier: Apache-2.0
//
// What the checker of quotas sees.
#include "sim/quota_checker.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "sim/test_watched.h"

namespace quern::sim {
namespace {

constexpr LauncherId first_lane = lane_of(e1, 0), second_lane = lane_of(e1, 1);

Submit call_of(uint64_t function, const Quota& quota, uint64_t request = 0) {
  Submit submit = call(RequestId{request ? request : function});
  submit.function = FunctionId{function};
  submit.quota = quota;
  return submit;
}
DeviceUp up_with(uint32_t units) {
  DeviceUp event = up(d1);
  event.units = units;
  return event;
}
Change alter_grant(std::function<void(Grant&)> how) { return alter<Grant>(std::move(how)); }
Change alter_grant(LauncherId id, std::function<void(Grant&)> how) {
  return alter<Grant>([id, how](Grant& grant) {
    if (grant.launcher == id) how(grant);
  });
}

constexpr Quota kFifth{.request = 0, .limit = 200, .units = 1000};
constexpr Quota kHalfOfUnits{.request = 0, .limit = 1000, .units = 500};

/// A run that may have 20 of every 100 ms is on the device.
Watched<QuotaChecker>& one_runs(Watched<QuotaChecker>& watched, const Change& how = nullptr) {
  watched.step(up(d1)).step(call_of(1, kFifth)).step(ExecutorUp{e1}, how).step(Started{run1}, how);
  return watched;
}
/// Two that use half of the units each, and one that wants all of them.
Watched<QuotaChecker>& three_run(Watched<QuotaChecker>& watched, const Change& how = nullptr) {
  watched.step(up_with(2)).step(call_of(1, kHalfOfUnits)).step(call_of(2, kHalfOfUnits)).step(call_of(3, {}));
  watched.step(ExecutorUp{e1}, how).step(Started{run1}, how).step(Started{run2}, how).step(Started{RunId{3}}, how);
  return watched;
}

TEST(QuotaChecker, SeesWhoIsOpenAfterItsLimit) {
  Watched<QuotaChecker> watched;
  one_runs(watched).step(DeviceUsed{first_lane, Duration::millis(15)});
  EXPECT_EQ(watched.why(), "");
  watched.step(DeviceUsed{first_lane, Duration::millis(6)}, drop<Grant>());
  EXPECT_NE(watched.why().find("had its limit of d1 and 1000000ns more, and is open"), std::string::npos)
      << watched.why();
  // What it had too much it has to pay back.
  Watched<QuotaChecker> next;
  one_runs(next).step(DeviceUsed{first_lane, Duration::millis(45)}).wait(95);
  EXPECT_EQ(next.why(), "");
  next.wait(1, add_first(Grant{.launcher = first_lane, .open = true, .meters = true, .until = next.now}));
  EXPECT_TRUE(next.fails());
}

TEST(QuotaChecker, SeesAGrantThatIsTooLong) {
  Watched<QuotaChecker> watched;
  one_runs(watched, alter_grant([](Grant& grant) { grant.until = grant.until + Duration::micros(100); }));
  EXPECT_NE(watched.why().find("and is open until"), std::string::npos) << watched.why();
  Watched<QuotaChecker> endless;
  one_runs(endless, alter_grant([](Grant& grant) { grant.until = Time::never(); }));
  EXPECT_TRUE(endless.fails());
}

TEST(QuotaChecker, SeesWhoIsClosedForNothing) {
  Watched<QuotaChecker> watched;
  one_runs(watched).wait(1, add_first(Grant{.launcher = first_lane, .meters = true, .why = Grant::Why::kQuota}));
  EXPECT_NE(watched.why().find("is closed for its quota, and has 20000000ns left"), std::string::npos) << watched.why();
  // The next window gives it something.
  Watched<QuotaChecker> waits;
  one_runs(waits).step(DeviceUsed{first_lane, Duration::millis(21)}).wait(94, drop<Grant>());
  EXPECT_EQ(waits.why(), "");
  waits.wait(3, drop<Grant>());
  EXPECT_TRUE(waits.fails());
}

TEST(QuotaChecker, SeesWhoIsNotAskedAndWhoIsNotWoken) {
  Watched<QuotaChecker> watched;
  one_runs(watched, alter_grant([](Grant& grant) { grant.meters = false; }));
  EXPECT_NE(watched.why().find("is not asked what it used"), std::string::npos) << watched.why();
  Watched<QuotaChecker> asleep;
  one_runs(asleep).step(Tick{}).step(DeviceUsed{first_lane, Duration::millis(21)}, drop<WakeAt>());
  EXPECT_NE(asleep.why().find("nobody wakes the core for the next window"), std::string::npos) << asleep.why();
}

TEST(QuotaChecker, SeesWhatIsMoreThanWasInFlight) {
  Watched<QuotaChecker> watched;
  one_runs(watched);
  for (int i = 0; i < 3 && !watched.fails(); ++i) watched.step(DeviceUsed{first_lane, Duration::millis(20)});
  EXPECT_EQ(watched.why(), "");  // it may be a kernel that cannot be cut, and another was launched before
  for (int i = 0; i < 3 && !watched.fails(); ++i) watched.step(DeviceUsed{first_lane, Duration::millis(20)});
  EXPECT_NE(watched.why().find("more of d1 than its limit"), std::string::npos) << watched.why();
  // Where less is allowed than it had already, that is nobody's fault.
  Watched<QuotaChecker> less;
  less.step(up(d1)).step(call_of(1, Quota{.request = 0, .limit = 900, .units = 1000})).step(ExecutorUp{e1});
  less.step(Started{run1});
  for (int i = 0; i < 40; ++i) less.step(DeviceUsed{first_lane, Duration::millis(2)});
  less.step(call_of(1, Quota{.request = 0, .limit = 10, .units = 1000}, 2))
      .step(DeviceUsed{first_lane, Duration::millis(2)});
  EXPECT_EQ(less.why(), "");
}

TEST(QuotaChecker, SeesUnitsGivenTwice) {
  Watched<QuotaChecker> watched;
  three_run(watched);
  EXPECT_EQ(watched.why(), "");
  Watched<QuotaChecker> twice;
  three_run(twice, alter_grant([](Grant& grant) { grant.open = true; }));
  EXPECT_NE(twice.why().find("units of d1 are given away, which has 2"), std::string::npos) << twice.why();
}

TEST(QuotaChecker, SeesUnitsThatNobodyHas) {
  Watched<QuotaChecker> watched;
  const Change closed = alter_grant(second_lane, [](Grant& grant) {
    grant = Grant{.launcher = grant.launcher, .tells = true, .meters = true, .why = Grant::Why::kUnits};
  });
  three_run(watched, closed);
  EXPECT_NE(watched.why().find("waits for 1 units of d1, and 1 of 2 are taken"), std::string::npos) << watched.why();
}

TEST(QuotaChecker, SeesWhoNeverHasUnits) {
  Watched<QuotaChecker> watched;
  three_run(watched);
  watched.wait(100);
  EXPECT_EQ(watched.why(), "");
  Watched<QuotaChecker> never;
  three_run(never);
  never.wait(70, drop<Grant>());
  EXPECT_NE(never.why().find("waits for 2 units of d1 for"), std::string::npos) << never.why();
}

TEST(QuotaChecker, SeesARunWithOtherUnits) {
  Watched<QuotaChecker> watched;
  three_run(watched, alter<sched::Run>([](sched::Run& run) { run.units = 0; }));
  EXPECT_NE(watched.why().find("has 0 units of d1, and its quota says 1"), std::string::npos) << watched.why();
  // Three quarters of four are two, where parts are halves of halves; and no part begins at 1 but one of 1.
  const auto why = [](const Change& change) {
    Watched<QuotaChecker> parts;
    DeviceUp device = up(d1);
    device.units = {4, true};
    parts.step(device).step(call_of(1, Quota{.request = 0, .limit = 1000, .units = 750}));
    parts.step(ExecutorUp{e1}, change);
    return parts.why();
  };
  EXPECT_EQ(why(nullptr), "");
  EXPECT_NE(why(alter<sched::Run>([](sched::Run& run) { run.units = 3; })).find("its quota says 2"), std::string::npos);
  EXPECT_NE(why(alter<sched::Run>([](sched::Run& run) { run.first_unit = 1; })).find("there is no such part"),
            std::string::npos);
}

TEST(QuotaChecker, SeesARunThatIsNotAtHome) {
  const Quota third{.request = 300, .limit = 1000, .units = 1000};
  Watched<QuotaChecker> watched;
  watched.step(up(d1)).step(call_of(1, third)).step(up(d2)).step(call_of(1, third, 2));
  EXPECT_EQ(watched.why(), "");
  Watched<QuotaChecker> elsewhere;
  elsewhere.step(up(d1)).step(call_of(1, third)).step(up(d2));
  elsewhere.step(call_of(1, third, 2), [](std::vector<Action>& actions) {
    actions.push_back(StartExecutor{.executor = e9, .device = d2, .domain = DomainId{1}, .own_function = {}});
    actions.push_back(Prepare{.run = run9, .request = RequestId{2}, .executor = e9});
  });
  EXPECT_NE(elsewhere.why().find("run9 of f1 is on d2, and that is at home on d1"), std::string::npos)
      << elsewhere.why();
}

TEST(QuotaChecker, SeesWhoIsLetInWithoutAShare) {
  const Quota most{.request = 800, .limit = 1000, .units = 1000};
  Watched<QuotaChecker> watched;
  watched.step(up(d1)).step(call_of(1, most)).step(call_of(2, most));
  EXPECT_EQ(watched.why(), "");
  Watched<QuotaChecker> let_in;
  let_in.step(up(d1)).step(call_of(1, most)).step(call_of(2, most), drop<Answer>());
  EXPECT_NE(let_in.why().find("r2 is let in, and f2 does not have what it is to have"), std::string::npos)
      << let_in.why();
}

}  // namespace
}  // namespace quern::sim
