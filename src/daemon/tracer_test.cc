// SPDX-License-Identifier: Apache-2.0
#include "daemon/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kDevice = 1;
constexpr sched::LauncherId kUrgentLane = sched::lane_of({7}, 0), kLane = sched::lane_of({7}, 1),
                            kProgram = sched::program_of(3);
constexpr sched::LevelNo kUrgent = sched::level_of(0), kUsual = sched::level_of(5), kLast = sched::level_of(9);

constexpr Time at(int64_t us) { return {1'000'000'000 + us * 1'000}; }

class TracerTest : public testing::Test {
 protected:
  void begin(Tracer& tracer) { tracer.begin("alice", {{kDevice, "cpu0"}}, at(0)); }
  void began(Tracer& tracer, sched::LauncherId lane, uint64_t run, std::string_view name, sched::LevelNo level,
             Time when, std::string_view tenant = "alice") {
    const std::string request = "r-" + std::to_string(run);
    tracer.run_began(lane, kDevice, {run, std::hash<std::string_view>()(name), name, tenant, request, level, when});
  }
  void launched(Tracer& tracer, uint64_t run, uint64_t first, uint64_t parts, uint64_t of, int64_t from_us,
                int64_t to_us) {
    const ipc::Traced traced{run, {{0, first, parts, of, at(from_us).ns, at(to_us).ns}}};
    tracer.launched(run, traced, at(1'000'000), [](uint32_t launch) { return launch == 0 ? "grind" : ""; });
  }
  static sched::Grant grant(bool open, sched::Grant::Why why = sched::Grant::Why::kOpen) {
    sched::Grant grant;
    grant.open = open;
    grant.why = why;
    return grant;
  }
  static Trace end(Tracer& tracer, Time when) {
    Trace trace = tracer.end(when);
    complete(trace);
    return trace;
  }
};

TEST_F(TracerTest, OffItAsksForNothing) {
  Tracer tracer;
  ipc::Grant grant;
  grant.open = true;
  EXPECT_FALSE(tracer.is_on());
  EXPECT_EQ(tracer.marked(grant), grant);
  begin(tracer);
  EXPECT_TRUE(tracer.is_on());
  EXPECT_TRUE(tracer.marked(grant).traces);
  EXPECT_TRUE(tracer.marked(grant).open);
  tracer.pause(at(100));
  EXPECT_TRUE(tracer.is_on()) << "what is on its way is still taken";
  EXPECT_FALSE(tracer.marked(grant).traces);
  end(tracer, at(200));
  EXPECT_FALSE(tracer.is_on());
  ipc::Grant marked = grant;
  marked.traces = true;
  EXPECT_EQ(tracer.marked(marked), grant) << "a grant that was marked is written again without";
}

TEST_F(TracerTest, ARunAndItsSlices) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kLane, 1, "slow", kLast, at(-50));
  launched(tracer, 1, 0, 40, 100, -20, -10);  // before anybody looked
  launched(tracer, 1, 40, 40, 100, 10, 30);
  launched(tracer, 1, 80, 20, 100, 30, 45);
  tracer.run_ended(1, at(60));
  launched(tracer, 1, 0, 1, 1, 61, 62);  // it is over
  const Trace trace = end(tracer, at(100));
  EXPECT_EQ(trace.from, at(0));
  EXPECT_EQ(trace.to, at(100));
  ASSERT_THAT(trace.runs, SizeIs(1));
  const Trace::Run& run = trace.runs[0];
  EXPECT_EQ(trace.names[run.name], "slow");
  EXPECT_EQ(run.request, "r-1");
  EXPECT_EQ(run.priority, 9);
  EXPECT_TRUE(run.began_before);
  EXPECT_TRUE(run.is_over);
  EXPECT_EQ(run.from, at(0));
  EXPECT_EQ(run.to, at(60));
  ASSERT_THAT(trace.launchers, SizeIs(1));
  EXPECT_EQ(trace.launchers[0].executor, 7u);
  EXPECT_EQ(trace.launchers[0].lane, 1u);
  ASSERT_THAT(trace.launches, SizeIs(2));
  EXPECT_EQ(trace.names[trace.launches[0].name], "grind");
  EXPECT_EQ(trace.launches[0].first, 40u);
  EXPECT_EQ(trace.launches[0].of, 100u);
  EXPECT_EQ(trace.launches[1].to, at(45));
  EXPECT_EQ(trace.dropped, 0u);
}

