// SPDX-License-Identifier: Apache-2.0
#include "model/ir/dim.h"

#include <gmock/gmock.h>

#include "base/prng.h"

namespace quern::model::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dim n = Dim::symbol("n"), h = Dim::symbol("h"), w = Dim::symbol("w");

TEST(Dim, sums_and_products_are_equal_in_whatever_order_they_were_computed) {
  EXPECT_EQ((n + h) * (n - h), n * n - h * h);
  EXPECT_EQ(n * 12 * h, h * (n * 4) * 3);
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_NE(n * h, n * w);
  EXPECT_TRUE((n + 1 - n).is(1));
}

TEST(Dim, text_is_an_expression_of_the_manifest) {
  EXPECT_EQ((n * h * 2 + 1).text(), "2 * h * n + 1");
  EXPECT_EQ((Dim(7) - n).text(), "-n + 7");
  EXPECT_EQ(floor_div(h - 1, 2).text(), "(h + 1) / 2 - 1");
  EXPECT_EQ((floor_div(h, 2) * n).text(), "n * (h / 2)");
  EXPECT_EQ(floor_div(h, w + 1).text(), "h / (w + 1)");
  EXPECT_EQ(min(h, 512).text(), "min(512, h)");
  EXPECT_EQ(Dim::unknown().text(), "?");
  EXPECT_EQ(show_dims({n, 3, h + 1}), "[n, 3, h + 1]");
}

TEST(Dim, a_quotient_by_a_number_gives_up_its_multiples) {
  EXPECT_EQ(floor_div(h * 4 + 6, 2), h * 2 + 3);
  EXPECT_EQ(floor_div(h * 2 + 5, 2), h + 2);
  EXPECT_EQ(floor_div(h + 4, 2), floor_div(h, 2) + 2);
  EXPECT_EQ(floor_div(h * 2, 4), floor_div(h, 2));
  EXPECT_EQ(floor_div(floor_div(h, 2), 2), floor_div(h, 4));
  EXPECT_EQ(floor_div(floor_div(h - 1, 2) + 1 - 1, 2), floor_div(h - 1, 4));
  EXPECT_EQ(ceil_div(h * 8, 8), h);
  EXPECT_EQ(modulo(h * 6, 3), Dim(0));
}

TEST(Dim, a_quotient_by_a_product_that_divides_is_exact) {
  EXPECT_EQ(floor_div(n * h * 384, h * n), Dim(384));
  EXPECT_EQ(floor_div(n * h * 12 + n * 4, n * 2), h * 6 + 2);
  EXPECT_EQ(floor_div(n * h + n * w, h + w).text(), "(h * n + n * w) / (h + w)");
  EXPECT_EQ(floor_div((h + w) * 6, h + w), Dim(6));
}

TEST(Dim, minima_and_maxima_are_decided_by_bounds) {
  const Dim seq = Dim::symbol("seq", 1, 512);
  EXPECT_EQ(min(seq, 512), seq);
  EXPECT_EQ(max(seq, 1), seq);
  EXPECT_EQ(max(seq - 600, 0), Dim(0));
  EXPECT_EQ(min(seq, seq + 1), seq);
  EXPECT_EQ(min(seq, 100), min(100, seq));
  EXPECT_EQ(Dim::at_most(seq, 512), true);
  EXPECT_EQ(Dim::at_most(513, seq), false);
  EXPECT_EQ(Dim::at_most(seq, 100), std::nullopt);
  EXPECT_EQ(Dim::same(seq, -1), false);
  EXPECT_EQ(Dim::same(seq, 5), std::nullopt);
}

TEST(Dim, what_cannot_be_expressed_stays_unknown) {
  EXPECT_FALSE(floor_div(h, 0).is_known());
  EXPECT_FALSE((Dim(INT64_MAX) + 1).is_known());
  EXPECT_FALSE((Dim(INT64_MAX) * n * 2).is_known());
  EXPECT_FALSE((Dim::unknown() * 0).is_known());
  EXPECT_FALSE(Dim::unknown() == Dim::unknown());
  Dim long_one = 0;
  for (int i = 0; i < 100; ++i) long_one = long_one + Dim::symbol("d" + std::to_string(i));
  EXPECT_FALSE(long_one.is_known());
  EXPECT_THAT(Dim::unknown().value({}).error().text, HasSubstr("no whole number"));
}

TEST(Dim, a_value_needs_all_names_and_says_which_is_missing) {
  EXPECT_EQ(*(floor_div(h + 1, 2) * n).value({{"h", 6}, {"n", 5}}), 15);
  EXPECT_THAT((h * n).value({{"h", 6}}).error().text, HasSubstr("dim 'n' has no value"));
  EXPECT_EQ((h * n + n).bound({{"h", 3}}), n * 4);
  std::vector<std::string> names;
  (min(h, n) * h).add_names(names);
  EXPECT_THAT(names, ElementsAre("h", "n"));
}

TEST(Dim, what_is_no_expression_is_refused_with_its_place) {
  for (const char* text : {"", "1 +", "a b", "(a", "min(a)", "foo(a, b)", "1x", "99999999999999999999"})
    EXPECT_FALSE(Dim::parse(text).ok()) << text;
  EXPECT_FALSE(Dim::parse(std::string(100, '(')).ok());
  EXPECT_THAT(Dim::parse("a + $").error().text, HasSubstr("at character 5"));
}

// Random expressions: their canonical form has the value that plain arithmetic gives, and survives its text.
TEST(Dim, canonical_forms_keep_the_value) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Prng prng(seed);
    const DimValues values = {{"a", 1 + static_cast<int64_t>(prng.below(20))},
                              {"b", 1 + static_cast<int64_t>(prng.below(20))}};
    struct Both {
      Dim dim;
      int64_t value;
    };
    std::vector<Both> made = {{Dim::symbol("a"), values.at("a")}, {Dim::symbol("b"), values.at("b")}, {3, 3}, {-2, -2}};
    for (int i = 0; i < 6; ++i) {
      const Both x = made[prng.below(made.size())], y = made[prng.below(made.size())];
      const int64_t remainder = y.value == 0 ? 0 : ((x.value % y.value) + y.value) % y.value;
      switch (prng.below(6)) {
        case 0:
          made.push_back({x.dim + y.dim, x.value + y.value});
          break;
        case 1:
          made.push_back({x.dim - y.dim, x.value - y.value});
          break;
        case 2:
          made.push_back({x.dim * y.dim, x.value * y.value});
          break;
        case 3:
          if (y.value != 0) made.push_back({floor_div(x.dim, y.dim), (x.value - remainder) / y.value});
          break;
        case 4:
          made.push_back({min(x.dim, y.dim), std::min(x.value, y.value)});
          break;
        default:
          made.push_back({max(x.dim, y.dim), std::max(x.value, y.value)});
      }
    }
    for (const Both& both : made) {
      if (!both.dim.is_known()) continue;
      const auto value = both.dim.value(values);
      ASSERT_TRUE(value.ok()) << seed << ": " << value.error().text;
      ASSERT_EQ(*value, both.value) << seed << ": " << both.dim.text();
      const Dim::Range range = both.dim.range();
      ASSERT_TRUE(range.low <= both.value && both.value <= range.high) << seed << ": " << both.dim.text();
      auto again = Dim::parse(both.dim.text());
      ASSERT_TRUE(again.ok()) << again.error().text;
      ASSERT_EQ(*again, both.dim) << seed << ": " << both.dim.text() << " is read as " << again->text();
    }
  }
}

}  // namespace
}  // namespace quern::model::ir
