// SPDX-License-Identifier: Apache-2.0
#include "sim/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/draws.h"
#include "sim/test_recorder.h"

namespace quern::sim {
namespace {

/// Several of everything, and all that can go wrong.
Model stormy_model() {
  Model model;
  model.devices.clear();
  for (const uint64_t memory : {2 * kGiB, 4 * kGiB}) {
    DeviceModel device;
    device.count = 2;
    device.memory_bytes = memory;
    device.context_bytes = 64 * kMiB;
    device.context = Duration::millis(5);
    device.launch = Duration::micros(10);
    device.answer = Duration::micros(50);
    device.in_place = memory == 4 * kGiB;
    model.devices.push_back(device);
  }
  model.host = {2 * kGiB, 50 * kGiB, Duration::micros(100)};
  model.pool = 1;
  model.config.granularity_bytes = kMiB;
  model.config.rent_second = Duration::millis(500);
  model.config.room_back = Duration::millis(20);
  for (uint32_t i = 0; i < 6; ++i) {
    TenantModel tenant;
    tenant.name = "t" + std::to_string(i);
    tenant.weight = 1 + i % 3;
    model.tenants.push_back(tenant);
    model.objects.push_back({"o" + std::to_string(i), (100 + 150 * i) * kMiB});
    FunctionModel function;
    function.name = "f" + std::to_string(i);
    function.tenant = i;
    function.device_time = Duration::millis(1 + i);
    function.spread = 0.5;
    function.memory_bytes = 10 * kMiB;
    function.objects = {i};
    function.device_limit = Duration::millis(100);
    if (i % 2 == 0) function.timeout = Duration::seconds(1);
    if (i == 3) function.keep_warm = sched::Stage::kHot;
    model.functions.push_back(function);
    LoadModel load;
    load.function = i;
    load.clients = 3;
    if (i == 4) load.kind = LoadModel::Kind::kPoisson, load.per_second = 100;
    if (i == 5) load.kind = LoadModel::Kind::kBurst, load.per_second = 50, load.burst = 10;
    model.loads.push_back(load);
  }
  model.faults = {.executor_loss = 5,
                  .kernel_fault = 5,
                  .hang = 3,
                  .failed_run = 10,
                  .device_loss = 3,
                  .slow_load = 10,
                  .failed_load = 10,
                  .failed_start = 5,
                  .late_event = 50,
                  .lost_memory = 5,
                  .restart = 1,
                  .cancel = 20,
                  .removal = 5,
                  .slow_fetch = 10,
                  .failed_fetch = 10,
                  .no_room = 10,
                  .host_memory = 5,
                  .lease = 20,
                  .failed_launch = 5,
                  .unclear_loss = 5,
                  .until = Duration::seconds(4)};
  model.length = Duration::seconds(5);
  return model;
}

TEST(World, OneCallerWaitsForLaunchRunAndAnswer) {
  Model model = small_model();
  model.devices[0].launch = Duration::millis(2);
  model.devices[0].answer = Duration::millis(3);
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  EXPECT_TRUE(outcome.drained);
  EXPECT_EQ(recorder.ends, 1);
  EXPECT_TRUE(recorder.drained);
  EXPECT_EQ(outcome.steps, recorder.steps.size());
  const auto submits = recorder.events<sched::Submit>();
  const auto answers = recorder.actions<sched::Answer>();
  ASSERT_EQ(submits.size(), outcome.requests);
  ASSERT_EQ(answers.size(), submits.size());
  EXPECT_EQ(answers[0].first - submits[0].first, Duration::millis(115));  // the executor starts first
  for (size_t i = 1; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].first - submits[i].first, Duration::millis(15));
    EXPECT_EQ(submits[i].first, answers[i - 1].first);
    EXPECT_EQ(submits[i].second.request.value, i + 1);
  }
  EXPECT_EQ(submits.size(), 60U);  // (1 s - 115 ms) / 15 ms, and one that comes before the end
  for (const auto& [now, finished] : recorder.events<sched::Finished>())
    EXPECT_EQ(finished.device_time, Duration::millis(10));
}

