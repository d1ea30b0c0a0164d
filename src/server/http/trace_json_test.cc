// SPDX-License-Identifier: Apache-2.0
#include "server/http/trace_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <map>

namespace quern::server {
namespace {

namespace json = boost::json;
using daemon::Trace;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Time at(int64_t us) { return {1'000'000'000 + us * 1'000}; }

class TraceJsonTest : public testing::Test {
 protected:
  TraceJsonTest() {
    trace_.from = at(0);
    trace_.to = at(1000);
    trace_.devices = {{1, "cpu0"}, {2, "cpu1"}};
    trace_.names = {"", std::string(Trace::kOther), "slow", "grind", "say \"hi\""};
  }
  uint32_t lane(uint32_t number = 0) {
    Trace::Launcher launcher;
    launcher.device = 1;
    launcher.executor = 7;
    launcher.lane = number;
    trace_.launchers.push_back(launcher);
    return static_cast<uint32_t>(trace_.launchers.size() - 1);
  }
  uint32_t run(uint32_t launcher, uint32_t name, int64_t from, int64_t to) {
    Trace::Run run;
    run.launcher = launcher;
    run.name = name;
    if (name != kOther) run.request = "r-1";
    run.priority = 9;
    run.from = at(from);
    run.to = at(to);
    run.is_over = true;
    trace_.runs.push_back(run);
    return static_cast<uint32_t>(trace_.runs.size() - 1);
  }
  void launch(uint32_t run, uint64_t first, uint64_t parts, uint64_t of, int64_t from, int64_t to, uint32_t name = 3) {
    trace_.launches.push_back({trace_.runs[run].launcher, run, name, 0, first, parts, of, at(from), at(to)});
  }
  void write() {
    text_ = trace_json(trace_);
    root_ = json::parse(text_);
  }
  /// Events of one category, as "name from+length".
  std::vector<std::string> shown(std::string_view category) const {
    std::vector<std::string> list;
    for (const json::value& event : events(category)) {
      std::string line(event.at("name").as_string());
      line += " " + std::to_string(event.at("ts").to_number<int64_t>());
      if (event.at("ph") == "X") line += "+" + std::to_string(event.at("dur").to_number<int64_t>());
      list.push_back(line);
    }
    return list;
  }
  std::vector<json::value> events(std::string_view category) const {
    std::vector<json::value> list;
    for (const json::value& event : root_.at("traceEvents").as_array())
      if (const json::value* cat = event.as_object().if_contains("cat"); cat && cat->as_string() == category)
        list.push_back(event);
    return list;
  }
  std::vector<std::string> threads() const {
    std::vector<std::string> list;
    for (const json::value& event : root_.at("traceEvents").as_array())
      if (event.at("name") == "thread_name") list.emplace_back(event.at("args").at("name").as_string());
    return list;
  }

