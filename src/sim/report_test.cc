// SPDX-License-Identifier: Apache-2.0
#include "sim/report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"
#include "sim/report_text.h"

namespace quern::sim {
namespace {

Time at(int64_t ms) { return {ms * 1'000'000}; }

Model two_tenants() {
  Model model;
  model.devices = {DeviceModel{}};
  model.devices[0].count = 2;
  for (const char* name : {"a", "b"}) {
    TenantModel tenant;
    tenant.name = name;
    FunctionModel function;
    function.name = "f";
    function.tenant = static_cast<uint32_t>(model.tenants.size());
    model.tenants.push_back(tenant);
    model.functions.push_back(function);
  }
  return model;
}

/// Feeds a report by hand, without a world.
class Hand {
 public:
  explicit Hand(Duration skip = {0}) : report(model, skip) {}

  void step(Time now, const sched::Event& event, const std::vector<sched::Action>& actions = {}) {
    report.on_step(now, event, actions, core);
  }
  /// A request that is submitted, runs at once, and ends after `took`.
  void request(uint64_t id, uint64_t function, Time from, Duration took) {
    submit(id, function, from, {sched::Run{{id}, {id}, {1}, 0}});
    step(from + took, sched::Finished{.run = {id}, .device_time = took},
         {sched::Answer{{id}, sched::End::kDone, {}, {0}}});
  }
  void submit(uint64_t id, uint64_t function, Time from, const std::vector<sched::Action>& actions = {}) {
    sched::Submit submit;
    submit.request = {id};
    submit.function = {function};
    step(from, submit, actions);
  }
  Summary summary() const { return report.summary("hand", {}); }

