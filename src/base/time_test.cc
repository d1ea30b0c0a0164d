// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Time, ReadsLengthsOfTime) {
  EXPECT_EQ(parse_duration("250us")->ns, 250'000);
  EXPECT_EQ(parse_duration("1.5s")->ns, 1'500'000'000);
  EXPECT_EQ(parse_duration("500ns")->ns, 500);
  EXPECT_EQ(parse_duration("10ms")->ns, 10'000'000);
  EXPECT_EQ(*parse_duration("2m"), Duration::seconds(120));
  EXPECT_EQ(*parse_duration("1h"), Duration::seconds(3600));
  EXPECT_EQ(parse_duration("0s")->ns, 0);
  EXPECT_EQ(parse_duration("0.1us")->ns, 100);
}

TEST(Time, RefusesWhatIsNone) {
  for (std::string_view text : {"", "s", "1", "-1s", "1 s", "1sec", "1e3s", "infs", "nans", "inf", "1s ", " 1s", "1S",
                                "1.5.2s", "0x1s", "99999999999h", "9223372036854775808ns", "1µs", "+1s"})
    EXPECT_FALSE(parse_duration(text).ok()) << text;
}

TEST(Time, SaysThatATimeIsTooLongAndWhatTheLongestIs) {
  EXPECT_EQ(parse_duration("25h", Duration::seconds(24 * 3600)).error().text, "'25h': is too long; write at most 24h");
  EXPECT_EQ(parse_duration("24.5h", Duration::seconds(24 * 3600)).error().text,
            "'24.5h': is too long; write at most 24h");
  EXPECT_EQ(parse_duration("99999999999999999999999h", Duration::seconds(2)).error().text,
            "'99999999999999999999999h': is too long; write at most 2s");
  EXPECT_EQ(parse_duration("99999999999h").error().text, "'99999999999h': is too long; write at most 2562047h");
  EXPECT_TRUE(parse_duration("24h", Duration::seconds(24 * 3600)).ok());
  EXPECT_TRUE(parse_duration("24.0h", Duration::seconds(24 * 3600)).ok());
}

TEST(Time, ShowsWhatReadsBack) {
  EXPECT_EQ(to_string(Duration::millis(1500)), "1500ms");
  EXPECT_EQ(to_string(Duration::seconds(2)), "2s");
  EXPECT_EQ(to_string(Duration::seconds(120)), "2m");
  EXPECT_EQ(to_string(Duration{0}), "0ns");
  for (int64_t ns : {int64_t{0}, int64_t{1}, int64_t{999}, int64_t{1'000'001}, int64_t{86'400'000'000'000},
                     (int64_t{1} << 53) + 1, int64_t{9'000'000'000'000'000'001}, Duration::forever().ns}) {
    auto again = parse_duration(to_string(Duration{ns}));
    ASSERT_TRUE(again.ok()) << ns;
    EXPECT_EQ(again->ns, ns);
  }
}

TEST(Time, AMomentPlusForeverIsNever) {
  EXPECT_EQ(Time{5} + Duration::forever(), Time::never());
  EXPECT_EQ(Time::never() + Duration{1}, Time::never());
  EXPECT_EQ(Time{5} + Duration{-7}, Time{-2});
  EXPECT_EQ(Time{5} - Time{3}, Duration{2});
  EXPECT_LT(Duration::micros(999), Duration::millis(1));
}

}  // namespace
}  // namespace quern