TEST_F(TracerTest, WhatALauncherTellsIsCutToWhatCanBeTrue) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kLane, 1, "slow", kLast, at(10));
  const ipc::Traced traced{1,
                           {{0, 0, 1, 1, at(5).ns, at(20).ns},         // before its run
                            {0, 0, 1, 1, at(30).ns, at(20).ns},        // backwards
                            {0, 0, 1, 1, at(90).ns, at(95).ns},        // in the future
                            {9, 0, 1, 1, at(20).ns, at(25).ns},        // of no launch
                            {0, 0, 1, 1, at(30).ns, INT64_MAX},        // for ever
                            {0, 0, 1, 1, INT64_MIN, INT64_MIN + 1}}};  // long ago
  tracer.launched(1, traced, at(50), [](uint32_t launch) { return launch == 0 ? "grind" : ""; });
  const Trace trace = end(tracer, at(60));
  ASSERT_THAT(trace.launches, SizeIs(2));
  EXPECT_EQ(trace.launches[0].from, at(10));
  EXPECT_EQ(trace.launches[0].to, at(20));
  EXPECT_EQ(trace.launches[1].to, at(50));
}

TEST_F(TracerTest, OthersHaveNoNames) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kLane, 1, "secret", kUsual, at(10), "bob");
  launched(tracer, 1, 3, 4, 50, 20, 30);
  tracer.program_up(kProgram, kDevice, "hidden", "bob", kUsual);
  tracer.load_began(7, kDevice, 44, "0123456789ab", "bob", 4096, at(10));
  const Trace trace = end(tracer, at(100));
  EXPECT_THAT(trace.names, testing::ElementsAre("", "another tenant"));
  EXPECT_EQ(trace.names[trace.runs.at(0).name], Trace::kOther);
  EXPECT_EQ(trace.runs.at(0).request, "");
  EXPECT_EQ(trace.names[trace.launches.at(0).name], Trace::kOther);
  EXPECT_EQ(trace.launches.at(0).of, 1u);
  EXPECT_EQ(trace.launches.at(0).from, at(20)) << "but they have their time";
  EXPECT_EQ(trace.names[trace.launchers.at(1).name], Trace::kOther);
  EXPECT_EQ(trace.loads.at(0).bytes, 0u);
}

TEST_F(TracerTest, AGateIsClosedForAReasonUntilTheNextGrant) {
  Tracer tracer;
  begin(tracer);
  tracer.stood(kLane, kDevice, true);
  tracer.granted(kLane, kDevice, grant(false, sched::Grant::Why::kUrgent), at(10));
  began(tracer, kLane, 1, "slow", kLast, at(15));
  sched::Grant opened = grant(true);
  opened.until = at(90);
  opened.slice = Duration::micros(20);
  tracer.granted(kLane, kDevice, opened, at(40));
  const Trace trace = end(tracer, at(100));
  ASSERT_THAT(trace.gates, SizeIs(3));
  EXPECT_TRUE(trace.gates[0].open);
  EXPECT_EQ(trace.gates[0].to, at(10));
  EXPECT_FALSE(trace.gates[1].open);
  EXPECT_EQ(trace.gates[1].why, "urgent");
  EXPECT_EQ(trace.gates[1].to, at(40));
  EXPECT_EQ(trace.gates[1].run, 0u) << "it was closed for the run that came";
  EXPECT_EQ(trace.gates[2].why, "");
  EXPECT_EQ(trace.gates[2].until, at(90));
  EXPECT_EQ(trace.gates[2].to, at(100));
  EXPECT_FALSE(trace.gates[2].fills) << "nobody paused";
}

TEST_F(TracerTest, TheGapBetweenTwoRunsAndWhoFilledIt) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kLane, 1, "slow", kLast, at(0));
  began(tracer, kUrgentLane, 2, "quick", kUrgent, at(10));
  tracer.granted(kLane, kDevice, grant(false, sched::Grant::Why::kUrgent), at(10));
  launched(tracer, 2, 0, 1, 1, 10, 20);
  tracer.run_ended(2, at(20));
  tracer.granted(kLane, kDevice, grant(true), at(21));
  launched(tracer, 1, 0, 10, 100, 22, 40);
  launched(tracer, 1, 10, 10, 100, 40, 70);  // half of it is in the gap
  began(tracer, kUrgentLane, 3, "quick", kUrgent, at(55));
  tracer.run_ended(3, at(60));
  const Trace trace = end(tracer, at(100));
  ASSERT_THAT(trace.gaps, SizeIs(1));
  const Trace::Gap& gap = trace.gaps[0];
  EXPECT_EQ(trace.names[gap.name], "quick");
  EXPECT_EQ(gap.launcher, Trace::kNone);
  EXPECT_EQ(gap.from, at(20));
  EXPECT_EQ(gap.to, at(55));
  ASSERT_THAT(gap.fillers, SizeIs(1));
  EXPECT_EQ(trace.names[gap.fillers[0].name], "slow");
  EXPECT_EQ(gap.fillers[0].time, Duration::micros(18 + 15));
  ASSERT_THAT(trace.gates, SizeIs(2));
  EXPECT_FALSE(trace.gates[0].fills);
  EXPECT_TRUE(trace.gates[1].fills);
}

