// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "function/expression.h"

using namespace quern;

// Whatever parses evaluates without harm, whatever its names stand for.
void fuzz_one(std::span<const std::byte> input) {
  const auto expression = Expression::parse(as_text(input));
  if (!expression.ok()) {
    QUERN_CHECK(!expression.error().text.empty(), "nothing is refused without a reason");
    return;
  }
  QUERN_CHECK(Expression::parse(expression->text()).ok(), "its text parses again");
  for (const Number value :
       {Number(int64_t{0}), Number(int64_t{7}), Number(INT64_MIN), Number(INT64_MAX), Number(0.5)}) {
    const Names names = [&](std::string_view) { return std::optional(value); };
    (void)expression->whole(names);
    (void)expression->real(names);
    for (const std::string& name : expression->names()) {
      const auto solved = expression->solve(name, 7, {});
      if (!solved.ok() || !*solved) continue;
      const auto back = expression->whole([&](std::string_view) { return std::optional<Number>(**solved); });
      QUERN_CHECK(!back.ok() || *back == 7, "what solves an expression gives its value");
    }
  }
  (void)expression->fixed();
}

FuzzPlan fuzz_plan() {
  FuzzPlan plan;
  plan.rounds = 200'000;
  plan.seeds = {"n",
                "ceil_div(n, 16) * 16",
                "round_up(n + 1, 64) >> 2",
                "min(a, b, c) % max(1, n)",
                "-(1 << 62) / -1",
                "sqrt(n) * 1e-5 + .5",
                "log2(n) - 3",
                "((((n))))",
                "n >= 6 && n % 4 == 0 ? n / 4 : !n",
                "a ? b < c : d || e > f"};
  plan.words = {
      "(",     ")", ",", "+", "-", "*", "/",  "%",  "<<", ">>", "n",  "log2(", "sqrt(", "min(", "9223372036854775807",
      "1e308", ".", " ", "?", ":", "<", ">=", "==", "!=", "!",  "&&", "||"};
  return plan;
}