TEST(World, RunsOfADeviceComeOneAfterAnotherAndLaunchesHide) {
  Model model = small_model();
  model.devices[0].launch = Duration::millis(1);
  model.devices[0].speed = 2;
  model.loads[0].clients = 4;
  Recorder recorder;
  run(model, 1, recorder);
  const auto started = recorder.events<sched::Started>();
  const auto finished = recorder.events<sched::Finished>();
  ASSERT_EQ(started.size(), finished.size());
  for (size_t i = 0; i < started.size(); ++i) {
    EXPECT_EQ(started[i].second.run, finished[i].second.run);
    EXPECT_EQ(finished[i].first - started[i].first, Duration::millis(5));
    if (i > 0 && i + 4 < started.size()) {
      EXPECT_EQ(started[i].first, finished[i - 1].first) << i;
    }
  }
}

TEST(World, TheSameSeedGivesTheSameSteps) {
  const Model model = stormy_model();
  Recorder first, again, other;
  run(model, 7, first);
  run(model, 7, again);
  run(model, 8, other);
  EXPECT_GT(first.steps.size(), 2000U);
  EXPECT_TRUE(first.text() == again.text());
  EXPECT_FALSE(first.text() == other.text());
}

TEST(World, LoadsOfADeviceComeOneAfterAnother) {
  Model model = small_model();
  model.devices[0].copy_bytes_per_second = kGiB;
  model.devices[0].load_latency = Duration::millis(1);
  model.objects = {{"a", kGiB}, {"b", 2 * kGiB}};
  model.functions[0].objects = {0, 1};
  model.most_requests = 1;
  Recorder recorder;
  run(model, 1, recorder);
  const auto asked = recorder.actions<sched::Load>();
  const auto loaded = recorder.events<sched::Loaded>();
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(loaded[0].first - std::max(asked[0].first, Time{Duration::millis(100).ns}),
            Duration{static_cast<int64_t>(asked[0].second.bytes / kGiB) * 1'000'000'000 + 1'000'000});
  EXPECT_EQ(loaded[1].first.ns, Duration::millis(100 + 3002).ns);
  const auto started = recorder.events<sched::Started>();
  ASSERT_EQ(started.size(), 1U);
  EXPECT_GE(started[0].first, loaded[1].first);
}

TEST(World, OpenLoopsCallAtTheirRate) {
  Model model = small_model();
  model.devices[0].count = 20;
  model.length = Duration::seconds(20);
  model.functions[0].device_time = Duration::micros(10);
  for (const auto kind : {LoadModel::Kind::kPoisson, LoadModel::Kind::kUniform, LoadModel::Kind::kBurst}) {
    model.loads[0].kind = kind;
    model.loads[0].per_second = 100;
    model.loads[0].burst = 5;
    Recorder recorder;
    run(model, 3, recorder);
    const auto submits = recorder.events<sched::Submit>();
    std::map<int64_t, uint64_t> at_once;
    for (const auto& submit : submits) ++at_once[submit.first.ns];
    if (kind == LoadModel::Kind::kUniform) {
      EXPECT_EQ(submits.size(), 2000U);
      for (size_t i = 1; i < submits.size(); ++i)
        EXPECT_EQ(submits[i].first - submits[i - 1].first, Duration::millis(10));
    }
    EXPECT_NEAR(static_cast<double>(submits.size()), 2000, kind == LoadModel::Kind::kBurst ? 300 : 150);
    if (kind == LoadModel::Kind::kBurst) {
      for (const auto& [time, count] : at_once) EXPECT_EQ(count % 5, 0U) << time;
    }
  }
}

TEST(World, ATraceSaysWhenAndHowLong) {
  Model model = small_model();
  LoadModel& load = model.loads[0];
  load.kind = LoadModel::Kind::kTrace;
  load.times = {Time{0}, Time{Duration::millis(300).ns}, Time{Duration::millis(300).ns}, Time{Duration::seconds(2).ns}};
  load.device_times = {Duration::millis(1), Duration::millis(2), Duration::millis(3), Duration::millis(4)};
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  EXPECT_EQ(outcome.requests, 3U);  // the fourth comes after the end
  const auto submits = recorder.events<sched::Submit>();
  for (size_t i = 0; i < submits.size(); ++i) EXPECT_EQ(submits[i].first, load.times[i]);
  const auto finished = recorder.events<sched::Finished>();
  ASSERT_EQ(finished.size(), 3U);
  for (size_t i = 0; i < finished.size(); ++i) EXPECT_EQ(finished[i].second.device_time, load.device_times[i]);
}

TEST(World, StopsCallingAfterSoManyRequests) {
  Model model = small_model();
  model.most_requests = 17;
  model.length = Duration::forever();
  model.loads[0].clients = 5;
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  EXPECT_EQ(outcome.requests, 17U);
  EXPECT_EQ(recorder.actions<sched::Answer>().size(), 17U);
  EXPECT_TRUE(outcome.drained);
}

TEST(World, ARefusedCallerDoesNotSpin) {
  Model model = small_model();
  model.functions[0].memory_bytes = 16 * kGiB;
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  EXPECT_TRUE(outcome.drained);
  EXPECT_GT(outcome.requests, 100U);
  EXPECT_LE(outcome.requests, 1001U);
  for (const auto& [now, answer] : recorder.actions<sched::Answer>()) EXPECT_EQ(answer.end, sched::End::kTooLarge);
}

TEST(World, AStoppedRunEndsAtTheNextKernel) {
  Model model = small_model();
  model.functions[0].device_time = Duration::millis(500);
  model.functions[0].device_limit = Duration::millis(50);
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  EXPECT_TRUE(outcome.drained);
  const auto stops = recorder.actions<sched::StopRun>();
  const auto finished = recorder.events<sched::Finished>();
  ASSERT_FALSE(stops.empty());
  ASSERT_EQ(stops.size(), finished.size());
  for (size_t i = 0; i < stops.size(); ++i) {
    EXPECT_TRUE(finished[i].second.failed);
    EXPECT_LE(finished[i].first - stops[i].first, Duration::millis(1));
  }
}

TEST(World, StopsWhenAsked) {
  World world(stormy_model(), 1);
  Recorder recorder;
  world.observe(recorder);
  const auto stop = [](void* context) { return static_cast<Recorder*>(context)->steps.size() >= 100; };
  const auto outcome = world.run(stop, &recorder);
  EXPECT_EQ(outcome.steps, 100U);
  EXPECT_FALSE(outcome.drained);
}

TEST(World, ProgressIsTold) {
  struct Told {
    uint64_t times = 0, ended = 0, all = 0;
  } told;
  Model model = stormy_model();
  model.most_requests = 3000;
  model.length = Duration::forever();
  World world(model, 1);
  world.run(
      nullptr, nullptr,
      [](void* context, uint64_t ended, uint64_t all) {
        auto& told = *static_cast<Told*>(context);
        EXPECT_GE(ended, told.ended);
        told = {told.times + 1, ended, all};
      },
      &told);
  EXPECT_GT(told.times, 1U);
  EXPECT_EQ(told.all, 3000U);
  EXPECT_EQ(told.ended, 3000U);
}

TEST(World, EveryFaultStrikesAndAllWorkEnds) {
  constexpr uint64_t kSeeds = 20;
  std::map<std::string, uint64_t> struck;  // in how many of them
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Recorder recorder;
    const auto outcome = run(stormy_model(), seed, recorder);
    EXPECT_TRUE(outcome.drained) << seed;
    for (const char* name : {"executor_loss", "kernel_fault", "device_loss", "slow_load", "failed_load", "failed_start",
                             "late_event", "lost_memory", "cancel", "removal", "slow_fetch", "failed_fetch", "no_room",
                             "host_memory", "lease", "failed_launch", "unclear_loss"})
      struck[name] += outcome.faults.count(name) > 0;
    EXPECT_LT(outcome.ended, Time{Duration::seconds(60).ns}) << seed;
  }
  for (const auto& [name, seeds] : struck) EXPECT_GE(seeds, kSeeds / 2) << name;
}

/// What holds of reports whatever goes wrong: a run starts before it ends, and nothing is heard of an executor, nor of
/// its runs, after its loss.
TEST(World, ReportsOfAnExecutorComeInOrder) {
  Recorder recorder;
  const auto outcome = run(stormy_model(), 2, recorder);
  EXPECT_GT(outcome.faults.at("late_event"), 0U);
  std::map<uint64_t, uint64_t> executor_of;
  std::set<uint64_t> started, over, lost;
  size_t restarts = 0;
  for (size_t i = 0; i < recorder.steps.size(); ++i) {
    if (restarts < recorder.restarts.size() && recorder.restarts[restarts] == i) {
      ++restarts;
      executor_of.clear(), started.clear(), over.clear(), lost.clear();
    }
    const Step& step = recorder.steps[i];
    if (const auto* event = std::get_if<sched::Started>(&step.event)) {
      EXPECT_TRUE(started.insert(event->run.value).second) << i;
      EXPECT_FALSE(over.contains(event->run.value)) << i;
      EXPECT_FALSE(lost.contains(executor_of[event->run.value])) << i;
    } else if (const auto* event = std::get_if<sched::Finished>(&step.event)) {
      EXPECT_TRUE(over.insert(event->run.value).second) << i;
      EXPECT_TRUE(event->failed || started.contains(event->run.value)) << i;
      EXPECT_FALSE(lost.contains(executor_of[event->run.value])) << i;
    } else if (const auto* event = std::get_if<sched::Loaded>(&step.event)) {
      EXPECT_FALSE(lost.contains(event->executor.value)) << i;
    } else if (const auto* event = std::get_if<sched::Unloaded>(&step.event)) {
      EXPECT_FALSE(lost.contains(event->executor.value)) << i;
    } else if (const auto* event = std::get_if<sched::Trimmed>(&step.event)) {
      EXPECT_FALSE(lost.contains(event->executor.value)) << i;
    } else if (const auto* event = std::get_if<sched::ExecutorUp>(&step.event)) {
      EXPECT_FALSE(lost.contains(event->executor.value)) << i;
    } else if (const auto* event = std::get_if<sched::ExecutorLost>(&step.event)) {
      EXPECT_TRUE(lost.insert(event->executor.value).second) << i;
      EXPECT_TRUE(!event->culprit || started.contains(event->culprit->value)) << i;
    }
    for (const sched::Action& action : step.actions)
      if (const auto* run = std::get_if<sched::Run>(&action)) executor_of[run->run.value] = run->executor.value;
    EXPECT_TRUE(i == 0 || step.now >= recorder.steps[i - 1].now) << i;
  }
}

TEST(World, ARestartIntroducesAllAgain) {
  Model model = stormy_model();
  model.faults = {.restart = 5, .until = Duration::seconds(2)};
  Recorder recorder;
  const auto outcome = run(model, 4, recorder);
  ASSERT_FALSE(recorder.restarts.empty());
  EXPECT_EQ(outcome.faults.at("restart"), recorder.restarts.size());
  EXPECT_TRUE(outcome.drained);
  for (const size_t at : recorder.restarts) {
    EXPECT_TRUE(std::holds_alternative<sched::HostUp>(recorder.steps[at].event));
    for (size_t i = 1; i < 5; ++i) EXPECT_TRUE(std::holds_alternative<sched::DeviceUp>(recorder.steps[at + i].event));
    int64_t vtime = 0;
    for (size_t i = 5; i < 11; ++i) {
      const auto* tenant = std::get_if<sched::TenantSet>(&recorder.steps[at + i].event);
      ASSERT_TRUE(tenant);
      EXPECT_EQ(tenant->tenant.value, i - 4);
      vtime = std::max(vtime, tenant->vtime);
    }
    const auto* keep = std::get_if<sched::Keep>(&recorder.steps[at + 11].event);
    ASSERT_TRUE(keep);
    EXPECT_EQ(keep->function.value, 4U);
    EXPECT_EQ(keep->stage, sched::Stage::kHot);
    EXPECT_EQ(keep->objects.size(), 1U);
    EXPECT_TRUE(vtime > 0 || recorder.steps[at].now < Time{Duration::millis(500).ns});
  }
}

TEST(World, NothingGoesWrongAfterTheEndOfFaults) {
  Model model = stormy_model();
  Recorder recorder;
  run(model, 5, recorder);
  std::set<uint64_t> down;
  std::map<uint64_t, uint64_t> memory;
  uint64_t host = 0;
  const uint64_t blank = 64 * kMiB;  // one on each device
  for (const Step& step : recorder.steps) {
    if (const auto* event = std::get_if<sched::DeviceDown>(&step.event)) {
      EXPECT_LT(step.now, Time{model.faults.until.ns});
      down.insert(event->device.value);
    } else if (const auto* event = std::get_if<sched::DeviceUp>(&step.event)) {
      down.erase(event->device.value);
      memory[event->device.value] = event->memory_bytes;
    } else if (const auto* event = std::get_if<sched::DeviceMemory>(&step.event)) {
      memory[event->device.value] = event->memory_bytes;
    } else if (const auto* event = std::get_if<sched::HostUp>(&step.event)) {
      host = event->memory_bytes;
    }
    if (step.now > Time{model.faults.until.ns}) {
      EXPECT_TRUE(down.empty());
      EXPECT_EQ(host, 2 * kGiB);
      EXPECT_EQ(memory,
                (std::map<uint64_t, uint64_t>{
                    {1, 2 * kGiB - blank}, {2, 2 * kGiB - blank}, {3, 4 * kGiB - blank}, {4, 4 * kGiB - blank}}));
    }
  }
}

TEST(World, ARemovedFunctionComesBackAsAnother) {
  Model model = stormy_model();
  model.faults = {.removal = 20, .until = Duration::seconds(2)};
  Recorder recorder;
  run(model, 6, recorder);
  std::set<uint64_t> gone;
  for (const Step& step : recorder.steps) {
    if (const auto* event = std::get_if<sched::FunctionGone>(&step.event)) {
      EXPECT_TRUE(gone.insert(event->function.value).second);
    } else if (const auto* event = std::get_if<sched::Submit>(&step.event)) {
      EXPECT_FALSE(gone.contains(event->function.value));
      EXPECT_EQ((event->function.value - 1) % 6 + 1, event->tenant.value);
    }
  }
  EXPECT_GT(gone.size(), 10U);
}

TEST(Draws, AreWhatTheyClaim) {
  EXPECT_NEAR(natural_log(1), 0, 1e-12);
  EXPECT_NEAR(natural_log(2.718281828459045), 1, 1e-12);
  EXPECT_NEAR(natural_log(1e-9), -20.72326583694641, 1e-11);
  Prng prng(1);
  double exponential = 0, normal = 0, square = 0;
  constexpr int kMany = 100'000;
  for (int i = 0; i < kMany; ++i) {
    exponential += draw_exponential(prng);
    const double one = draw_normal(prng);
    normal += one, square += one * one;
    const Duration spread = draw_spread(prng, Duration::millis(1), 3);
    EXPECT_GE(spread, Duration::micros(200));
    EXPECT_LE(spread, Duration::millis(5));
  }
  EXPECT_NEAR(exponential / kMany, 1, 0.02);
  EXPECT_NEAR(normal / kMany, 0, 0.02);
  EXPECT_NEAR(square / kMany, 1, 0.02);
  EXPECT_EQ(draw_gap(prng, 0), Duration::forever());
  EXPECT_EQ(draw_spread(prng, Duration::millis(1), 0), Duration::millis(1));
}

}  // namespace
}  // namespace quern::sim
