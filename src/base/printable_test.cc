// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Printable, KeepsWhatCanBeShown) {
  EXPECT_EQ(printable("n × 2 … 😀"), "n × 2 … 😀");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesWhatWouldDisturb) {
  EXPECT_EQ(printable("a\nb\tc\x1b[0m\x7f"), "a\\nb\\tc\\x1b[0m\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85") << "a control character of two bytes";
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc3("), "\\xc3(");
  EXPECT_EQ(printable("\xc0\x80\xff"), "\\xc0\\x80\\xff");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
}

}  // namespace
}  // namespace quern
