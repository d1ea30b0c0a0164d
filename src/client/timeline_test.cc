// SPDX-License-Identifier: Apache-2.0
#include "client/timeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/timeline_svg.h"

namespace quern::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Kind = Timeline::Kind;

/// A trace as the server writes it, of one device with a lane, its gate, gaps and loads: threads 1 to 4.
class TimelineTest : public testing::Test {
 protected:
  void add(const std::string& category, int thread, double ts, double dur, const std::string& name,
           const std::string& args) {
    events_ += fmt::format(
        ",\n{{\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":1,\"tid\":{},\"cat\":\"{}\",\"name\":\"{}\",\"args\":{{{}}}}}",
        ts, dur, thread, category, name, args);
  }
  void run(double ts, double dur, const std::string& function = "slow", int priority = 9) {
    add("run", 1, ts, dur, function,
        fmt::format(R"("function":"{}","request":"r-1","priority":{})", function, priority));
  }
  void kernel(double ts, double dur, const std::string& more = "") {
    add("kernel", 1, ts, dur, "grind", R"("function":"slow","of":9)" + more);
  }
  std::string text() const {
    std::string names = R"({"ph":"M","ts":0,"pid":1,"tid":0,"name":"process_name","args":{"name":"device cpu0"}})";
    int thread = 0;
    for (const auto& [name, kind] : std::vector<std::pair<std::string, std::string>>{
             {"executor 7, lane 0", "launcher\",\"launcher\":3,\"x\":\""},
             {"executor 7, lane 0: gate", "gate\",\"launcher\":3,\"x\":\""},
             {"quick: between its runs", "gaps"},
             {"executor 7: start and loads", "brought"}})
      names += fmt::format(
          ",\n{{\"ph\":\"M\",\"ts\":0,\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\","
          "\"kind\":\"{}\"}}}}",
          ++thread, name, kind);
    return R"({"displayTimeUnit":"ms","otherData":{"program":"quern","length_us":1000.000,"dropped":2},)"
           R"("traceEvents":[)" +
           names + events_ + "\n]}\n";
  }
  Timeline read() const {
    auto timeline = read_timeline(text());
    EXPECT_TRUE(timeline.ok()) << timeline.error().text;
    return *std::move(timeline);
  }
  std::string draw(Duration from = {0}, Duration length = Duration::forever()) const {
    auto drawn = timeline_svg(read(), from, length);
    EXPECT_TRUE(drawn.ok()) << drawn.error().text;
    return *std::move(drawn);
  }
  /// How many bars there are of a class, below the legend, and how many spans they stand for.
  static std::pair<int, int> bars(const std::string& svg, const std::string& what) {
    int count = 0, spans = 0;
    const std::string begin = "class=\"" + what;
    for (size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
      const std::string rest = svg.substr(at, svg.find('>', at) - at);
      if (rest.ends_with('/')) continue;  // of the legend: it tells nothing on hover
      const size_t several = rest.find("data-spans=\"");
      ++count;
      spans += several == std::string::npos ? 1 : std::stoi(rest.substr(several + 12));
    }
    return {count, spans};
  }

  std::string events_;
};

