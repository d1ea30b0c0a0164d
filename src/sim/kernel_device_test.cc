// SPDX-License-Identifier: Apache-2.0
#include "sim/kernel_device.h"

#include <gtest/gtest.h>

#include <string>

namespace quern::sim {
namespace {

using sched::LauncherId;
using What = KernelDevice::Told::What;

constexpr LauncherId lane1 = sched::lane_of({1}, 0), lane2 = sched::lane_of({1}, 1), other = sched::lane_of({2}, 0);
constexpr LauncherId program = sched::program_of(1);

Duration us(int64_t value) { return Duration::micros(value); }
Time at_us(int64_t value) { return {us(value).ns}; }

sched::Grant open_grant(LauncherId launcher) {
  sched::Grant grant;
  grant.launcher = launcher;
  grant.open = true;
  grant.depth = Duration::millis(2);
  grant.slice = Duration::millis(1);
  return grant;
}

DeviceModel queue_of(uint32_t units) {
  DeviceModel model;
  model.units = units;
  model.sharing = DeviceModel::Sharing::kQueue;
  return model;
}

KernelDevice::Work work_of(std::vector<Duration> kernels, uint32_t units = 0, bool sliceable = false) {
  KernelDevice::Work work;
  work.kernels = std::move(kernels);
  work.units = units;
  work.sliceable = sliceable;
  return work;
}

/// A device on an agenda of its own, and all that it told.
struct Bench {
  explicit Bench(const DeviceModel& with) : model(with), device(model, 0, open_grant({}), agenda) {}

  struct Line {
    Time at;
    KernelDevice::Told told;
  };

  /// Until nothing happens any more, or then.
  Bench& run(Time until = Time::never()) {
    while (!agenda.empty() && agenda.top().at <= until) {
      const Agenda::Entry entry = agenda.take();
      now = entry.at;
      std::vector<KernelDevice::Told> told;
      device.happen(now, entry.b, told);
      for (const auto& one : told) lines.push_back({now, one});
    }
    if (until != Time::never()) now = until;
    return *this;
  }
  Bench& begin(LauncherId id, const KernelDevice::Work& work) {
    device.begin(now, id, work);
    return *this;
  }
  std::vector<Line> of(LauncherId id, What what) const {
    std::vector<Line> some;
    for (const Line& line : lines)
      if (line.told.launcher == id && line.told.what == what) some.push_back(line);
    return some;
  }
  Time ended(LauncherId id) const {
    const auto all = of(id, What::kEnded);
    return all.empty() ? Time::never() : all.back().at;
  }
  Time started(LauncherId id) const {
    const auto all = of(id, What::kStarted);
    return all.empty() ? Time::never() : all.back().at;
  }
  Duration used(LauncherId id) const { return of(id, What::kEnded).back().told.time; }