TEST_F(TracerTest, AGateThatIsOpenedAheadFillsTheGapToCome) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kLane, 1, "slow", kLast, at(0));
  began(tracer, kUrgentLane, 2, "quick", kUrgent, at(10));
  sched::Grant ahead = grant(true);
  ahead.from = at(19);  // a little too soon
  tracer.granted(kLane, kDevice, ahead, at(12));
  tracer.run_ended(2, at(20));
  ahead.from = at(90);
  tracer.granted(kLane, kDevice, ahead, at(50));  // closed before it opens
  began(tracer, kUrgentLane, 3, "quick", kUrgent, at(51));
  tracer.granted(kLane, kDevice, grant(false, sched::Grant::Why::kUrgent), at(55));
  const Trace trace = end(tracer, at(100));
  ASSERT_THAT(trace.gaps, SizeIs(1));
  ASSERT_THAT(trace.gates, SizeIs(3));
  EXPECT_EQ(trace.gates[0].opens, at(19));
  EXPECT_TRUE(trace.gates[0].fills);
  EXPECT_FALSE(trace.gates[1].fills);
  EXPECT_FALSE(trace.gates[2].fills);
}

TEST_F(TracerTest, NoGapWhereNobodyCouldHaveUsedIt) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kUrgentLane, 1, "quick", kUrgent, at(0));
  tracer.run_ended(1, at(10));
  began(tracer, kLane, 2, "more", kUrgent, at(12));  // no less urgent
  began(tracer, kUrgentLane, 3, "quick", kUrgent, at(30));
  tracer.run_ended(3, at(40));
  began(tracer, kLane, 4, "slow", kLast, at(45));
  began(tracer, kUrgentLane, 5, "quick", kUrgent, at(60'000));  // nobody waited for it any more
  EXPECT_THAT(end(tracer, at(70'000)).gaps, IsEmpty());
}

TEST_F(TracerTest, AProgramWorksAndPauses) {
  Tracer tracer;
  begin(tracer);
  tracer.program_up(kProgram, kDevice, "train", "alice", kUrgent);
  began(tracer, kLane, 1, "slow", kLast, at(0));
  tracer.work_ready(kProgram, at(10));
  tracer.launched(kProgram, {0, {{0, 0, 5, 5, at(11).ns, at(19).ns}}}, at(20));
  tracer.used(kProgram, 8'000, at(20));
  tracer.gap_begun(kProgram, at(20));
  launched(tracer, 1, 0, 1, 9, 25, 30);
  tracer.work_ready(kProgram, at(40));
  tracer.work_ready(kLane, at(41));  // a lane's is no gap
  tracer.gone(kProgram, at(50));
  tracer.gap_begun(kProgram, at(60));
  const Trace trace = end(tracer, at(100));
  ASSERT_THAT(trace.works, SizeIs(2));
  EXPECT_EQ(trace.works[0].from, at(10));
  EXPECT_EQ(trace.works[0].to, at(20));
  EXPECT_EQ(trace.works[0].device_time_ns, 8'000u);
  EXPECT_EQ(trace.works[1].to, at(50));
  ASSERT_THAT(trace.gaps, SizeIs(1));
  EXPECT_EQ(trace.gaps[0].from, at(20));
  EXPECT_EQ(trace.gaps[0].to, at(40));
  ASSERT_THAT(trace.gaps[0].fillers, SizeIs(1));
  EXPECT_EQ(trace.gaps[0].fillers[0].time, Duration::micros(5));
  ASSERT_THAT(trace.launches, SizeIs(2));
  EXPECT_EQ(trace.launches[0].run, Trace::kNone);
}

TEST_F(TracerTest, AProgramThatTellsOnlyWhatItUsed) {
  Tracer tracer;
  begin(tracer);
  tracer.program_up(kProgram, kDevice, "train", "alice", kUsual);
  tracer.used(kProgram, 300'000, at(1'000));
  tracer.used(kProgram, 5'000'000, at(2'000));  // more than there was
  const Trace trace = end(tracer, at(3'000));
  ASSERT_THAT(trace.works, SizeIs(2));
  EXPECT_EQ(trace.works[0].from, at(700));
  EXPECT_EQ(trace.works[0].to, at(1'000));
  EXPECT_EQ(trace.works[1].from, at(1'000));
}

TEST_F(TracerTest, LoadsAndProcesses) {
  Tracer tracer;
  begin(tracer);
  tracer.load_began(0, 0, 44, "aaaa", "alice", 10, at(1));
  tracer.load_ended(0, 44, false, at(5));
  tracer.executor_up(7, kDevice, at(-30), at(4), false);
  tracer.load_began(7, kDevice, 44, "aaaa", "alice", 10, at(6));
  tracer.load_ended(7, 44, true, at(9));
  tracer.load_ended(7, 44, true, at(12));  // of none
  tracer.load_began(7, kDevice, 45, "bbbb", "alice", 10, at(20));
  began(tracer, kLane, 1, "slow", kLast, at(20));
  tracer.granted(kLane, kDevice, grant(true), at(21));
  tracer.executor_lost(7, kDevice, at(50));
  tracer.load_began(8, kDevice, 45, "bbbb", "alice", 10, at(60));
  const Trace trace = end(tracer, at(100));
  ASSERT_THAT(trace.loads, SizeIs(4));
  EXPECT_EQ(trace.loads[0].device, 0u);
  EXPECT_TRUE(trace.loads[0].is_over);
  EXPECT_TRUE(trace.loads[1].has_failed);
  EXPECT_EQ(trace.loads[1].to, at(9));
  EXPECT_TRUE(trace.loads[2].has_failed) << "it was lost with its executor";
  EXPECT_EQ(trace.loads[2].to, at(50));
  EXPECT_FALSE(trace.loads[3].is_over);
  EXPECT_EQ(trace.loads[3].to, at(100));
  ASSERT_THAT(trace.processes, SizeIs(2));
  EXPECT_EQ(trace.processes[0].from, at(0));
  EXPECT_TRUE(trace.processes[1].is_lost);
  EXPECT_EQ(trace.gates.at(0).to, at(50));
}

TEST_F(TracerTest, WhatIsTooMuchIsCounted) {
  Tracer tracer(4);
  begin(tracer);
  began(tracer, kLane, 1, "slow", kLast, at(0));  // the lane and its run
  for (int i = 0; i < 10; ++i) launched(tracer, 1, 0, 1, 1, 10 + i, 11 + i);
  tracer.granted(kLane, kDevice, grant(true), at(30));
  began(tracer, kUrgentLane, 2, "quick", kUrgent, at(40));
  tracer.run_ended(2, at(50));
  tracer.run_ended(1, at(60));
  const Trace trace = end(tracer, at(100));
  EXPECT_THAT(trace.launches, SizeIs(2));
  EXPECT_THAT(trace.runs, SizeIs(1));
  EXPECT_EQ(trace.runs[0].to, at(60)) << "what is kept has its end";
  EXPECT_EQ(trace.dropped, 8u + 1 + 1);
}

TEST_F(TracerTest, LateSpansAreTakenButNothingThatCameAfterTheEnd) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kLane, 1, "slow", kLast, at(0));
  tracer.pause(at(100));
  launched(tracer, 1, 0, 1, 3, 90, 120);
  launched(tracer, 1, 1, 1, 3, 130, 140);
  tracer.run_ended(1, at(150));
  began(tracer, kLane, 2, "slow", kLast, at(160));
  const Trace trace = end(tracer, at(200));
  EXPECT_EQ(trace.to, at(100));
  ASSERT_THAT(trace.launches, SizeIs(1));
  EXPECT_EQ(trace.launches[0].to, at(100));
  EXPECT_EQ(trace.runs.at(0).to, at(100));
  EXPECT_FALSE(trace.runs.at(0).is_over);
}

TEST_F(TracerTest, ItBeginsAnew) {
  Tracer tracer;
  begin(tracer);
  began(tracer, kLane, 1, "slow", kLast, at(0));
  end(tracer, at(10));
  tracer.begin("bob", {}, at(20));
  launched(tracer, 1, 0, 1, 1, 21, 22);
  const Trace trace = end(tracer, at(30));
  EXPECT_THAT(trace.runs, IsEmpty());
  EXPECT_THAT(trace.launches, IsEmpty());
  EXPECT_THAT(trace.launchers, IsEmpty());
}

}  // namespace
}  // namespace quern::daemon
