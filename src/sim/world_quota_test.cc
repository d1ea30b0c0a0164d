// SPDX-License-Identifier: Apache-2.0
//
// Quotas, units and kernels in the whole world: who gets how much of a device, and what happens to others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/test_recorder.h"
#include "sim/trial.h"

namespace quern::sim {
namespace {

/// A device that knows kernels, and nobody on it.
Model one_device(uint32_t units = 1) {
  Model model;
  DeviceModel device;
  device.memory_bytes = 8 * kGiB;
  device.units = units;
  device.sharing = DeviceModel::Sharing::kQueue;
  device.launch = Duration::micros(5);
  device.gate = Duration::micros(6);
  device.context = Duration::millis(5);
  model.devices = {device};
  model.length = Duration::seconds(3);
  return model;
}

/// One that never pauses.
ProgramModel greedy(Duration kernel, sched::Quota quota = {}, bool sliceable = true) {
  ProgramModel program;
  program.name = "greedy";
  program.sequence.assign(16, {kernel, {0}});
  program.sliceable = sliceable;
  program.quota = quota;
  return program;
}

/// The part of all units' time that each program said it used, from 1 s on to the end.
std::vector<double> shares_of(const Model& model) {
  Recorder recorder;
  run(model, 1, recorder);
  std::vector<double> shares(model.programs.size());
  const double all = static_cast<double>((model.length - Duration::seconds(1)).ns) * model.devices[0].units;
  for (const auto& [now, used] : recorder.events<sched::DeviceUsed>())
    if (now >= Time{0} + Duration::seconds(1) && sched::is_program(used.launcher))
      shares.at(used.launcher.value - sched::kFirstProgram - 1) += static_cast<double>(used.device_time.ns) / all;
  return shares;
}

std::string violation_in(const Model& model, uint64_t seed = 1) {
  Trail trail;
  const Trial trial = try_model(model, seed, nullptr, &trail);
  return trial.violation ? trail.to_text() + trial.violation->text : "";
}

TEST(WorldQuota, AShareIsKeptWithinTwoPoints) {
  for (const Duration kernel : {Duration::micros(50), Duration::millis(1), Duration::millis(20)})
    for (const uint32_t percent : {10U, 20U, 40U, 60U, 80U})
      for (const bool is_alone : {true, false}) {
        Model model = one_device();
        model.programs = {greedy(kernel, {.request = is_alone ? 0 : percent * 10, .limit = percent * 10})};
        if (!is_alone) model.programs.push_back(greedy(kernel));
        const double points = kernel == Duration::micros(50) && percent == 80 ? 4 : 2;
        const auto shares = shares_of(model);
        EXPECT_NEAR(shares[0] * 100, percent, points) << kernel.ns << "ns, alone " << is_alone;
        EXPECT_TRUE(is_alone || shares[0] + shares[1] > 0.95) << kernel.ns << "ns at " << percent;
      }
}

TEST(WorldQuota, WhatCannotBeCutIsPaidBack) {
  for (const uint32_t percent : {10U, 40U, 80U}) {
    Model model = one_device();
    model.programs = {greedy(Duration::millis(20), {.limit = percent * 10}, false)};
    model.length = Duration::seconds(9);
    EXPECT_NEAR(shares_of(model)[0] * 100, percent, 1) << percent;
  }
}

TEST(WorldQuota, NoWindowHasMoreThanALittleTooMuch) {
  for (const bool is_sliceable : {true, false}) {
    const Duration kernel = Duration::millis(4), window = sched::Config{}.window;
    Model model = one_device();
    model.programs = {greedy(kernel, {.limit = 300}, is_sliceable)};
    Recorder recorder;
    run(model, 1, recorder);
    std::map<int64_t, Duration> used;
    for (const auto& [now, one] : recorder.events<sched::DeviceUsed>()) {
      Duration& sum = used[now.ns / window.ns];
      sum = sum + one.device_time;
    }
    EXPECT_GE(used.size(), 28U);
    // What it says late counts for the next window.
    const Duration little = Duration::millis(1) + (is_sliceable ? Duration::millis(1) : kernel + kernel);
    for (const auto& [number, sum] : used) EXPECT_LE(sum, Duration::millis(30) + little) << number;
  }
}

TEST(WorldQuota, ARequestIsHadBesideOthersOfItsPriority) {
  Model model = one_device();
  model.programs = {greedy(Duration::micros(500), {.request = 300})};
  for (int i = 0; i < 3; ++i) model.programs.push_back(greedy(Duration::micros(700)));
  const auto shares = shares_of(model);
  EXPECT_GE(shares[0], 0.28);
  EXPECT_LE(shares[0], 0.6);
  EXPECT_EQ(violation_in(model), "");
}

TEST(WorldQuota, UnitsAreSharedAndLargeAskersHaveThem) {
  Model model = one_device(4);
  // Two that use a quarter each, and one that uses three.
  for (const uint32_t units : {250U, 250U, 750U})
    model.programs.push_back(greedy(Duration::millis(1), {.units = units}));
  const auto shares = shares_of(model);
  // Half of the time it is on three of four units, beside one of the others.
  EXPECT_GT(shares[2], 0.3);
  EXPECT_GT(shares[0], 0.1);
  EXPECT_GT(shares[1], 0.1);
  EXPECT_GT(shares[0] + shares[1] + shares[2], 0.7);
  EXPECT_EQ(violation_in(model), "");
}

TEST(WorldQuota, APartitionKeepsNeighboursAway) {
  const auto p95 = [](sched::Quota mine, sched::Quota other) {
    Model model = one_device(2);
    ProgramModel urgent = greedy(Duration::millis(1), mine);
    urgent.sequence = {{Duration::millis(1), Duration::millis(1)}};
    model.programs = {urgent, greedy(Duration::millis(10), other, false)};
    const auto outcome = World(model, 1).run();
    std::vector<Duration> times;
    for (const Round& round : outcome.rounds.at(0)) times.push_back(round.ended - round.began);
    std::sort(times.begin(), times.end());
    return times.at(times.size() * 95 / 100);
  };
  const sched::Quota half{.units = 500};
  EXPECT_LE(p95(half, half), Duration::micros(2100));  // on half of the units twice as long, and no longer
  EXPECT_GE(p95({}, {}), Duration::millis(10));        // kernels that cannot be cut are in its way
}

/// Calls of `urgent` every 20 ms beside one in no hurry, which is given.
Model beside(const FunctionModel& other) {
  Model model = one_device();
  TenantModel tenant;
  model.tenants = {tenant, tenant};
  FunctionModel urgent;
  urgent.name = "urgent";
  urgent.priority = 0;
  model.functions = {urgent, other};
  model.functions[1].tenant = 1;
  model.functions[1].priority = 9;
  LoadModel load;
  load.kind = LoadModel::Kind::kUniform;
  load.per_second = 50;
  model.loads = {load, LoadModel{}};
  model.loads[1].function = 1;
  return model;
}

Duration slowest_urgent(const Model& model) {
  Recorder recorder;
  run(model, 1, recorder);
  std::map<uint64_t, Time> called;
  Duration slowest{0};
  for (const auto& [now, submit] : recorder.events<sched::Submit>())
    if (submit.priority == 0) called[submit.request.value] = now;
  for (const auto& [now, answer] : recorder.actions<sched::Answer>())
    if (const auto it = called.find(answer.request.value); it != called.end() && now > Time{0} + Duration::millis(100))
      slowest = std::max(slowest, now - it->second);
  return slowest;
}

TEST(WorldQuota, ALongKernelIsInTheWayOnlyIfItCannotBeCut) {
  FunctionModel filler;
  filler.name = "filler";
  filler.device_time = Duration::seconds(1);
  EXPECT_LE(slowest_urgent(beside(filler)), Duration::micros(3500));
  filler.sliceable = false;
  EXPECT_GE(slowest_urgent(beside(filler)), Duration::millis(900));
  EXPECT_EQ(violation_in(beside(filler)), "");
}

TEST(WorldQuota, AStormOfSmallKernelsIsNotInTheWay) {
  FunctionModel storm;
  storm.name = "storm";
  storm.device_time = Duration::millis(50);
  storm.kernels.assign(5000, Duration::micros(10));
  storm.sliceable = false;
  EXPECT_LE(slowest_urgent(beside(storm)), Duration::micros(3500));
  EXPECT_EQ(violation_in(beside(storm)), "");
}

TEST(WorldQuota, MistakesOfProfilesAndClocksPass) {
  FunctionModel filler;
  filler.name = "filler";
  filler.device_time = Duration::millis(40);
  filler.quota.limit = 500;
  Model model = beside(filler);
  model.devices[0].drift = 0.002;
  model.faults.wrong_profile = 20;
  model.faults.new_kernel = 20;
  model.faults.settings = 5;
  model.faults.until = model.length;
  for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(violation_in(model, seed), "") << seed;
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  for (const char* name : {"wrong_profile", "new_kernel", "settings"})
    EXPECT_GT(outcome.faults.count(name), 0U) << name;
}

TEST(WorldQuota, WhoIgnoresItsGateIsChargedForIt) {
  Model model = one_device();
  model.programs = {greedy(Duration::millis(1), {.limit = 100}), greedy(Duration::millis(1))};
  model.faults.ignored_gate = 2;
  model.faults.until = Duration::millis(900);
  Recorder recorder;
  const auto outcome = run(model, 3, recorder);
  ASSERT_GT(outcome.faults.count("ignored_gate"), 0U);
  EXPECT_EQ(violation_in(model, 3), "");
}

TEST(WorldQuota, MoreThanThereIsIsRefused) {
  Model model = small_model();
  model.functions[0].quota.request = 700;
  model.functions.push_back(model.functions[0]);
  model.functions[1].name = "other";
  model.loads.push_back(model.loads[0]);
  model.loads[1].function = 1;
  Recorder recorder;
  EXPECT_TRUE(run(model, 1, recorder).drained);
  size_t refused = 0, done = 0;
  for (const auto& [now, answer] : recorder.actions<sched::Answer>()) {
    refused += answer.end == sched::End::kOverQuota;
    done += answer.end == sched::End::kDone;
  }
  EXPECT_GT(refused, 0U);
  EXPECT_GT(done, 50U);
  EXPECT_EQ(violation_in(model), "");
}

}  // namespace
}  // namespace quern::sim