  Model model = two_tenants();
  sched::Scheduler core{sched::Config{}};
  Report report;
};

TEST(Histogram, IsWithinOnePercentOfTheExactPercentiles) {
  Prng prng(3);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<int64_t>(prng.next() >> (10 + prng.below(50)));
    values.push_back(value);
    histogram.add(Duration{value});
  }
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  EXPECT_NEAR(histogram.mean_ns() / (sum / 20'000), 1, 1e-9);
  EXPECT_EQ(histogram.largest().ns, values.back());
  for (const double part : {0.0001, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(values[static_cast<size_t>(part * 20'000 + 0.5) - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.percentile(part).ns), exact, 0.01 * exact + 0.5) << part;
  }
}

TEST(Histogram, KnowsItsEnds) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), Duration{0});
  EXPECT_EQ(histogram.mean_ns(), 0);
  histogram.add(Duration::forever());
  histogram.add({0});
  histogram.add({-5});
  histogram.add({127});
  histogram.add({128});
  EXPECT_EQ(histogram.percentile(0.4), Duration{0});
  EXPECT_EQ(histogram.percentile(0.6), Duration{127});
  EXPECT_EQ(histogram.percentile(0.8), Duration{128});
  EXPECT_GT(histogram.percentile(1).ns, Duration::forever().ns / 128 * 127);
  EXPECT_EQ(histogram.largest(), Duration::forever());
}

TEST(Report, MeasuresRequestsAsTheirCallersSeeThem) {
  Hand hand;
  for (uint64_t i = 0; i < 10; ++i)
    hand.request(i + 1, 1 + i % 2, at(static_cast<int64_t>(100 * i)), Duration::millis(i % 2 == 0 ? 10 : 20));
  hand.submit(11, 1, at(950), {sched::Answer{{11}, sched::End::kQueueFull, {}, Duration::millis(5)}});
  hand.submit(12, 2, at(950),
              {sched::StartExecutor{{1}, {1}, {1}, {}}, sched::Fetch{{1}, 90}, sched::Load{{1}, {1}, 100}});
  hand.step(at(1000), sched::Tick{}, {sched::Answer{{12}, sched::End::kDeadlineQueued, {}, {0}}});
  const Summary summary = hand.summary();
  EXPECT_EQ(summary.all.requests, 12U);
  EXPECT_EQ(summary.all.done(), 10U);
  EXPECT_EQ(summary.all.ends[static_cast<size_t>(sched::End::kQueueFull)], 1U);
  EXPECT_EQ(summary.all.ends[static_cast<size_t>(sched::End::kDeadlineQueued)], 1U);
  EXPECT_EQ(summary.all.latency.count(), 10U);
  EXPECT_EQ(summary.all.latency.mean_ns(), 15e6);
  EXPECT_EQ(summary.measured, Duration::seconds(1));
  EXPECT_EQ(summary.per_second(), 10);
  EXPECT_DOUBLE_EQ(summary.utilisation(), 0.150 / 2);
  EXPECT_EQ(summary.tenants[0].requests, 6U);
  EXPECT_EQ(summary.tenants[0].latency.mean_ns(), 10e6);
  EXPECT_EQ(summary.functions[1].device_time, Duration::millis(100));
  EXPECT_EQ(summary.executors_started, 1U);
  EXPECT_EQ(summary.loads, 1U);
  EXPECT_EQ(summary.loaded_bytes, 100U);
  EXPECT_EQ(summary.fetches, 1U);
  EXPECT_EQ(summary.fetched_bytes, 90U);
}

TEST(Report, LeavesOutWhatWasCalledBefore) {
  Hand hand(Duration::millis(500));
  for (uint64_t i = 0; i < 10; ++i) hand.request(i + 1, 1, at(static_cast<int64_t>(100 * i)), Duration::millis(10));
  const Summary summary = hand.summary();
  EXPECT_EQ(summary.all.requests, 5U);
  EXPECT_EQ(summary.all.done(), 5U);
  EXPECT_EQ(summary.measured, Duration::millis(410));
  EXPECT_EQ(summary.all.device_time, Duration::millis(50));
}

TEST(Report, CountsWhatARestartLost) {
  Hand hand;
  hand.submit(1, 1, at(0), {sched::Run{{1}, {1}, {1}, 0}});
  hand.submit(2, 4, at(0));  // the second function, after it was removed once
  hand.report.on_restart(at(1));
  hand.request(3, 1, at(2), Duration::millis(1));  // with run 3; the ids of a new core may begin anew
  const Summary summary = hand.summary();
  EXPECT_EQ(summary.all.requests, 3U);
  EXPECT_EQ(summary.all.lost_in_restart, 2U);
  EXPECT_EQ(summary.tenants[1].lost_in_restart, 1U);
  EXPECT_EQ(summary.all.done(), 1U);
}

TEST(Report, OfAWorldAddsUp) {
  Model model = two_tenants();
  model.devices[0].context = Duration::millis(1);
  for (uint32_t i = 0; i < 2; ++i) {
    LoadModel load;
    load.function = i;
    load.clients = 4;
    model.loads.push_back(load);
  }
  World world(model, 1);
  Report report(model, Duration::seconds(1));
  world.observe(report);
  const Summary summary = report.summary("quern", world.run());
  EXPECT_GT(summary.all.requests, 10'000U);
  EXPECT_EQ(summary.all.requests, summary.tenants[0].requests + summary.tenants[1].requests);
  EXPECT_EQ(summary.all.done(), summary.all.requests);
  EXPECT_NEAR(summary.utilisation(), 1, 0.01);  // always four runs of 1 ms for each device
  EXPECT_NEAR(summary.per_second(), 2000, 20);
  EXPECT_NEAR(summary.all.latency.mean_ns(), 4e6, 0.1e6);
}

TEST(Report, CountsHitsAndWhatComesAndGoes) {
  Model model = two_tenants();
  model.devices[0].count = 1;
  model.devices[0].memory_bytes = 100;
  model.objects = {{"a", 60}, {"b", 60}};
  model.host.memory_bytes = 120;
  model.config.policy.exit = "never";
  model.length = Duration::seconds(2);
  for (uint32_t i = 0; i < 2; ++i) {
    model.functions[i].objects = {i};
    LoadModel load;
    load.function = i;
    load.clients = 1 + 2 * i;
    load.think = Duration::millis(20);
    model.loads.push_back(load);
  }
  World world(model, 1);
  Report report(model, {0});
  world.observe(report);
  const Summary summary = report.summary("quern", world.run());
  EXPECT_EQ(summary.hits + summary.misses, summary.all.requests);
  EXPECT_GT(summary.misses, 2U);  // only one of both fits at a time
  EXPECT_GT(summary.evictions, 2U);
  EXPECT_EQ(summary.fetches, 2U);
  EXPECT_EQ(summary.fetched_bytes, 120U);
  EXPECT_GT(summary.hit_rate(), 0);
  EXPECT_LT(summary.hit_rate(), 1);
  EXPECT_EQ(Summary{}.hit_rate(), 1);
}

TEST(ReportText, ShowsPoliciesSideBySide) {
  Hand hand;
  hand.request(1, 1, at(0), Duration::millis(10));
  hand.submit(2, 2, at(10), {sched::Answer{{2}, sched::End::kTooLarge, {}, {0}}});
  std::vector<Summary> both{hand.summary(), hand.summary()};
  both[1].policy = "other";
  both[1].outcome.faults["hang"] = 3;
  both[1].hits = 1, both[1].misses = 3, both[1].exits = 4;
  both[0].outcome.drained = true;
  const std::string table = table_of(hand.model, both, Detail::kTenants);
  EXPECT_TRUE(
      table.starts_with("POLICY               hand   other\n"
                        "requests                2       2\n"
                        "  done                  1       1\n"))
      << table;
  EXPECT_NE(table.find("throughput          100/s   100/s\n"), std::string::npos) << table;
  EXPECT_NE(table.find("fault hang              0       3\n"), std::string::npos) << table;
  EXPECT_NE(table.find("hits               100.0%   25.0%\n"), std::string::npos) << table;
  EXPECT_NE(table.find("exits                   0       4\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("\nfetches"), std::string::npos) << table;
  both[0].fetches = 7;
  EXPECT_NE(table_of(hand.model, both, Detail::kNone).find("fetches                 7       0\n"), std::string::npos);
  EXPECT_NE(table.find("all work ended        yes      NO\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\nother:\nTENANT  REQUESTS"), std::string::npos) << table;
  EXPECT_NE(table_of(hand.model, both, Detail::kFunctions).find("a/f"), std::string::npos);
}

TEST(ReportText, ShowsTheRoundsOfPrograms) {
  Hand hand(Duration::millis(15));
  hand.model.programs.push_back({.name = "render"});
  World::Outcome outcome;
  // The first began before anything counts.
  outcome.rounds = {{{at(10), at(12)}, {at(20), at(24)}, {at(30), at(34)}}};
  const std::vector<Summary> one{hand.report.summary("hand", outcome)};
  const std::string table = table_of(hand.model, one, Detail::kNone);
  EXPECT_NE(table.find("render rounds           2\n"), std::string::npos) << table;
  EXPECT_NE(table.find("render p50"), std::string::npos) << table;
  EXPECT_NE(table.find("render p95"), std::string::npos) << table;
  const std::string json = json_of(hand.model, one, 7, Detail::kNone);
  EXPECT_NE(json.find("\"programs\": [{\"name\": \"render\", \"rounds\": 2, \"round_ns\": {\"mean\": 4000000, "),
            std::string::npos)
      << json;
}

TEST(ReportText, JsonHasTheSameNumbers) {
  Hand hand;
  hand.request(1, 1, at(0), Duration::millis(10));
  const std::vector<Summary> one{hand.summary()};
  const std::string json = json_of(hand.model, one, 7, Detail::kTenants);
  EXPECT_TRUE(
      json.starts_with("{\"seed\": 7, \"policies\": [{\"policy\": \"hand\", \"requests\": 1, \"ends\": {\"done\": "
                       "1}, \"lost_in_restart\": 0, \"per_second\": 100, \"latency_ns\": {\"mean\": 10000000, "))
      << json;
  EXPECT_NE(json.find("\"fetches\": 0, \"fetched_bytes\": 0, \"hits\": 0, \"misses\": 0, \"prefetches\": 0, "
                      "\"evictions\": 0, \"exits\": 0, "),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("\"tenants\": [{\"name\": \"a\", \"requests\": 1"), std::string::npos) << json;
  EXPECT_TRUE(json.ends_with("]}]}\n")) << json;
}

}  // namespace
}  // namespace quern::sim