TEST_F(TimelineTest, IsReadAsItIsSent) {
  run(100, 300);
  kernel(110.5, 40.25);
  add("gate", 2, 50, 60, "closed: urgent", R"("open":false,"why":"urgent","function":"slow")");
  add("gap", 3, 500, 200, "gap of quick",
      R"("function":"quick","filled_us":150.000,"filled_by":[{"name":"slow","us":150}])");
  add("load", 4, 20, 10, "load abc", R"("object":"abc","bytes":4096)");
  events_ +=
      ",\n{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":1,\"cat\":\"trace\",\"ts\":1000,\"name\":\"2 spans more\"}";
  const Timeline timeline = read();
  EXPECT_EQ(timeline.length, Duration::millis(1));
  EXPECT_EQ(timeline.dropped, 2u);
  ASSERT_EQ(timeline.devices.size(), 1u);
  EXPECT_EQ(timeline.devices[0].name, "device cpu0");
  ASSERT_EQ(timeline.rows.size(), 4u);
  EXPECT_EQ(timeline.rows[1].kind, Timeline::Row::Kind::kGate);
  EXPECT_EQ(timeline.rows[1].launcher, timeline.rows[0].launcher);
  std::vector<std::string> shown;
  for (const Timeline::Span& span : timeline.spans)
    shown.push_back(fmt::format("{} {} {}-{}", span.row, name_of(span.kind), span.from.ns, span.to.ns));
  EXPECT_THAT(shown, ElementsAre("3 load 20000-30000", "1 gate 50000-110000", "0 run 100000-400000",
                                 "0 kernel 110500-150750", "2 gap 500000-700000"));
  EXPECT_THAT(timeline.names, ElementsAre("slow", "quick"));
  EXPECT_EQ(timeline.priorities.at(0), 9u);
  EXPECT_EQ(timeline.gaps_length, Duration::micros(200));
  EXPECT_EQ(timeline.filled, Duration::micros(150));
  EXPECT_EQ(timeline.count(Kind::kKernel), 1u);
  EXPECT_EQ(timeline.count(Kind::kSlice), 0u);
}

TEST_F(TimelineTest, IsReadHoweverItIsLaidOut) {
  run(100, 300, R"(a \"traceEvents\": [} ]\\)");
  std::string spaced;
  for (const char c : text())
    if (c != '\n') spaced += c == ',' ? ", " : c == ':' ? " : " : std::string(1, c);
  EXPECT_EQ(read_timeline(spaced)->count(Kind::kRun), 1u);
}