  const DeviceModel model;
  Agenda agenda;
  KernelDevice device;
  Time now = {0};
  std::vector<Line> lines;
};

TEST(KernelDevice, KernelsRunInTheOrderTheyWereLaunched) {
  Bench bench(queue_of(1));
  bench.begin(lane1, work_of({us(100), us(100)})).run(at_us(50));
  bench.begin(other, work_of({us(30)})).run();
  // Both kernels of the first were in flight already.
  EXPECT_EQ(bench.ended(lane1), at_us(200));
  EXPECT_EQ(bench.started(other), at_us(200));
  EXPECT_EQ(bench.ended(other), at_us(230));
  EXPECT_EQ(bench.used(lane1), us(200));
  EXPECT_EQ(bench.used(other), us(30));
}

TEST(KernelDevice, TheDepthIsATime) {
  // Two launches, whatever they take; more only as long as they are short together.
  Bench bench(queue_of(1));
  bench.begin(lane1, work_of(std::vector<Duration>(10, us(900)))).run(at_us(10));
  bench.begin(other, work_of({us(30)})).run();
  EXPECT_EQ(bench.started(other), at_us(2700));
  EXPECT_EQ(bench.ended(lane1), at_us(9030));

  Bench small(queue_of(1));
  small.begin(lane1, work_of(std::vector<Duration>(1000, us(10)))).run(at_us(5));
  small.begin(other, work_of({us(30)})).run();
  EXPECT_EQ(small.started(other), at_us(2000));

  Bench few(queue_of(1));
  sched::Grant grant = open_grant(lane1);
  grant.launches = 3;
  few.device.grant(few.now, grant);
  few.begin(lane1, work_of(std::vector<Duration>(1000, us(10)))).run(at_us(5));
  few.begin(other, work_of({us(30)})).run();
  EXPECT_EQ(few.started(other), at_us(30));
}

TEST(KernelDevice, SeveralAreOnItWhereUnitsSuffice) {
  Bench bench(queue_of(4));
  bench.begin(lane1, work_of({us(100)}, 1)).begin(lane2, work_of({us(100)}, 2)).begin(other, work_of({us(100)}, 2));
  bench.run(at_us(1));
  // A quarter of the units: four times as long.
  EXPECT_EQ(bench.device.on(), (std::vector<LauncherId>{lane1, lane2}));
  bench.run();
  EXPECT_EQ(bench.ended(lane1), at_us(400));
  EXPECT_EQ(bench.ended(lane2), at_us(200));
  EXPECT_EQ(bench.started(other), at_us(200));
  EXPECT_EQ(bench.ended(other), at_us(400));
  EXPECT_EQ(bench.used(lane1), us(400));
  EXPECT_EQ(bench.used(lane2), us(400));
}

TEST(KernelDevice, WhoNeedsMoreUnitsIsNotOvertaken) {
  Bench bench(queue_of(2));
  bench.begin(lane1, work_of({us(100)}, 1)).run(at_us(1));
  bench.begin(lane2, work_of({us(100)}, 2)).run(at_us(2));
  bench.begin(other, work_of({us(100)}, 1)).run();
  EXPECT_EQ(bench.started(lane2), at_us(200));
  EXPECT_EQ(bench.started(other), at_us(300));
}

TEST(KernelDevice, LanesOfAPartitionTakeTurns) {
  const int one = 0, two = 0;
  Bench bench(queue_of(4));
  KernelDevice::Work work = work_of({us(100)}, 1);
  work.partition = &one;
  bench.begin(lane1, work).begin(lane2, work);
  work.partition = &two;
  bench.begin(other, work).run();
  EXPECT_EQ(bench.ended(lane1), at_us(400));
  EXPECT_EQ(bench.started(lane2), at_us(400));
  EXPECT_EQ(bench.started(other), at_us(0));
  EXPECT_EQ(bench.ended(lane2), at_us(800));
}

TEST(KernelDevice, NeighboursSlowEachOtherDown) {
  DeviceModel model = queue_of(2);
  model.interference = 0.5;
  Bench bench(model);
  bench.begin(lane1, work_of({us(100)}, 1)).begin(other, work_of({us(50)}, 1)).run();
  // 150 us beside each other bring both on by 100; then one has the device for itself.
  EXPECT_EQ(bench.ended(other), at_us(150));
  EXPECT_EQ(bench.ended(lane1), at_us(250));
}

TEST(KernelDevice, SpeedByUnitsIsOnALine) {
  const std::vector<SpeedAt> speeds = {{0.25, 0.5}, {0.5, 0.9}, {1, 1}};
  EXPECT_DOUBLE_EQ(speed_on(speeds, 1, 8), 0.25);
  EXPECT_DOUBLE_EQ(speed_on(speeds, 2, 8), 0.5);
  EXPECT_DOUBLE_EQ(speed_on(speeds, 3, 8), 0.7);
  EXPECT_DOUBLE_EQ(speed_on(speeds, 8, 8), 1);
  EXPECT_DOUBLE_EQ(speed_on({}, 2, 8), 0.25);
  EXPECT_DOUBLE_EQ(speed_on(std::vector<SpeedAt>{{0.5, 0.9}}, 8, 8), 0.9);
  Bench bench(queue_of(4));
  KernelDevice::Work work = work_of({us(100)}, 2);
  work.speeds = speeds;
  bench.begin(lane1, work).run();
  EXPECT_EQ(bench.ended(lane1), Time{111'111});
}

TEST(KernelDevice, AKernelThatIsTooLongIsCut) {
  // Slices of a millisecond: another's kernel comes between two of them.
  const auto waited = [](bool sliceable) {
    Bench bench(queue_of(1));
    bench.begin(lane1, work_of({us(10'000)}, 0, sliceable)).run(at_us(10));
    bench.begin(other, work_of({us(30)})).run();
    EXPECT_EQ(bench.ended(lane1), at_us(sliceable ? 10'030 : 10'000));
    return bench.started(other);
  };
  EXPECT_EQ(waited(true), at_us(2000));
  EXPECT_EQ(waited(false), at_us(10'000));
}

TEST(KernelDevice, AClosedGateStopsAtTheNextBoundary) {
  Bench bench(queue_of(1));
  bench.begin(lane1, work_of({us(10'000)}, 0, true)).run(at_us(1500));
  sched::Grant closed;
  closed.launcher = lane1;
  bench.device.grant(bench.now, closed);
  EXPECT_FALSE(bench.device.is_open(bench.now, lane1));
  bench.run(at_us(50'000));
  EXPECT_EQ(bench.ended(lane1), Time::never());
  EXPECT_TRUE(bench.device.on().empty());
  bench.device.grant(bench.now, open_grant(lane1));
  bench.run();
  // Three slices were launched before: what began before the gate closed, and one in flight behind it.
  EXPECT_EQ(bench.ended(lane1), at_us(50'000 + 10'000 - 3000));
  EXPECT_EQ(bench.used(lane1), us(10'000));
}

TEST(KernelDevice, AGrantTakesItsTime) {
  DeviceModel model = queue_of(1);
  model.gate = us(6);
  model.launch = us(4);
  Bench bench(model);
  bench.begin(program, work_of({us(100)})).run(at_us(20));
  EXPECT_EQ(bench.started(program), Time::never());
  bench.device.grant(bench.now, open_grant(program));
  bench.run();
  EXPECT_EQ(bench.started(program), at_us(30));
}

TEST(KernelDevice, WhatCannotEndInTimeDoesNotBegin) {
  const auto run_with = [](auto&& change, bool sliceable) {
    Bench bench(queue_of(1));
    sched::Grant grant = open_grant(lane1);
    grant.until = at_us(500);
    grant.slice = us(200);
    change(grant);
    bench.device.grant(bench.now, grant);
    bench.begin(lane1, work_of({us(300), us(300), us(300)}, 0, sliceable)).run(at_us(5000));
    sched::Grant closed;
    closed.launcher = lane1;
    closed.meters = true;
    bench.device.grant(bench.now, closed);
    bench.run();
    const auto used = bench.of(lane1, What::kUsed);
    return used.empty() ? Duration{0} : used.back().told.time;
  };
  const auto plain = [](sched::Grant&) {};
  EXPECT_EQ(run_with(plain, false), us(300));
  // Cut to what is left.
  EXPECT_EQ(run_with(plain, true), us(500));
  EXPECT_EQ(run_with([](sched::Grant& grant) { grant.slice = {0}; }, true), us(300));
  // What is in flight comes first: one that is too long begins, and not two.
  EXPECT_EQ(run_with([](sched::Grant& grant) { grant.overdraws = true; }, false), us(600));
  // Past its end it goes on in small slices, all of it.
  EXPECT_EQ(run_with([](sched::Grant& grant) { grant.beyond = us(50); }, true), Duration{0});
}

TEST(KernelDevice, WhoIsAskedSaysWhatItUsed) {
  Bench bench(queue_of(1));
  bench.begin(lane1, work_of(std::vector<Duration>(30, us(100)))).run(at_us(1000));
  EXPECT_TRUE(bench.of(lane1, What::kUsed).empty());
  sched::Grant metering = open_grant(lane1);
  metering.meters = true;
  bench.device.grant(bench.now, metering);
  bench.run();
  const auto used = bench.of(lane1, What::kUsed);
  ASSERT_GE(used.size(), 3U);
  Duration sum{0};
  for (size_t i = 0; i < used.size(); ++i) {
    sum = sum + used[i].told.time;
    const bool is_regular = i > 0 && i + 1 < used.size();
    EXPECT_TRUE(!is_regular || used[i].at - used[i - 1].at == Duration::millis(1)) << i;
  }
  // All of it, also what came before.
  EXPECT_EQ(sum, us(3000));
  EXPECT_EQ(bench.used(lane1), us(3000));
  // A program always says so; so does one that stops to wait, at once.
  Bench waits(queue_of(1));
  sched::Grant until = open_grant(program);
  until.until = at_us(250);
  until.meters = until.tells = true;
  waits.device.grant(waits.now, until);
  waits.begin(program, work_of({us(100), us(100), us(100)})).run(at_us(400));
  const auto told = waits.of(program, What::kUsed);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].at, at_us(200));
  EXPECT_EQ(told[0].told.time, us(200));
  const auto next = waits.of(program, What::kWaits);
  ASSERT_EQ(next.size(), 1U);
  ASSERT_EQ(next[0].told.kernels.size(), 1U);
  EXPECT_EQ(next[0].told.kernels[0], (sched::KernelAhead{0, us(100), false}));
}

TEST(KernelDevice, WhoWaitsTellsOfTheNextFew) {
  Bench bench(queue_of(1));
  sched::Grant closed;
  closed.launcher = program;
  closed.tells = true;
  bench.device.grant(bench.now, closed);
  std::vector<Duration> kernels;
  for (int i = 1; i <= 20; ++i) kernels.push_back(us(i));
  bench.begin(program, work_of(kernels)).run(at_us(100));
  const auto told = bench.of(program, What::kWaits);
  ASSERT_EQ(told.size(), 1U);
  ASSERT_EQ(told[0].told.kernels.size(), sched::WorkReady::kMost);
  for (size_t i = 0; i < sched::WorkReady::kMost; ++i) EXPECT_EQ(told[0].told.kernels[i].time, kernels[i]) << i;
}

TEST(KernelDevice, ProcessesTakeTurns) {
  DeviceModel model = queue_of(1);
  model.sharing = DeviceModel::Sharing::kSlices;
  model.time_slice = us(100);
  Bench bench(model);
  bench.begin(lane1, work_of({us(250)})).begin(lane2, work_of({us(50)})).begin(other, work_of({us(120)})).run();
  // Lanes of one executor are one process: 100 of it, 100 of the other, 100, 20, the rest.
  EXPECT_EQ(bench.started(other), at_us(100));
  EXPECT_EQ(bench.ended(other), at_us(320));
  EXPECT_EQ(bench.ended(lane1), at_us(370));
  EXPECT_EQ(bench.ended(lane2), at_us(420));
  EXPECT_EQ(bench.used(lane1), us(250));
  EXPECT_EQ(bench.used(other), us(120));
  // Who is alone is not interrupted, and who has nothing leaves at once.
  Bench alone(model);
  alone.begin(lane1, work_of({us(250)})).run(at_us(130));
  alone.begin(other, work_of({us(10)})).run();
  EXPECT_EQ(alone.started(other), at_us(200));
  EXPECT_EQ(alone.ended(lane1), at_us(260));
}

TEST(KernelDevice, WhoIsToldToStopEndsWithWhatIsInFlight) {
  Bench bench(queue_of(1));
  bench.begin(lane1, work_of(std::vector<Duration>(10, us(1500)))).run(at_us(10));
  bench.device.stop(bench.now, lane1);
  bench.run();
  ASSERT_EQ(bench.of(lane1, What::kEnded).size(), 1U);
  EXPECT_TRUE(bench.of(lane1, What::kEnded)[0].told.flag);
  EXPECT_EQ(bench.ended(lane1), at_us(3000));
  // One that had launched all of it has a result.
  Bench late(queue_of(1));
  late.begin(lane1, work_of({us(100)})).run(at_us(10));
  late.device.stop(late.now, lane1);
  late.run();
  EXPECT_FALSE(late.of(lane1, What::kEnded)[0].told.flag);
}

TEST(KernelDevice, WhatHangsHoldsItsUnits) {
  Bench bench(queue_of(2));
  bench.begin(lane1, work_of({us(100)}, 1)).begin(lane2, work_of({us(100), us(100)}, 1)).run(at_us(10));
  bench.device.hang(lane1);
  bench.begin(other, work_of({us(100)}, 2)).run(at_us(100'000));
  EXPECT_TRUE(bench.device.is_hung(lane1));
  EXPECT_EQ(bench.ended(lane1), Time::never());
  EXPECT_EQ(bench.ended(lane2), at_us(400));
  EXPECT_EQ(bench.started(other), Time::never());
  // Its executor is killed: the other goes on.
  bench.device.drop_lanes(bench.now, {1});
  bench.run();
  EXPECT_EQ(bench.started(other), at_us(100'000));
  EXPECT_TRUE(bench.of(lane1, What::kEnded).empty());
}

TEST(KernelDevice, WhoIsDroppedLeavesNothing) {
  Bench bench(queue_of(1));
  bench.begin(lane1, work_of({us(100)})).begin(program, work_of({us(100)}));
  bench.device.grant(bench.now, open_grant(program));
  bench.run(at_us(10));
  bench.device.drop(bench.now, program);
  bench.device.drop_work(bench.now, lane1);
  bench.run(at_us(200));
  EXPECT_TRUE(bench.device.on().empty());
  EXPECT_EQ(bench.ended(lane1), Time::never());
  // Its gate is gone with a program, and not with the work of a lane.
  bench.begin(lane1, work_of({us(100)})).begin(program, work_of({us(100)})).run();
  EXPECT_EQ(bench.ended(lane1), at_us(300));
  EXPECT_EQ(bench.ended(program), Time::never());
  bench.device.clear();
  EXPECT_FALSE(bench.device.is_open(bench.now, lane1));
}

TEST(KernelDevice, AWrongProfileIsWrongOnce) {
  // Taken for a tenth of what it takes, a slice of 1 ms is one of 10 ms; the next is right.
  Bench bench(queue_of(1));
  KernelDevice::Work work = work_of({us(100'000)}, 0, true);
  work.belief = 0.1;
  bench.begin(lane1, work).run(at_us(10));
  bench.begin(other, work_of({us(30)})).run();
  EXPECT_EQ(bench.started(other), at_us(20'000));
  EXPECT_EQ(bench.ended(lane1), at_us(100'030));
  EXPECT_EQ(bench.used(lane1), us(100'000));
  // Taken for ten times as long, it is cut too small, once.
  Bench careful(queue_of(1));
  work.belief = 10;
  careful.begin(lane1, work).run(at_us(10));
  careful.begin(other, work_of({us(30)})).run();
  EXPECT_EQ(careful.started(other), at_us(200));
  EXPECT_EQ(careful.used(lane1), us(100'000));
}

TEST(KernelDevice, AKernelNeverSeenShowsItselfInA32nd) {
  Bench bench(queue_of(1));
  KernelDevice::Work work = work_of({us(3200)}, 0, true);
  work.belief = 0;
  bench.begin(lane1, work).run(at_us(10));
  bench.begin(other, work_of({us(30)})).run();
  // Two of them are in flight, no more.
  EXPECT_EQ(bench.started(other), Time{100'000 + 96'875});
  EXPECT_EQ(bench.used(lane1), us(3200));
  // One that cannot be cut begins, unless it has to end in time.
  for (const bool ends : {false, true}) {
    Bench whole(queue_of(1));
    sched::Grant grant = open_grant(lane1);
    if (ends) grant.until = at_us(5000);
    whole.device.grant(whole.now, grant);
    work.sliceable = false;
    whole.begin(lane1, work).run();
    EXPECT_EQ(whole.ended(lane1), ends ? Time::never() : at_us(3200)) << ends;
  }
}

TEST(KernelDevice, AGrantMayBeginLater) {
  for (const double drift : {0.0, 0.01}) {
    DeviceModel model = queue_of(1);
    model.drift = drift;
    Bench bench(model);
    sched::Grant grant = open_grant(lane1);
    grant.from = at_us(500);
    bench.device.grant(bench.now, grant);
    EXPECT_FALSE(bench.device.is_open(bench.now, lane1));
    bench.begin(lane1, work_of({us(100)})).run();
    // By its own clock.
    EXPECT_NEAR(static_cast<double>(bench.started(lane1).ns), 500'000 / (1 + drift), 2) << drift;
  }
}

TEST(KernelDevice, WhoIgnoresItsGateIsNotStopped) {
  Bench bench(queue_of(1));
  bench.begin(program, work_of({us(100), us(100)})).run(at_us(10));
  EXPECT_EQ(bench.started(program), Time::never());
  bench.device.ignore_gate(bench.now, program);
  bench.run();
  EXPECT_EQ(bench.ended(program), at_us(210));
  EXPECT_TRUE(bench.device.is_open(bench.now, program));
}

TEST(KernelDevice, AClockThatGainsEndsItsGrantEarly) {
  DeviceModel model = queue_of(1);
  model.drift = 0.01;
  Bench bench(model);
  EXPECT_EQ(bench.device.clock(at_us(10'000)), at_us(10'100));
  EXPECT_EQ(bench.device.clock(at_us(1'000'000)), at_us(1'000'000));  // it was set right
  bench.run(at_us(100'000));
  sched::Grant grant = open_grant(lane1);
  grant.until = at_us(101'000);
  bench.device.grant(bench.now, grant);
  EXPECT_FALSE(bench.device.is_open(at_us(100'000), lane1));
  bench.begin(lane1, work_of({us(100)})).run();
  EXPECT_EQ(bench.started(lane1), Time::never());
  bench.device.grant(bench.now, open_grant(lane1));
  bench.run();
  // And it takes what it used for longer than it was.
  EXPECT_EQ(bench.used(lane1), us(101));
}

}  // namespace
}  // namespace quern::sim
