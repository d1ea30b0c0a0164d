// SPDX-License-Identifier: Apache-2.0
#include "bench/quota_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <set>

#include "bench/workers.h"

namespace quern::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Options only(const std::string& row) {
  Options options;
  options.row = row;
  return options;
}

std::vector<std::string> names(const Options& options) {
  std::vector<std::string> all;
  for (const QuotaCase& one : quota_cases(options)) all.push_back(one.name());
  return all;
}

std::vector<std::string> names(const Report& report) {
  std::vector<std::string> all;
  for (const Row& row : report.rows) all.push_back(row.name);
  return all;
}

TEST(QuotaRows, HasThirtyCasesEachOnce) {
  const auto all = names(Options{});
  EXPECT_THAT(all, SizeIs(30));
  EXPECT_THAT(std::set(all.begin(), all.end()), SizeIs(30));
}

TEST(QuotaRows, ASummaryHasWhatItSumsUp) {
  EXPECT_THAT(names(only("worst_50us_80")), ElementsAre("alone_50us_80", "beside_50us_80"));
  EXPECT_THAT(names(only("worst")), SizeIs(30));
  EXPECT_THAT(names(only("beside_1ms_40_neighbour")), ElementsAre("beside_1ms_40"));
  EXPECT_THAT(names(only("alone_1ms_40_neighbour")), IsEmpty());
  EXPECT_THAT(names(only("units_p95")), IsEmpty());
}

TEST(QuotaRows, OneSecondThatIsOffCounts) {
  const QuotaFigures figures{{39, 43, 38, 40}, {}};
  EXPECT_DOUBLE_EQ(figures.worst(40), 3);
  EXPECT_TRUE(std::isnan(QuotaFigures{}.worst(40)));
}

TEST(QuotaRows, TheHardCaseIsJudgedByItself) {
  const std::vector<QuotaResult> results{{{1000, false, 40}, {{40, 41.5, 40.5}, {}}},
                                         {{1000, true, 20}, {{19, 20, 20}, {70, 71, 72}}},
                                         {{50, false, 80}, {{77, 78, 80}, {}}}};
  Report report;
  add_quota_rows(results, {}, report);
  ASSERT_THAT(names(report), ElementsAre("alone_1ms_40", "beside_1ms_20", "beside_1ms_20_neighbour", "alone_50us_80",
                                         "worst", "worst_50us_80"));
  EXPECT_DOUBLE_EQ(report.rows[0].value, 40.5);
  EXPECT_DOUBLE_EQ(report.rows[2].value, 71);
  EXPECT_DOUBLE_EQ(report.rows[4].value, 1.5);
  EXPECT_DOUBLE_EQ(report.rows[5].value, 3);
  ASSERT_TRUE(judge(report).ok());
  EXPECT_EQ(report.rows[0].met, std::nullopt);
  EXPECT_EQ(report.rows[4].met, true);
  EXPECT_EQ(report.rows[5].met, true);
}

TEST(QuotaRows, ShowsOnlyWhatWasAskedFor) {
  Report report;
  add_quota_rows({{{1000, true, 20}, {{19, 20, 20}, {70, 71, 72}}}}, only("beside_1ms_20_neighbour"), report);
  EXPECT_THAT(names(report), ElementsAre("beside_1ms_20_neighbour"));
}

TEST(Workers, AParentIsFoundBehindAnyName) {
  EXPECT_EQ(parent_in("12 (quern) S 7 12 1"), 7);
  EXPECT_EQ(parent_in("12 (a ) S 3 (b) R 7 12 1"), 7);
  EXPECT_EQ(parent_in("12 (quern) S"), -1);
  EXPECT_EQ(parent_in(""), -1);
}

TEST(Workers, AProcessWithoutWorkersSaysSo) {
  EXPECT_THAT(executors_of_this_process(), IsEmpty());
  const auto used = worker_time_of(getpid());
  ASSERT_FALSE(used.ok());
  EXPECT_EQ(used.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace quern::bench
