// SPDX-License-Identifier: Apache-2.0
#include "function/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quern {
namespace {

std::optional<Number> some_names(std::string_view name) {
  if (name == "n") return Number(int64_t{100});
  if (name == "m") return Number(int64_t{-7});
  if (name == "big") return Number(std::numeric_limits<int64_t>::max());
  if (name == "small") return Number(std::numeric_limits<int64_t>::min());
  if (name == "alpha") return Number(0.5);
  return std::nullopt;
}

int64_t whole(std::string_view text) {
  auto expression = Expression::parse(text);
  EXPECT_TRUE(expression.ok()) << text << ": " << (expression.ok() ? "" : expression.error().text);
  if (!expression.ok()) return -999;
  auto value = expression->whole(some_names);
  EXPECT_TRUE(value.ok()) << text << ": " << (value.ok() ? "" : value.error().text);
  return value.ok() ? *value : -998;
}

double real(std::string_view text) {
  auto expression = Expression::parse(text);
  EXPECT_TRUE(expression.ok()) << text;
  if (!expression.ok()) return -999;
  auto value = expression->real(some_names);
  EXPECT_TRUE(value.ok()) << text << ": " << (value.ok() ? "" : value.error().text);
  return value.ok() ? *value : -998;
}

std::string whole_problem(std::string_view text) {
  auto expression = Expression::parse(text);
  if (!expression.ok()) return "parse: " + expression.error().text;
  auto value = expression->whole(some_names);
  return value.ok() ? "" : value.error().text;
}

TEST(Expression, TheRestOfTheSmallestNumberFits) {
  const Names names = [](std::string_view) { return std::optional<Number>(INT64_MIN); };
  EXPECT_EQ(*Expression::parse("n % 3")->whole(names), 1);
  EXPECT_EQ(*Expression::parse("n % -3")->whole(names), -2);
  EXPECT_EQ(*Expression::parse("-7 % 3")->whole({}), 2);
  EXPECT_EQ(*Expression::parse("7 % -3")->whole({}), -2);
}

TEST(Expression, ComputesWholeNumbers) {
  EXPECT_EQ(whole("1"), 1);
  EXPECT_EQ(whole(" n "), 100);
  EXPECT_EQ(whole("1+2*3"), 7);
  EXPECT_EQ(whole("(1+2)*3"), 9);
  EXPECT_EQ(whole("10-3-2"), 5);
  EXPECT_EQ(whole("1 << 2 + 1"), 8) << "shifts are weakest, as in C";
  EXPECT_EQ(whole("100 >> 3"), 12);
  EXPECT_EQ(whole("-1 >> 70"), -1);
  EXPECT_EQ(whole("--3"), 3);
  EXPECT_EQ(whole("-+-+3"), 3);
  EXPECT_EQ(whole("2*-3"), -6);
  EXPECT_EQ(whole("64*4"), 256);
}

TEST(Expression, DivisionFloors) {
  EXPECT_EQ(whole("7/2"), 3);
  EXPECT_EQ(whole("-7/2"), -4);
  EXPECT_EQ(whole("7/-2"), -4);
  EXPECT_EQ(whole("-7/-2"), 3);
  EXPECT_EQ(whole("-7%3"), 2);
  EXPECT_EQ(whole("7%-3"), -2);
  EXPECT_EQ(whole("m % 4"), 1);
  EXPECT_EQ(whole("small % -1"), 0);
}

TEST(Expression, CallsFunctions) {
  EXPECT_EQ(whole("ceil_div(n, 16)"), 7);
  EXPECT_EQ(whole("ceil_div(-7, 2)"), -3);
  EXPECT_EQ(whole("round_up(n,64)"), 128);
  EXPECT_EQ(whole("round_up(0,64)"), 0);
  EXPECT_EQ(whole("min(3, n)"), 3);
  EXPECT_EQ(whole("max(3, n, 1000, m)"), 1000);
  EXPECT_EQ(whole("log2(4096)"), 12);
  EXPECT_EQ(whole("log2(1)"), 0);
  EXPECT_EQ(whole("ceil_div(big, 1)"), std::numeric_limits<int64_t>::max());
}

TEST(Expression, RefusesWhatDoesNotFit) {
  EXPECT_NE(whole_problem("big + 1"), "");
  EXPECT_NE(whole_problem("small - 1"), "");
  EXPECT_NE(whole_problem("-small"), "");
  EXPECT_NE(whole_problem("small / -1"), "");
  EXPECT_NE(whole_problem("big * 2"), "");
  EXPECT_NE(whole_problem("1 << 63"), "");
  EXPECT_NE(whole_problem("1 << 64"), "");
  EXPECT_NE(whole_problem("1 << -1"), "");
  EXPECT_EQ(whole("0 << 1000"), 0);
  EXPECT_EQ(whole("1 << 62"), int64_t{1} << 62);
  EXPECT_EQ(whole("-2 << 62"), std::numeric_limits<int64_t>::min());
  EXPECT_NE(whole_problem("round_up(big, 2)"), "");
  EXPECT_NE(whole_problem("9223372036854775808"), "");
  EXPECT_EQ(whole("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_NE(whole_problem("1/0"), "");
  EXPECT_NE(whole_problem("1%(n-n)"), "");
  EXPECT_NE(whole_problem("ceil_div(1, 0)"), "");
  EXPECT_NE(whole_problem("round_up(1, -4)"), "");
  EXPECT_NE(whole_problem("log2(12)"), "");
  EXPECT_NE(whole_problem("log2(0)"), "");
  EXPECT_NE(whole_problem("sqrt(4)"), "");
  EXPECT_NE(whole_problem("0.5"), "");
  EXPECT_NE(whole_problem("alpha"), "");
  EXPECT_EQ(whole_problem("unknown + 1"), "'unknown + 1': 'unknown' is not known here");
}

TEST(Expression, SaysWhereItDoesNotParse) {
  for (std::string_view text : {"",          " ",       "1 +",     "(1",    "1)",      "()",
                                "1 2",       "n n",     "min(1)",  "min()", "min(1,)", "ceil_div(1,2,3)",
                                "log2(1,2)", "log2",    "foo(1)",  "n()",   "1x",      "0x10",
                                "n $ 2",     "1 <",     "*3",      "n..2",  "'n'",     "n\n+1",
                                "1e",        "1e999",   "é",       "min 3", "1 = 2",   "1 & 2",
                                "1 | 2",     "n ? 1",   "n ? : 2", "1 : 2", "!",       "n !",
                                "< 2",       "? 1 : 2", "1 =< 2",  "~1"})
    EXPECT_FALSE(Expression::parse(text).ok()) << text;
  EXPECT_EQ(Expression::parse("n * (2 + ").error().text,
            "'n * (2 + ': a number, a name or '(' is missing at character 10");
}

TEST(Expression, IsBounded) {
  EXPECT_TRUE(Expression::parse(std::string(32, '(') + "1" + std::string(32, ')')).ok());
  EXPECT_FALSE(Expression::parse(std::string(33, '(') + "1" + std::string(33, ')')).ok());
  std::string calls;
  for (int i = 0; i < 33; ++i) calls += "log2(";
  EXPECT_FALSE(Expression::parse(calls + "1" + std::string(33, ')')).ok());
  EXPECT_EQ(whole(std::string(511, '-') + "5"), -5);
  EXPECT_FALSE(Expression::parse(std::string(512, '-') + "5").ok());
  std::string sum = "1";
  while (sum.size() + 2 <= Expression::kLongest) sum += "+1";
  EXPECT_EQ(whole(sum), static_cast<int64_t>(sum.size() / 2 + 1));
}

TEST(Expression, ComputesReals) {
  EXPECT_EQ(real("1/4"), 0.25);
  EXPECT_EQ(real("alpha * n"), 50.0);
  EXPECT_EQ(real("1e-5"), 1e-5);
  EXPECT_EQ(real(".5"), 0.5);
  EXPECT_EQ(real("sqrt(n) / 2"), 5.0);
  EXPECT_EQ(real("-7 % 3"), 2.0);
  EXPECT_EQ(real("1 << 3"), 8.0);
  EXPECT_EQ(real("log2(8)"), 3.0);
  EXPECT_EQ(real("ceil_div(7, 2)"), 4.0);
  EXPECT_EQ(real("round_up(7, 4)"), 8.0);
  EXPECT_EQ(real("min(alpha, 2) + max(alpha, 2)"), 2.5);
  for (std::string_view text : {"1/0", "1%0", "sqrt(-1)", "log2(0)", "alpha << 1", "ceil_div(1, 0)", "nobody"})
    EXPECT_FALSE(Expression::parse(text)->real(some_names).ok()) << text;
}

TEST(Expression, ComparesToOneOrZero) {
  EXPECT_EQ(whole("n < 100") + 10 * whole("n < 101"), 10);
  EXPECT_EQ(whole("n <= 99") + 10 * whole("n <= 100"), 10);
  EXPECT_EQ(whole("n > 100") + 10 * whole("n > 99"), 10);
  EXPECT_EQ(whole("n >= 101") + 10 * whole("n >= 100"), 10);
  EXPECT_EQ(whole("n == 99") + 10 * whole("n == 100"), 10);
  EXPECT_EQ(whole("n != 100") + 10 * whole("n != 99"), 10);
  EXPECT_EQ(whole("!n") + 10 * whole("!0") + 100 * whole("!!n"), 110);
  EXPECT_EQ(whole("n && m") + 10 * whole("n && 0"), 1);
  EXPECT_EQ(whole("0 || m") + 10 * whole("0 || 0"), 1);
  EXPECT_EQ(real("alpha < 0.75"), 1.0);
  EXPECT_EQ(real("alpha == 1 / 2"), 1.0) << "true division here";
  EXPECT_EQ(real("!alpha"), 0.0);
  EXPECT_EQ(real("-!alpha - -1"), 1.0);
}

TEST(Expression, HasThePrecedenceOfC) {
  EXPECT_EQ(whole("1 + 2 < 4"), 1);
  EXPECT_EQ(whole("1 << 2 >= 4"), 1) << "comparisons are weaker than shifts";
  EXPECT_EQ(whole("3 > 2 > 1"), 0) << "1 > 1";
  EXPECT_EQ(whole("2 < 1 == 0"), 1);
  EXPECT_EQ(whole("1 || 0 && 0"), 1);
  EXPECT_EQ(whole("0 == 1 && 1"), 0);
  EXPECT_EQ(whole("1 ? 2 : 3 ? 4 : 5"), 2);
  EXPECT_EQ(whole("0 ? 2 : 0 ? 4 : 5"), 5);
  EXPECT_EQ(whole("1 ? 0 ? 2 : 3 : 4"), 3);
  EXPECT_EQ(whole("0 || 1 ? 2 : 3"), 2);
  EXPECT_EQ(whole("n > 10 ? n - 10 : 10 - n"), 90);
  EXPECT_EQ(whole("min(n > 10 ? 5 : 6, 7)"), 5);
  EXPECT_EQ(whole("-!0 + 3"), 2);
  EXPECT_EQ(real("1 ? alpha : 2"), 0.5);
}

TEST(Expression, WhatIsNotChosenNeedsNoValue) {
  EXPECT_EQ(whole("n == 0 ? 1 / 0 : 7"), 7);
  EXPECT_EQ(whole("n ? 7 : unknown"), 7);
  EXPECT_EQ(whole("n ? 7 : 0.5"), 7);
  EXPECT_EQ(whole("0 && 1 / 0"), 0);
  EXPECT_EQ(whole("1 || big + 1"), 1);
  EXPECT_EQ(real("n ? 1 : sqrt(-1)"), 1.0);
  EXPECT_EQ(whole_problem("n ? 1 / 0 : 7"), "'n ? 1 / 0 : 7': divides by zero");
  EXPECT_EQ(whole_problem("1 && 1 / 0"), "'1 && 1 / 0': divides by zero");
  EXPECT_EQ(whole_problem("(1 / 0 ? 1 : 2) + 3"), "'(1 / 0 ? 1 : 2) + 3': divides by zero");
  EXPECT_EQ(whole_problem("1 + (0 ? 2 : big * 2)"), "'1 + (0 ? 2 : big * 2)': does not fit 64 bits");
  EXPECT_EQ(whole_problem("log2(6) + 1 / 0"), "'log2(6) + 1 / 0': log2(6) is not whole") << "the first";
}

TEST(Expression, NestsChoicesAsDeepAsItIsLong) {
  std::string text = "7";
  while (text.size() + 4 <= Expression::kLongest) text = "0?1:" + text;
  EXPECT_EQ(whole(text), 7);
  std::string inside = "7";
  while (inside.size() + 4 <= Expression::kLongest) inside = "1?" + inside + ":2";
  EXPECT_EQ(whole(inside), 7);
}

TEST(Expression, IsSolvedWhereItIsALine) {
  const auto solve = [](std::string_view text, int64_t value) -> std::optional<int64_t> {
    const auto solved = Expression::parse(text)->solve("x", value, some_names);
    EXPECT_TRUE(solved.ok()) << text;
    return solved.ok() ? *solved : std::nullopt;
  };
  EXPECT_EQ(solve("x", 9), 9);
  EXPECT_EQ(solve("x + 1", 9), 8);
  EXPECT_EQ(solve("10 - x", 9), 1);
  EXPECT_EQ(solve("2 * x - n", 100), 100) << "n is 100";
  EXPECT_EQ(solve("(x + 1) * 4", 40), 9);
  EXPECT_EQ(solve("x << 3", 40), 5);
  EXPECT_EQ(solve("-x", 4), -4);
  EXPECT_EQ(solve("3 * x - x", 8), 4);
  EXPECT_EQ(solve("x * 0", 0), std::nullopt);
  EXPECT_EQ(solve("x * x", 9), std::nullopt);
  EXPECT_EQ(solve("x / 2", 9), std::nullopt);
  EXPECT_EQ(solve("ceil_div(x, 2)", 9), std::nullopt);
  EXPECT_EQ(solve("x + unknown", 9), std::nullopt);
  EXPECT_EQ(solve("x > 1 ? x : x", 9), std::nullopt);
  EXPECT_EQ(solve("n", 100), std::nullopt);
  EXPECT_EQ(solve("x + big", -5), std::nullopt) << "does not fit";
  EXPECT_EQ(solve("-x", INT64_MIN), std::nullopt);
  EXPECT_EQ(Expression::parse("2 * x")->solve("x", 9, {}).error().text, "no x makes '2 * x' come to 9");
}

TEST(Expression, TellsItsNamesOnceInOrder) {
  auto expression = Expression::parse("b * a + min(a, c) - b");
  EXPECT_EQ(expression->names(), (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_FALSE(expression->is_name());
  EXPECT_TRUE(Expression::parse(" (n) ")->is_name());
  EXPECT_FALSE(Expression::parse("-n")->is_name());
  EXPECT_EQ(expression->fixed(), std::nullopt);
  EXPECT_EQ(Expression::parse("3 * 4")->fixed(), 12);
  EXPECT_EQ(Expression::parse("1 / 0")->fixed(), std::nullopt);
  EXPECT_EQ(Expression::constant(-5).fixed(), -5);
  EXPECT_EQ(Expression::constant(-5).text(), "-5");
}

}  // namespace
}  // namespace quern
