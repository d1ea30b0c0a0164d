// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <limits>

namespace quern::bench {
namespace {

using testing::HasSubstr;

TEST(Goal, IsEvaluated) {
  EXPECT_TRUE(*meets("<= 1.05", 1.05));
  EXPECT_FALSE(*meets("<= 1.05", 1.0501));
  EXPECT_TRUE(*meets(">= 0.3", 0.3));
  EXPECT_FALSE(*meets("> 2", 2));
  EXPECT_TRUE(*meets("< 2", 1.9));
  EXPECT_TRUE(*meets("== 0", 0));
  for (const char* goal : {"", "1.05", "<=1.05", "<= ", "<= x", "=< 1", "<= 1 s"})
    EXPECT_FALSE(meets(goal, 1).ok()) << goal;
}

Report report() {
  Report one{"warm", "abc", "2 x a", "core 1", {}, {"a note"}};
  one.rows.push_back({"latency", 5123.4, "us", 5000.0, 1.0247, 0.01, "<= 1.05"});
  one.rows.push_back({"copied", 0, "B", std::nullopt, std::nullopt, std::nullopt, "== 0"});
  one.rows.push_back({"shown", 2, "s", std::nullopt, std::nullopt, std::nullopt, ""});
  return one;
}

TEST(Report, JudgesRatioThenValue) {
  Report one = report();
  ASSERT_TRUE(judge(one).ok());
  EXPECT_EQ(one.rows[0].met, true);
  EXPECT_EQ(one.rows[1].met, true);
  EXPECT_EQ(one.rows[2].met, std::nullopt);
  one.rows[0].ratio = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(judge(one).ok());
  EXPECT_EQ(one.rows[0].met, false);
}

TEST(Report, JsonHasEveryKey) {
  Report one = report();
  one.rows[0].ratio = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(judge(one).ok());
  const auto parsed = boost::json::parse(json_of(one)).as_object();
  for (const char* key : {"bench", "commit", "machine", "layout", "stolen", "rows"})
    EXPECT_TRUE(parsed.contains(key)) << key;
  for (const auto& row : parsed.at("rows").as_array())
    for (const char* key : {"name", "value", "unit", "baseline", "ratio", "spread", "goal", "met"})
      EXPECT_TRUE(row.as_object().contains(key)) << key;
  EXPECT_TRUE(parsed.at("rows").as_array()[0].at("ratio").is_null()) << "infinity is no JSON";
}

TEST(Report, TableIsForPeople) {
  Report one = report();
  ASSERT_TRUE(judge(one).ok());
  const auto table = table_of(one);
  EXPECT_THAT(table, HasSubstr("latency   5123  us        5000  1.025    1.0%  <= 1.05  yes"));
  EXPECT_THAT(table, HasSubstr("a note"));
  one.rows[0].baseline = std::nullopt;
  one.rows[0].ratio = std::numeric_limits<double>::quiet_NaN();
  one.rows[0].spread = std::nullopt;
  ASSERT_TRUE(judge(one).ok());
  EXPECT_THAT(table_of(one), HasSubstr("latency   5123  us           -      -       -  <= 1.05  NO"));
}

TEST(Report, TellsWhatOthersTookOfTheMachine) {
  const CoreTime from = core_time_of("cpu  100 0 50 800 10 0 5 35 7 7\ncpu0 1 2 3"), to = {2000, 85};
  EXPECT_EQ(from.all, 1000u);
  EXPECT_EQ(from.stolen, 35u);
  EXPECT_DOUBLE_EQ(stolen_between(from, to).value(), 0.05);
  EXPECT_EQ(stolen_between(from, from), std::nullopt);
  EXPECT_EQ(core_time_of("").all, 0u);
  EXPECT_GT(core_time().all, 0u);
  Report one = report();
  EXPECT_THAT(table_of(one), testing::Not(HasSubstr("stolen")));
  one.stolen = stolen_between(from, to);
  EXPECT_THAT(table_of(one), HasSubstr("stolen  5.0% of the cores' time"));
  EXPECT_DOUBLE_EQ(boost::json::parse(json_of(one)).at("stolen").as_double(), 0.05);
}

TEST(Middle, IsMedianAndQuartiles) {
  const std::array<double, 5> samples{5, 1, 3, 2, 4};
  EXPECT_DOUBLE_EQ(middle_of(samples).median, 3);
  EXPECT_DOUBLE_EQ(middle_of(samples).spread, 1.0 / 3);
  EXPECT_DOUBLE_EQ(middle_of({}).median, 0);
}

TEST(Percentile, IsOneOfTheSamples) {
  std::vector<double> samples;
  for (int i = 20; i > 0; --i) samples.push_back(i);
  EXPECT_EQ(percentile_of(samples, 0.95), 19);
  EXPECT_EQ(percentile_of(samples, 0.5), 10);
  EXPECT_EQ(percentile_of(samples, 0), 1);
  EXPECT_EQ(percentile_of(samples, 1), 20);
  EXPECT_TRUE(std::isnan(percentile_of({}, 0.95)));
}

}  // namespace
}  // namespace quern::bench
