// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace quern {

/// The value of a name in an expression, or a bound of a param: whole, or real for a float param. A uint64_t is only
/// used for what no int64_t holds. The order is part of a function's version (manifest.cc): append only.
using Number = std::variant<int64_t, double, uint64_t>;

/// -1, 0 or 1 as a is below, equal to or above b. Whole numbers are compared as such: beyond 2^53 a double would blur
/// them.
int compare_numbers(const Number& a, const Number& b);

/// What the names in an expression stand for; nothing for a name that is not known.
using Names = std::function<std::optional<Number>(std::string_view name)>;

/// An expression of a graph, parsed: `ceil_div(n, 16) * 16`.
///
/// Integer: `+ - * / % << >> ( )`, `ceil_div round_up min max log2` (log2 exact, or an error); `/` and `%` floor;
/// 64-bit overflow is an error; precedence as in C. Real: fp64, `/` is true division, and `sqrt`. Comparisons
/// (`< <= > >= == !=`) and `! && ||` are 1 or 0, whatever is not 0 is true, and `a ? b : c` is b or c: what `&&`, `||`
/// and `?:` do not choose may have no value. At most kLongest characters and kDeepest nested parentheses, so that
/// evaluation is bounded. Immutable.
class Expression {
 public:
  static constexpr size_t kLongest = 512;
  static constexpr int kDeepest = 32;

  /// kInvalid says what is wrong and at which character.
  static Result<Expression> parse(std::string_view text);
  static Expression constant(int64_t value);

  Result<int64_t> whole(const Names& names) const;
  Result<double> real(const Names& names) const;
  /// The whole number that `name` must be for whole() to give `value`. Nothing where that cannot be told: only sums,
  /// differences, shifts to the left and products that have `name` on one side are looked through, and all other names
  /// must be known. kInvalid if no whole number does it.
  Result<std::optional<int64_t>> solve(std::string_view name, int64_t value, const Names& others) const;
  /// Every name that occurs, in order of first occurrence.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& text() const { return text_; }
  /// The value if it has no names.
  std::optional<int64_t> fixed() const;
  /// True of an expression that whole() and real() evaluate to the same number when all its names are whole numbers: it
  /// has no fraction, no division, no log2 and no sqrt.
  bool is_whole() const;
  /// True of an expression that has a fraction or a sqrt, so that whole() may have no value where real() has.
  bool has_fractions() const;
  /// True of a name that stands alone, as in `shape: [n]`: what a request's shape can bind.
  bool is_name() const { return nodes_.size() == 1 && nodes_[0].kind == Node::Kind::kName; }

 private:
  enum class Op : uint8_t {
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kRest,
    kLeft,
    kRight,
    kBelow,
    kAtMost,
    kAbove,
    kAtLeast,
    kEqual,
    kUnequal,
    kAnd,
    kOr,
    kCeilDiv,
    kRoundUp,
    kMin,
    kMax,
    kLog2,
    kSqrt,
  };
  struct Node {
    enum class Kind : uint8_t { kNumber, kReal, kName, kMinus, kNot, kOperation, kChoice } kind;
    Op op = Op::kAdd;   ///< kOperation; of functions of one argument `right` is `left`
    int64_t whole = 0;  ///< kNumber
    double real = 0;    ///< kNumber and kReal
    uint32_t name = 0;  ///< kName: index into names_
    int32_t left = -1, right = -1, condition = -1;
  };
  template <class T>
  struct Evaluation;
  friend class ExpressionParser;
  friend struct ExpressionMath;

  std::string text_;
  std::vector<Node> nodes_;  ///< children before parents; the root is last
  std::vector<std::string> names_;
};

}  // namespace quern
