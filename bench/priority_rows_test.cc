// SPDX-License-Identifier: Apache-2.0
#include "bench/priority_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace quern::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<std::string> rows_of(const Options& options) {
  std::vector<std::string> rows;
  for (const Contest& contest : contests_of(options))
    for (const Mode& mode : contest.modes) rows.push_back(contest.row_name(mode));
  return rows;
}

std::vector<std::string> rows_like(const std::string& row) {
  Options options;
  options.row = row;
  return rows_of(options);
}

TEST(PriorityRows, StatesTwentyFourEachOnce) {
  const auto rows = rows_of({});
  EXPECT_THAT(rows, SizeIs(24));
  EXPECT_THAT(std::set(rows.begin(), rows.end()), SizeIs(24));
  EXPECT_THAT(rows, Contains("a_2.5ms_gap1_filler5x1_fill"));
  EXPECT_THAT(rows, Contains("a_2.5ms_gap1j30_filler5x1_fill"));
  EXPECT_THAT(rows, Contains("c_2.5ms_gap1_filler5x1_fill"));
  EXPECT_THAT(rows, Contains("until_2.5ms_filler5x1_fill"));
}

TEST(PriorityRows, TheMatrixHasThemAll) {
  Options options;
  options.full = true;
  const auto rows = rows_of(options);
  const std::set<std::string> all(rows.begin(), rows.end());
  EXPECT_EQ(all.size(), rows.size());
  for (const std::string& row : rows_of({})) EXPECT_THAT(all, Contains(row));
}

TEST(PriorityRows, ARowThatIsNotStatedIsFoundInTheMatrix) {
  EXPECT_THAT(rows_like("a_2.5ms_gap1_program5x1_fill"),
              ElementsAre("a_2.5ms_gap1_program5x1_fill", "a_2.5ms_gap1_program5x1_fill_class"));
  EXPECT_THAT(rows_like("nothing"), IsEmpty());
}

TEST(PriorityRows, ASummaryHasWhatItSumsUp) {
  EXPECT_THAT(rows_like("urgent_1ms"),
              UnorderedElementsAre("a_2.5ms_gap1_filler5x1_fill", "a_2.5ms_gap1_filler0.2x1_fill",
                                   "a_2.5ms_gap1_filler20x1_fill", "a_2.5ms_gap1_filler1x4_fill"));
  EXPECT_THAT(rows_like("urgent_0.2ms"), ElementsAre("a_2.5ms_gap0.2_filler5x1_fill"));
}

TEST(PriorityRows, ACallOfAFillerIsTenMilliseconds) {
  Contest contest;
  const std::vector<std::pair<double, uint32_t>> calls{{0.2, 50}, {1, 10}, {5, 2}, {20, 1}};
  for (const auto& [filler_ms, kernels] : calls) {
    contest.filler_ms = filler_ms;
    EXPECT_EQ(contest.filler_kernels(), kernels);
  }
  contest.filler = FillerKind::kCall;
  contest.filler_ms = 1;
  EXPECT_EQ(contest.filler_kernels(), 1u);
  EXPECT_EQ(contest.name(), "a_2.5ms_gap1_call1x1");
}

TEST(PriorityRows, GoalsAreThoseOfTheMode) {
  Contest contest;
  EXPECT_EQ(goals_of(contest, kNone).ratio, "");
  EXPECT_EQ(goals_of(contest, kFill).ratio, "<= 1.02");
  EXPECT_EQ(goals_of(contest, kFill).share, ">= 0.88");
  EXPECT_EQ(goals_of(contest, kFillClass).p95, "<= 1.05");
  contest.gap_ms = 0.5;
  EXPECT_EQ(goals_of(contest, kFill).share, "");
  contest.jitter = 0.3;
  EXPECT_EQ(goals_of(contest, kFill).ratio, "<= 1.03");
}

}  // namespace
}  // namespace quern::bench
