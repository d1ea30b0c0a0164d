// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Units, ReadsSizes) {
  EXPECT_EQ(*parse_bytes("4GiB"), 4 * kGiB);
  EXPECT_EQ(*parse_bytes("64MiB"), 64 * kMiB);
  EXPECT_EQ(*parse_bytes("512KiB"), 512 * kKiB);
  EXPECT_EQ(*parse_bytes("100B"), 100u);
  EXPECT_EQ(*parse_bytes("100"), 100u);
  EXPECT_EQ(*parse_bytes("18446744073709551615"), ~uint64_t{0});
  for (std::string_view text :
       {"", "B", "-1", "1.5GiB", "4 GiB", "4GB", "4gib", "18446744073709551616", "17179869184GiB", "1KiBx", "+1"})
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
}

TEST(Units, ShowsSizes) {
  EXPECT_EQ(show_bytes(0), "0B");
  EXPECT_EQ(show_bytes(1023), "1023B");
  EXPECT_EQ(show_bytes(kKiB), "1KiB");
  EXPECT_EQ(show_bytes(kMiB + kMiB / 2), "1.5MiB");
  EXPECT_EQ(show_bytes(4 * kGiB), "4GiB");
}

TEST(Units, RoundsUp) {
  EXPECT_EQ(round_up(0, 64), 0u);
  EXPECT_EQ(round_up(1, 64), 64u);
  EXPECT_EQ(round_up(64, 64), 64u);
  EXPECT_EQ(round_up(7, 3), 9u);
}

}  // namespace
}  // namespace quern