TEST_F(TimelineTest, WhatIsNoTraceIsRefused) {
  run(100, 300);
  const std::string good = text();
  const auto with = [&](const std::string& old, const std::string& new_text) {
    std::string bad = good;
    const size_t at = bad.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return bad.replace(at, old.size(), new_text);
  };
  for (const std::string& bad :
       {std::string(), std::string("{}"), std::string("{\"traceEvents\":[]}"), good.substr(0, good.size() - 4),
        good.substr(0, good.size() / 2), with("\"quern\"", "\"chrome\""),
        with("\"tid\":1,\"cat\"", "\"tid\":9,\"cat\""), with("\"ts\":100", "\"ts\":-1"),
        with("\"ts\":100", "\"ts\":1e300"), with("\"dur\":300", "\"dur\":\"x\""), with(",\n{", ",\n}{"),
        with("\"ph\":\"X\"", "\"ph\":7")}) {
    const auto timeline = read_timeline(bad);
    ASSERT_FALSE(timeline.ok()) << bad;
    EXPECT_EQ(timeline.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(timeline.error().text, HasSubstr("quern trace -o FILE"));
  }
}

TEST_F(TimelineTest, ADrawingHasABarForEverySpan) {
  run(100, 800);
  kernel(100, 100);
  kernel(300, 500, R"(,"slices":2)");
  for (const int number : {1, 2})
    add("slice", 1, 300 + 250.0 * (number - 1), 200, "grind",
        fmt::format(R"("function":"slow","kernel":"grind","slice":{},"slices":2,"first":{},"parts":4,"of":9)", number,
                    4 * (number - 1)));
  add("gate", 2, 0, 90, "closed: urgent", R"("open":false,"why":"urgent","function":"slow")");
  add("gate", 2, 90, 910, "open: fills a gap",
      R"("open":true,"fills":true,"from_us":400,"until_us":950,"slice_us":50)");
  add("gap", 3, 500, 200, "gap of quick",
      R"("function":"quick","filled_us":150,"filled_by":[{"name":"slow","us":150}])");
  add("load", 4, 20, 100, "load abc", R"("object":"abc","bytes":4096)");
  const std::string svg = draw();
  for (const auto& [what, count] : std::map<std::string, int>{
           {"run", 1}, {"kernel", 2}, {"slice", 2}, {"gate closed", 1}, {"gate fills", 1}, {"gap", 1}, {"load", 1}})
    EXPECT_EQ(bars(svg, what), std::pair(count, count)) << what;
  EXPECT_EQ(bars(svg, "kernel whole"), std::pair(1, 1)) << "pale, for its slices are on it";
  EXPECT_THAT(svg, HasSubstr("run of slow, 800us, priority 9\nrequest r-1"));
  EXPECT_THAT(svg, HasSubstr("slice 2 of 2 of kernel grind of slow, 200us\ngroups 4 to 8 of 9"));
  EXPECT_THAT(svg, HasSubstr("gate closed: urgent"));
  EXPECT_THAT(svg, HasSubstr("from 400us on\nuntil 950us\nin slices of 50.0us"));
  EXPECT_THAT(svg, HasSubstr("class=\"early\""));
  EXPECT_THAT(svg, HasSubstr("75 % of it filled by slow (150us)"));
  EXPECT_THAT(svg, HasSubstr("75 % of them filled"));
  EXPECT_THAT(svg, HasSubstr("load abc, 100us, 4KiB"));
  EXPECT_THAT(svg, HasSubstr("2 spans more are not in the trace"));
  EXPECT_THAT(svg, HasSubstr("slow (priority 9)"));
}

TEST_F(TimelineTest, WhatIsTooNarrowIsDrawnTogether) {
  run(0, 1000);
  for (int i = 0; i < 40'000; ++i) kernel(i * 0.025, 0.02);
  const std::string svg = draw();
  const auto [drawn, spans] = bars(svg, "kernel");
  EXPECT_EQ(spans, 40'000);
  EXPECT_LE(drawn, 1200) << "a bar for each pixel";
  EXPECT_GE(drawn, 500);
  EXPECT_LT(svg.size(), 400'000u);
  EXPECT_EQ(bars(draw(Duration::micros(100), Duration::micros(10)), "kernel"), std::pair(400, 400))
      << "of a part each is wide enough";
}

TEST_F(TimelineTest, APartIsCutOut) {
  run(100, 800);
  kernel(100, 100);
  kernel(300, 100);
  const std::string svg = draw(Duration::micros(250), Duration::micros(100));
  EXPECT_EQ(bars(svg, "run"), std::pair(1, 1));
  EXPECT_EQ(bars(svg, "kernel"), std::pair(1, 1));
  EXPECT_THAT(svg, HasSubstr("100us of 1.00ms, from 250us"));
  EXPECT_EQ(bars(draw(Duration::micros(950)), "run"), std::pair(0, 0));
  EXPECT_THAT(draw(Duration::micros(950)), HasSubstr("nothing happened here"));
  const Timeline timeline = read();
  EXPECT_FALSE(timeline_svg(timeline, Duration::millis(1)).ok());
  EXPECT_THAT(timeline_svg(timeline, Duration::millis(7)).error().text, HasSubstr("the trace is 1.00ms long"));
  EXPECT_FALSE(timeline_svg(timeline, {0}, {0}).ok());
}

TEST_F(TimelineTest, NamesAreOnlyText) {
  run(100, 800, "<script>&amp;\\u0001\\\"");
  const std::string svg = draw();
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;amp;\\x01&quot;"));
}

TEST_F(TimelineTest, OthersAreGrey) {
  run(100, 100, "another tenant");
  run(300, 100, "slow", 3);
  const std::string svg = draw();
  EXPECT_EQ(bars(svg, "run other"), std::pair(1, 1));
  EXPECT_EQ(bars(svg, "run c0"), std::pair(1, 1)) << "the first colour is for one's own";
}

TEST_F(TimelineTest, OfNothingItIsStillAPicture) {
  const std::string svg = draw();
  EXPECT_THAT(svg, HasSubstr("device cpu0"));
  EXPECT_THAT(svg, HasSubstr("nothing happened here"));
}

TEST_F(TimelineTest, AnEventThatLacksSomethingIsNoPicture) {
  add("gap", 3, 500, 200, "gap of quick", R"("function":"quick","filled_us":150)");
  const auto drawn = timeline_svg(read());
  ASSERT_FALSE(drawn.ok());
  EXPECT_THAT(drawn.error().text, HasSubstr("cannot be drawn"));
}

}  // namespace
}  // namespace quern::client
