// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern {
namespace {

TEST(Suggest, FindsTypingMistakes) {
  const std::vector<std::string> known = {"saxpy", "sgemm", "copy", "n"};
  EXPECT_EQ(did_you_mean("saxpi", known), "; did you mean 'saxpy'?");
  EXPECT_EQ(did_you_mean("sgem", known), "; did you mean 'sgemm'?");
  EXPECT_EQ(did_you_mean("ocpy", known), "; did you mean 'copy'?");
  EXPECT_EQ(did_you_mean("nn", known), "; did you mean 'n'?");
  EXPECT_EQ(did_you_mean("weather", known), "");
  EXPECT_EQ(did_you_mean("m", known), "") << "another letter is another name";
  EXPECT_EQ(did_you_mean("", known), "");
  EXPECT_EQ(did_you_mean("saxpy", {}), "");
}

TEST(Suggest, PrefersTheNearestThenTheFirst) {
  const std::vector<std::string> known = {"alpha1", "alphas", "alpha"};
  EXPECT_EQ(did_you_mean("alphaa", known), "; did you mean 'alpha1'?");
  EXPECT_EQ(did_you_mean("alpha", known), "; did you mean 'alpha'?");
}

TEST(Suggest, CountsASwapAsOneMistake) {
  const std::vector<std::string> known = {"fp16", "fp32", "multiple_of"};
  EXPECT_EQ(did_you_mean("fp23", known), "; did you mean 'fp32'?");
  EXPECT_EQ(did_you_mean("multiple", known), "; did you mean 'multiple_of'?");
  EXPECT_EQ(did_you_mean("ab", std::vector<std::string>{"cd"}), "");
}

TEST(Suggest, IsBounded) { EXPECT_EQ(did_you_mean(std::string(100'000, 'a'), std::vector<std::string>{"a"}), ""); }

}  // namespace
}  // namespace quern
