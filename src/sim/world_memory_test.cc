// SPDX-License-Identifier: Apache-2.0
//
// Host, blank executors, lanes and what is kept: what each costs in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sched/policy/table.h"
#include "sim/test_recorder.h"

namespace quern::sim {
namespace {

/// One call, at 5 s.
Model one_call() {
  Model model = small_model();
  model.loads[0].kind = LoadModel::Kind::kTrace;
  model.loads[0].times = {Time{Duration::seconds(5).ns}};
  model.length = Duration::seconds(10);
  return model;
}

Duration latency(const Recorder& recorder) {
  const auto submits = recorder.events<sched::Submit>();
  const auto answers = recorder.actions<sched::Answer>();
  EXPECT_EQ(submits.size(), 1U);
  EXPECT_EQ(answers.size(), 1U);
  return answers.at(0).first - submits.at(0).first;
}

TEST(WorldMemory, FetchesComeOneAfterAnotherAndLoadsFollowThem) {
  Model model = one_call();
  model.devices[0].context = Duration::millis(100);
  model.devices[0].copy_bytes_per_second = 10 * kGiB;
  model.objects = {{"a", kGiB}, {"b", 2 * kGiB}};
  model.functions[0].objects = {0, 1};
  model.host = {8 * kGiB, kGiB, Duration::millis(1)};
  Recorder recorder;
  run(model, 1, recorder);
  const auto fetches = recorder.actions<sched::Fetch>();
  const auto fetched = recorder.events<sched::Fetched>();
  const auto loaded = recorder.events<sched::Loaded>();
  ASSERT_EQ(fetches.size(), 2U);
  ASSERT_EQ(fetched.size(), 2U);
  ASSERT_EQ(loaded.size(), 2U);
  const Time called{Duration::seconds(5).ns};
  EXPECT_EQ(fetches[0].first, called);  // beside the start of the executor
  EXPECT_EQ(fetched[0].first, called + Duration::millis(1001));
  EXPECT_EQ(fetched[1].first, called + Duration::millis(3002));
  EXPECT_EQ(loaded[0].first, called + Duration::millis(1101));
  EXPECT_EQ(loaded[1].first, called + Duration::millis(3202));
  EXPECT_EQ(latency(recorder), Duration::millis(3212));
}

TEST(WorldMemory, OneStepAfterTheOtherTakesTheSum) {
  Model model = one_call();
  model.devices[0].copy_bytes_per_second = 10 * kGiB;
  model.devices[0].framework = Duration::seconds(4);
  model.objects = {{"a", kGiB}};
  model.functions[0].objects = {0};
  model.host = {8 * kGiB, kGiB, {0}};
  model.pool = 1;
  std::map<std::string, Duration> took;
  for (const char* policy : {"serial", "sage", "quern"}) {
    model.config.policy = *sched::preset(policy);
    Recorder recorder;
    run(model, 1, recorder);
    took[policy] = latency(recorder);
  }
  EXPECT_EQ(took["serial"], Duration::millis(4100 + 1000 + 100 + 10));
  EXPECT_EQ(took["sage"], Duration::millis(4100 + 100 + 10));   // the fetch is over before the executor is there
  EXPECT_EQ(took["quern"], Duration::millis(1000 + 100 + 10));  // so is the start, with a blank one
}

TEST(WorldMemory, WhatIsReadInPlaceIsNotCopied) {
  Model model = one_call();
  model.devices[0].copy_bytes_per_second = 1;
  model.devices[0].load_latency = Duration::millis(3);
  model.devices[0].in_place = true;
  model.objects = {{"a", kGiB}};
  model.functions[0].objects = {0};
  model.host = {8 * kGiB, 100 * kGiB, {0}};
  Recorder recorder;
  run(model, 1, recorder);
  ASSERT_FALSE(recorder.events<sched::DeviceUp>().empty());
  EXPECT_TRUE(recorder.events<sched::DeviceUp>()[0].second.in_place);
  EXPECT_EQ(latency(recorder), Duration::millis(100 + 3 + 10));
}

TEST(WorldMemory, BlankExecutorsAreReadyAtOnceAndMadeAnew) {
  Model model = small_model();
  model.pool = 1;
  model.devices[0].context_bytes = kGiB;
  model.devices[0].framework = Duration::millis(400);
  // Three tenants, so three executors: the second comes while the next blank one is being made, the third later.
  model.tenants.resize(3);
  model.functions.resize(3, model.functions[0]);
  model.loads.assign(3, LoadModel{});
  for (uint32_t i = 0; i < 3; ++i) {
    model.functions[i].tenant = i;
    model.loads[i].function = i;
    model.loads[i].kind = LoadModel::Kind::kTrace;
    model.loads[i].times = {Time{Duration::millis(i == 2 ? 2000 : 100 * i).ns}};
  }
  model.length = Duration::seconds(10);
  Recorder recorder;
  run(model, 1, recorder);
  EXPECT_EQ(recorder.events<sched::DeviceUp>().at(0).second.memory_bytes, 7 * kGiB);
  const auto starts = recorder.actions<sched::StartExecutor>();
  const auto ups = recorder.events<sched::ExecutorUp>();
  ASSERT_EQ(starts.size(), 3U);
  ASSERT_EQ(ups.size(), 3U);
  EXPECT_EQ(ups[0].first - starts[0].first, Duration::millis(1));
  EXPECT_EQ(ups[1].first - starts[1].first, Duration::millis(500));
  EXPECT_EQ(ups[2].first - starts[2].first, Duration::millis(1));
}

TEST(WorldMemory, WhatIsKeptWarmIsThereBeforeTheFirstCall) {
  Model model = one_call();
  model.objects = {{"a", kGiB}};
  model.functions[0].objects = {0};
  model.host = {8 * kGiB, kGiB, {0}};
  model.config.policy.exit = "at-once";
  std::map<sched::Stage, Duration> took;
  for (const auto stage : {sched::Stage::kNothing, sched::Stage::kContext, sched::Stage::kHost, sched::Stage::kHot}) {
    model.functions[0].keep_warm = stage;
    Recorder recorder;
    run(model, 1, recorder);
    EXPECT_EQ(recorder.events<sched::Keep>().size(), stage == sched::Stage::kNothing ? 0U : 1U);
    took[stage] = latency(recorder);
  }
  EXPECT_EQ(took[sched::Stage::kHot], Duration::millis(10));
  EXPECT_EQ(took[sched::Stage::kHost], Duration::millis(10 + 100));
  EXPECT_EQ(took[sched::Stage::kContext], Duration::millis(10 + 100 + 1000));
  EXPECT_EQ(took[sched::Stage::kNothing], Duration::millis(10 + 100 + 1000));  // the executor starts meanwhile
}

TEST(WorldMemory, ALaneThatFindsNoRoomDoesNotRun) {
  Model model = small_model();
  model.functions[0].memory_bytes = kGiB;
  model.loads[0].clients = 2;
  model.config.room_back = Duration::millis(20);
  model.config.policy.exit = "at-once";  // so that lanes grow again and again
  model.length = Duration::seconds(2);
  model.faults = {.no_room = 50, .until = Duration::seconds(2)};
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  EXPECT_TRUE(outcome.drained);
  ASSERT_GT(outcome.faults.at("no_room"), 3U);
  std::set<sched::RunId> started, refused;
  for (const auto& [now, event] : recorder.events<sched::Started>()) started.insert(event.run);
  for (const auto& [now, event] : recorder.events<sched::Finished>()) {
    if (!event.no_room) continue;
    EXPECT_TRUE(event.failed);
    EXPECT_FALSE(started.contains(event.run));
    refused.insert(event.run);
  }
  EXPECT_EQ(refused.size(), outcome.faults.at("no_room"));
  // Who comes while the only device is taken for smaller waits.
  for (const auto& [now, answer] : recorder.actions<sched::Answer>())
    EXPECT_EQ(answer.end, sched::End::kDone) << sched::name_of(answer.end);
}

TEST(WorldMemory, ARunWhoseLoadFailsFailsToo) {
  Model model = small_model();
  model.objects = {{"a", kGiB}};
  model.functions[0].objects = {0};
  model.loads[0].think = Duration::millis(1);
  model.config.policy.exit = "at-once";
  model.faults = {.failed_load = 50, .until = Duration::seconds(1)};
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  ASSERT_GT(outcome.faults.at("failed_load"), 1U);
  std::set<sched::RunId> sent, doomed;
  for (const Step& step : recorder.steps) {
    if (const auto* event = std::get_if<sched::Loaded>(&step.event); event && event->failed) doomed = sent;
    if (const auto* event = std::get_if<sched::Started>(&step.event)) {
      EXPECT_FALSE(doomed.contains(event->run));
    }
    if (const auto* event = std::get_if<sched::Finished>(&step.event)) {
      EXPECT_EQ(event->failed, doomed.erase(event->run) == 1);
      sent.erase(event->run);
    }
    for (const sched::Action& action : step.actions)
      if (const auto* run = std::get_if<sched::Run>(&action)) sent.insert(run->run);
  }
  EXPECT_TRUE(doomed.empty());
}

TEST(WorldMemory, TheHostHasLessMemoryForAWhile) {
  Model model = small_model();
  model.host.memory_bytes = 8 * kGiB;
  model.faults = {.host_memory = 20, .until = Duration::seconds(1)};
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  const auto ups = recorder.events<sched::HostUp>();
  ASSERT_GE(ups.size(), 3U);
  EXPECT_EQ(ups.size(), 1 + 2 * outcome.faults.at("host_memory"));
  for (size_t i = 0; i < ups.size(); ++i) EXPECT_EQ(ups[i].second.memory_bytes < 8 * kGiB, i % 2 == 1) << i;
}

}  // namespace
}  // namespace quern::sim
