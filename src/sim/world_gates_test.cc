// SPDX-License-Identifier: Apache-2.0
//
// Levels, gates and programs: who is on the device, and when.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "sim/test_recorder.h"
#include "sim/trial.h"

namespace quern::sim {
namespace {

Time at_ms(int64_t ms) { return Time{Duration::millis(ms).ns}; }

/// One device that is up at 100 ms; a call at 0 ms that may wait and takes 500 ms of it, and `times` at which something
/// urgent of 1 ms is called.
Model long_and_urgent(const std::string& dispatch, std::vector<Time> times) {
  Model model = small_model();
  model.config.policy.dispatch = dispatch;
  model.functions[0].device_time = Duration::millis(500);
  model.functions[0].priority = 9;
  model.functions.push_back(model.functions[0]);
  model.functions[1].name = "urgent";
  model.functions[1].device_time = Duration::millis(1);
  model.functions[1].priority = 0;
  model.loads[0].kind = LoadModel::Kind::kTrace;
  model.loads[0].times = {Time{0}};
  model.loads.push_back(model.loads[0]);
  model.loads[1].function = 1;
  model.loads[1].times = std::move(times);
  return model;
}

/// The same call of 50 ms beside a program that pauses after each kernel as long as it takes.
Model beside_a_program(const std::string& dispatch) {
  Model model = long_and_urgent(dispatch, {});
  model.functions[0].device_time = Duration::millis(50);
  model.programs.push_back({.name = "render", .priority = 0});
  return model;
}

/// From Submit to Answer, by request.
std::vector<Duration> latencies(const Recorder& recorder) {
  std::vector<Duration> all;
  for (const auto& [called, submit] : recorder.events<sched::Submit>())
    for (const auto& [answered, answer] : recorder.actions<sched::Answer>()) {
      if (answer.request != submit.request) continue;
      EXPECT_EQ(answer.end, sched::End::kDone);
      all.push_back(answered - called);
    }
  return all;
}

std::string violation_of(const Model& model) {
  const Trial trial = try_model(model, 1);
  return trial.violation ? trial.violation->text : "";
}

TEST(WorldGates, AnUrgentCallDoesNotWaitForALongRun) {
  for (const char* dispatch : {"fill", "strict", "fikit"}) {
    const Model model = long_and_urgent(dispatch, {at_ms(200), at_ms(250), at_ms(300)});
    Recorder recorder;
    EXPECT_TRUE(run(model, 1, recorder).drained) << dispatch;
    EXPECT_EQ(latencies(recorder), (std::vector<Duration>{Duration::millis(603), Duration::millis(1),
                                                          Duration::millis(1), Duration::millis(1)}))
        << dispatch;
    // It started once, and what it had done before it was taken off was not lost.
    EXPECT_EQ(recorder.events<sched::Started>().size(), 4U) << dispatch;
    const auto finished = recorder.events<sched::Finished>();
    ASSERT_EQ(finished.size(), 4U) << dispatch;
    EXPECT_EQ(finished.back().second.device_time, Duration::millis(500)) << dispatch;
    EXPECT_EQ(violation_of(model), "") << dispatch;
  }
}

TEST(WorldGates, WithoutGatesItWaits) {
  const Model model = long_and_urgent("none", {at_ms(200), at_ms(250), at_ms(300)});
  Recorder recorder;
  EXPECT_TRUE(run(model, 1, recorder).drained);
  const auto all = latencies(recorder);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0], Duration::millis(600));
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i], Duration::millis(300)) << i;
  EXPECT_TRUE(recorder.actions<sched::Grant>().empty());
  EXPECT_EQ(violation_of(model), "");
}

TEST(WorldGates, WithoutLevelsItWaits) {
  Model model = long_and_urgent("fill", {at_ms(200)});
  model.config.policy.fairness = "fifo";
  Recorder recorder;
  run(model, 1, recorder);
  EXPECT_EQ(latencies(recorder), (std::vector<Duration>{Duration::millis(600), Duration::millis(401)}));
}

// After some calls it is known when the next comes: the other is open until then, and once it is late, open again.
TEST(WorldGates, AGateClosesByItself) {
  std::vector<Time> times;
  for (int64_t ms = 200; ms < 280; ms += 10) times.push_back(at_ms(ms));
  const Model model = long_and_urgent("fill", times);
  Recorder recorder;
  EXPECT_TRUE(run(model, 1, recorder).drained);
  const auto all = latencies(recorder);
  ASSERT_EQ(all.size(), 9U);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i], Duration::millis(1)) << i;
  bool has_end = false;
  for (const auto& [now, grant] : recorder.actions<sched::Grant>())
    has_end |= grant.until == at_ms(280) + model.config.launch_latency;
  EXPECT_TRUE(has_end);
  // Eight times 1 ms, and less than a millisecond in which nobody knew.
  EXPECT_GT(all[0], Duration::millis(608));
  EXPECT_LT(all[0], Duration::millis(609));
  EXPECT_EQ(recorder.events<sched::Finished>().back().second.device_time, Duration::millis(500));
  EXPECT_EQ(violation_of(model), "");
}

