// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace quern {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return invalid("odd");
  return value / 2;
}
Result<int> quarter(int value) {
  QUERN_TRY(int once, half(value));
  QUERN_TRY(once, half(once));
  return once;
}
Status check_even(int value) {
  QUERN_TRY(half(value));
  return {};
}

TEST(Result, TryReturnsTheErrorOrGoesOn) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().text, "odd");
  EXPECT_EQ(quarter(7).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(3).error().text, "odd");
}

TEST(Result, HoldsWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  ASSERT_TRUE(result);
  EXPECT_EQ(**result, 3);
  std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Result, EveryCodeHasANameThatReadsBack) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(error_code_of(name_of(code)), code);
  }
  EXPECT_EQ(name_of(ErrorCode::kNotFound), "not_found");
  EXPECT_EQ(name_of(ErrorCode::kInternal), "internal");
  EXPECT_EQ(error_code_of("Invalid"), std::nullopt);
  EXPECT_EQ(error_code_of(""), std::nullopt);
}

TEST(ResultDeathTest, CheckSaysWhatAndWhere) {
  EXPECT_DEATH(QUERN_CHECK(1 + 1 == 3, "arithmetic"), "result_test.cc:.*1 \\+ 1 == 3: arithmetic");
}

}  // namespace
}  // namespace quern