  static constexpr uint32_t kOther = 1, kSlow = 2, kGrind = 3, kSayHi = 4;
  Trace trace_;
  std::string text_;
  json::value root_;
};

TEST_F(TraceJsonTest, OfNothingHasItsDevices) {
  trace_.dropped = 3;
  write();
  EXPECT_EQ(root_.at("otherData").at("length_us").to_number<double>(), 1000);
  EXPECT_EQ(root_.at("otherData").at("dropped"), 3);
  const json::array& list = root_.at("traceEvents").as_array();
  EXPECT_EQ(list.at(0).at("args").at("name"), "device cpu0");
  EXPECT_EQ(list.at(2).at("args").at("name"), "device cpu1");
  for (const json::value& event : list)
    for (const char* key : {"ph", "ts", "pid", "tid", "name"}) EXPECT_TRUE(event.as_object().contains(key)) << event;
  EXPECT_THAT(text_, HasSubstr("3 spans more are not in it"));
}

TEST_F(TraceJsonTest, SlicesAreInTheirKernelAndKernelsInTheirRun) {
  const uint32_t one = run(lane(), kSlow, 100, 500);
  launch(one, 0, 10, 10, 110, 150);  // whole
  launch(one, 0, 4, 10, 200, 240);
  launch(one, 4, 3, 10, 300, 330);
  launch(one, 7, 3, 10, 330, 360);
  launch(one, 0, 5, 10, 400, 420);  // the next kernel, which was not seen to end
  write();
  EXPECT_THAT(shown("run"), ElementsAre("slow 100+400"));
  EXPECT_THAT(shown("kernel"), ElementsAre("grind 110+40", "grind 200+160", "grind 400+20"));
  EXPECT_THAT(shown("slice"),
              ElementsAre("grind 1/3 200+40", "grind 2/3 300+30", "grind 3/3 330+30", "grind 1/1 400+20"));
  const auto kernels = events("kernel");
  EXPECT_FALSE(kernels[0].at("args").as_object().contains("slices"));
  EXPECT_EQ(kernels[1].at("args").at("slices"), 3);
  EXPECT_EQ(kernels[1].at("args").at("function"), "slow");
  EXPECT_EQ(kernels[2].at("args").at("parts"), 5);
  EXPECT_EQ(kernels[2].at("args").at("of"), 10);
  EXPECT_EQ(events("slice")[1].at("args").at("first"), 4);
  for (const json::value& event : kernels) EXPECT_EQ(event.at("tid"), events("run")[0].at("tid"));
}

TEST_F(TraceJsonTest, WhatIsOnOneThreadDoesNotOverlap) {
  const uint32_t on = lane();
  const uint32_t first = run(on, kSlow, 100, 310), second = run(on, kSlow, 300, 400);
  launch(first, 0, 1, 1, 90, 200);   // clocks differ
  launch(first, 0, 1, 1, 190, 320);  // by more than a launch lasts
  launch(second, 0, 1, 1, 300, 420);
  write();
  EXPECT_THAT(shown("run"), ElementsAre("slow 100+210", "slow 310+90"));
  EXPECT_THAT(shown("kernel"), ElementsAre("grind 100+100", "grind 200+110", "grind 310+90"));
}

TEST_F(TraceJsonTest, AGateTellsWhyItIsClosed) {
  const uint32_t on = lane();
  run(on, kSlow, 0, 900);
  Trace::Gate closed{on, 0, false, false, "urgent", {0}, Time::never(), {0}, at(10), at(40)};
  Trace::Gate open{on, 0, true, true, "", at(60), at(80), Duration::micros(50), at(40), at(100)};
  Trace::Gate before{on, 0, false, false, "", {0}, Time::never(), {0}, at(0), at(10)};
  trace_.gates = {before, closed, open};
  write();
  EXPECT_THAT(shown("gate"), ElementsAre("closed: closed before the trace began 0+10", "closed: urgent 10+30",
                                         "open: fills a gap 40+60"));
  const auto gates = events("gate");
  EXPECT_EQ(gates[1].at("args").at("why"), "urgent");
  EXPECT_EQ(gates[2].at("args").at("from_us").to_number<double>(), 60);
  EXPECT_EQ(gates[2].at("args").at("until_us").to_number<double>(), 80);
  EXPECT_EQ(gates[2].at("args").at("slice_us").to_number<double>(), 50);
  EXPECT_THAT(threads(), ElementsAre("executor 7, lane 0", "executor 7, lane 0: gate"));
}

TEST_F(TraceJsonTest, AGapTellsWhoFilledIt) {
  run(lane(), kSlow, 0, 900);
  trace_.gaps.push_back(
      {Trace::kNone, 1, 44, kSayHi, 0, at(100), at(200), {{kSlow, Duration::micros(60)}, {kOther, {1500}}}});
  write();
  EXPECT_THAT(shown("gap"), ElementsAre("gap of say \"hi\" 100+100"));
  const json::value args = events("gap")[0].at("args");
  EXPECT_EQ(args.at("filled_us").to_number<double>(), 61.5);
  EXPECT_EQ(args.at("filled_by").at(0).at("name"), "slow");
  EXPECT_EQ(args.at("filled_by").at(1).at("us").to_number<double>(), 1.5);
  EXPECT_THAT(threads(), ElementsAre("executor 7, lane 0", "say \"hi\": between its runs"));
}

TEST_F(TraceJsonTest, LoadsThatOverlapHaveThreadsOfTheirOwn) {
  trace_.loads.push_back({1, 7, kSlow, 4096, false, true, at(10), at(50)});
  trace_.loads.push_back({1, 7, kGrind, 10, true, false, at(20), at(60)});
  trace_.loads.push_back({1, 7, kGrind, 10, false, false, at(50), at(1000)});
  trace_.loads.push_back({0, 0, kGrind, 10, false, true, at(5), at(9)});
  trace_.processes.push_back({1, 7, true, false, at(0), at(8)});
  trace_.processes.push_back({1, 7, false, true, at(700), at(700)});
  write();
  EXPECT_THAT(shown("load"),
              ElementsAre("fetch grind 5+4", "load slow 10+40", "load grind 20+40", "load grind 50+950"));
  EXPECT_THAT(shown("executor"), ElementsAre("executor 7 starts 0+8", "executor 7 is lost 700"));
  const auto loads = events("load");
  EXPECT_NE(loads[1].at("tid"), loads[2].at("tid"));
  EXPECT_EQ(loads[1].at("tid"), loads[3].at("tid"));
  EXPECT_EQ(loads[0].at("pid"), 3) << "the host is behind the devices";
  EXPECT_EQ(loads[1].at("args").at("bytes"), 4096);
  EXPECT_TRUE(loads[2].at("args").at("failed").as_bool());
  EXPECT_TRUE(loads[3].at("args").at("goes_on").as_bool());
  EXPECT_THAT(text_, HasSubstr("\"host\""));
}

TEST_F(TraceJsonTest, OfOthersItTellsTheTimeAlone) {
  const uint32_t theirs = run(lane(), kOther, 100, 500);
  launch(theirs, 0, 1, 1, 110, 150, kOther);
  write();
  EXPECT_THAT(shown("run"), ElementsAre("another tenant 100+400"));
  EXPECT_THAT(shown("kernel"), ElementsAre("another tenant 110+40"));
  EXPECT_EQ(json::serialize(events("run")[0].at("args")), R"({"function":"another tenant"})");
  EXPECT_EQ(json::serialize(events("kernel")[0].at("args")), R"({"function":"another tenant"})");
}

TEST_F(TraceJsonTest, AProgramHasWorkAndLaunches) {
  Trace::Launcher program;
  program.device = 2;
  program.is_program = true;
  program.name = kSayHi;
  trace_.launchers.push_back(program);
  trace_.works.push_back({0, at(100), at(200), 70'000});
  trace_.launches.push_back({0, Trace::kNone, kSayHi, 0, 0, 5, 5, at(110), at(180)});
  trace_.gaps.push_back({0, 2, 0, kSayHi, 0, at(200), at(300), {}});
  write();
  EXPECT_THAT(shown("work"), ElementsAre("say \"hi\" 100+100"));
  EXPECT_EQ(events("work")[0].at("args").at("device_us").to_number<double>(), 70);
  EXPECT_THAT(shown("kernel"), ElementsAre("say \"hi\" 110+70"));
  EXPECT_EQ(events("gap")[0].at("args").at("program"), "say \"hi\"");
  EXPECT_THAT(threads(), ElementsAre("program say \"hi\"", "program say \"hi\": gaps"));
}

}  // namespace
}  // namespace quern::server