// As launcher/program.h does it: once the launch is on its way, and with the times of what happened.
TEST(WorldGates, AProgramTellsSinceWhenItHadWorkAndWhenThatBegan) {
  Model model = beside_a_program("fill");
  model.devices[0].sharing = DeviceModel::Sharing::kQueue;
  model.devices[0].launch = Duration::micros(20);
  Recorder recorder;
  EXPECT_TRUE(run(model, 1, recorder).drained);
  Time since = {0};
  size_t returns = 0, clear = 0;
  for (const auto& [now, ready] : recorder.events<sched::WorkReady>()) {
    if (!sched::is_program(ready.launcher) || ready.at.ns == 0) continue;
    EXPECT_LE(ready.at, now);
    if (now - ready.at == Duration::micros(10)) since = ready.at, ++returns;
    for (const auto& [then, gap] : recorder.events<sched::GapBegun>())
      if (gap.started == since + model.devices[0].launch) ++clear;
  }
  EXPECT_GT(returns, 10U);
  EXPECT_GT(clear, 5U) << "nobody is in its way where a gap is left clear";
}

TEST(WorldGates, GapsOfAProgramAreFilled) {
  const Model model = beside_a_program("fill");
  Recorder recorder;
  EXPECT_TRUE(run(model, 1, recorder).drained);
  const auto all = latencies(recorder);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_LE(all[0], Duration::millis(205));  // 100 ms until the executor is up, and then half of the time
  EXPECT_GE(all[0], Duration::millis(195));
  // The program does not notice.
  const auto gaps = recorder.events<sched::GapBegun>();
  EXPECT_GT(gaps.size(), 40U);
  for (size_t i = 1; i < gaps.size(); ++i) EXPECT_EQ(gaps[i].first - gaps[i - 1].first, Duration::millis(2)) << i;
  EXPECT_FALSE(recorder.events<sched::DeviceUsed>().empty());
  EXPECT_EQ(violation_of(model), "");
}

TEST(WorldGates, StrictlyNobodyFillsThem) {
  Model model = beside_a_program("strict");
  Recorder recorder;
  EXPECT_TRUE(run(model, 1, recorder).drained);
  const auto all = latencies(recorder);
  ASSERT_EQ(all.size(), 1U);
  // A millisecond in each hundred until the program is gone.
  EXPECT_GT(all[0], model.length);
  EXPECT_LT(all[0], model.length + Duration::millis(50));
  EXPECT_EQ(violation_of(model), "");
}

TEST(WorldGates, AProgramThatIsNeverOpenEnds) {
  for (const bool has_length : {true, false}) {
    Model model = long_and_urgent("fill", {});
    model.config.least_share = 0;
    model.functions[0].priority = 0;
    model.functions[0].device_time = Duration::seconds(5);
    model.programs.push_back({.name = "idle", .priority = 9});
    if (!has_length) model.length = Duration::forever();
    Recorder recorder;
    EXPECT_TRUE(run(model, 1, recorder).drained) << has_length;
    const auto gone = recorder.events<sched::LauncherGone>();
    ASSERT_EQ(gone.size(), 1U) << has_length;
    EXPECT_EQ(gone[0].first, has_length ? at_ms(1000) : at_ms(5100));
    EXPECT_EQ(violation_of(model), "") << has_length;
  }
}

TEST(WorldGates, ProgramsComeAndGo) {
  Model model = small_model();
  model.devices[0].count = 2;
  model.loads[0].clients = 4;
  for (uint32_t i = 0; i < 3; ++i)
    model.programs.push_back({.name = "p" + std::to_string(i),
                              .device = i,
                              .priority = static_cast<uint8_t>(3 * i),
                              .kernels = i + 1,
                              .kernel = Duration::micros(300),
                              .gap = Duration::millis(1 + i),
                              .jitter = 0.4,
                              .sliceable = i != 1});
  model.faults = {.device_loss = 5, .restart = 4, .program_loss = 20, .silence = 5, .until = Duration::seconds(2)};
  model.length = Duration::seconds(3);
  Recorder recorder;
  const auto outcome = run(model, 1, recorder);
  EXPECT_TRUE(outcome.drained);
  for (const char* name : {"device_loss", "restart", "program_loss", "silence"})
    EXPECT_GT(outcome.faults.count(name), 0U) << name;
  std::set<uint64_t> ever, here;
  size_t restarts = 0;
  for (size_t i = 0; i < recorder.steps.size(); ++i) {
    if (restarts < recorder.restarts.size() && recorder.restarts[restarts] == i) ++restarts, here.clear();
    const sched::Event& event = recorder.steps[i].event;
    if (const auto* came = std::get_if<sched::LauncherUp>(&event)) {
      EXPECT_TRUE(ever.insert(came->launcher.value).second) << i;
      here.insert(came->launcher.value);
    } else if (const auto* gone = std::get_if<sched::LauncherGone>(&event)) {
      EXPECT_EQ(here.erase(gone->launcher.value), 1U) << i;
    } else if (const auto* ready = std::get_if<sched::WorkReady>(&event)) {
      EXPECT_TRUE(here.contains(ready->launcher.value)) << i;
    } else if (const auto* gap = std::get_if<sched::GapBegun>(&event)) {
      EXPECT_TRUE(here.contains(gap->launcher.value)) << i;
    }
  }
  EXPECT_TRUE(here.empty());
  EXPECT_GT(ever.size(), 10U);
}

}  // namespace
}  // namespace quern::sim
