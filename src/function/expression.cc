// SPDX-License-Identifier: Apache-2.0
//
// Recursive descent, one function per precedence, as in C from the weakest: ?:, then ||, &&, == and !=, comparisons,
// shifts, + -, * / %, signs. The parser appends nodes children first, so evaluation is one pass over an array with a
// second array of values: no recursion and no allocation, whatever a stranger wrote. A node without a value says by
// which node that came about, and matters only if the node above it needs the value.
#include "function/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace quern {

/// The arithmetic of one operation, for whole numbers and for reals. `false`: it has no value, and `why` says so.
struct ExpressionMath {
  using Op = Expression::Op;

  static int64_t floor_div(int64_t a, int64_t b) {
    const int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
  }

  static bool divide(Op op, int64_t a, int64_t b, int64_t& out) {
    if (b == 0) return false;
    if (b == -1) {  // the one quotient that does not fit, and a trap on x86
      out = 0;
      return op == Op::kRest || !__builtin_sub_overflow(int64_t{0}, a, &out);
    }
    if (op == Op::kDivide) return out = floor_div(a, b), true;
    out = a % b;
    if (out != 0 && (out < 0) != (b < 0)) out += b;  // has the sign of b, as what is left of a floor has
    return true;
  }

  static bool shift(Op op, int64_t a, int64_t b, int64_t& out) {
    if (b < 0) return false;
    if (op == Op::kRight) return out = a >> std::min<int64_t>(b, 63), true;
    if (a == 0) return out = 0, true;
    return b <= 62 && !__builtin_mul_overflow(a, int64_t{1} << b, &out);
  }

  static bool shift(Op op, double a, double b, double& out) {
    if (!are_shifted(a, b)) return false;
    int64_t whole = 0;
    const bool fits = shift(op, static_cast<int64_t>(a), static_cast<int64_t>(b), whole);
    out = static_cast<double>(whole);
    return fits;
  }
  static bool are_shifted(double a, double b) {
    constexpr double kWhole = 0x1p53;
    return a == std::floor(a) && b == std::floor(b) && std::fabs(a) <= kWhole && std::fabs(b) <= kWhole;
  }

  // What is the same for both.
  template <class T>
  static bool compare(Op op, T a, T b, T& out) {
    switch (op) {
      case Op::kBelow:
        return out = a < b, true;
      case Op::kAtMost:
        return out = a <= b, true;
      case Op::kAbove:
        return out = a > b, true;
      case Op::kAtLeast:
        return out = a >= b, true;
      case Op::kEqual:
        return out = a == b, true;
      case Op::kUnequal:
        return out = a != b, true;
      case Op::kAnd:
        return out = a != T{0} && b != T{0}, true;
      case Op::kOr:
        return out = a != T{0} || b != T{0}, true;
      case Op::kMin:
        return out = std::min(a, b), true;
      default:
        return out = std::max(a, b), true;
    }
  }

  static bool compute(Op op, int64_t a, int64_t b, int64_t& out) {
    switch (op) {
      case Op::kAdd:
        return !__builtin_add_overflow(a, b, &out);
      case Op::kSubtract:
        return !__builtin_sub_overflow(a, b, &out);
      case Op::kMultiply:
        return !__builtin_mul_overflow(a, b, &out);
      case Op::kDivide:
      case Op::kRest:
        return divide(op, a, b, out);
      case Op::kLeft:
      case Op::kRight:
        return shift(op, a, b, out);
      case Op::kCeilDiv:
      case Op::kRoundUp: {
        if (b <= 0) return false;
        const int64_t up = floor_div(a, b) + (a % b != 0);  // fits: it is between a and 0, or at most 1 above a / b
        if (op == Op::kCeilDiv) return out = up, true;
        return !__builtin_mul_overflow(up, b, &out);
      }
      case Op::kLog2:
        if (a <= 0 || (a & (a - 1)) != 0) return false;
        return out = 63 - __builtin_clzll(static_cast<uint64_t>(a)), true;
      case Op::kSqrt:
        return false;
      default:
        return compare(op, a, b, out);
    }
  }

  static bool compute(Op op, double a, double b, double& out) {
    switch (op) {
      case Op::kAdd:
        return out = a + b, true;
      case Op::kSubtract:
        return out = a - b, true;
      case Op::kMultiply:
        return out = a * b, true;
      case Op::kDivide:
        return out = a / b, b != 0;
      case Op::kRest:
        return out = a - std::floor(a / b) * b, b != 0;
      case Op::kLeft:
      case Op::kRight:
        return shift(op, a, b, out);
      case Op::kCeilDiv:
      case Op::kRoundUp:
        out = std::ceil(a / b);
        if (op == Op::kRoundUp) out *= b;
        return b > 0;
      case Op::kLog2:
        return out = std::log2(a), a > 0;
      case Op::kSqrt:
        return out = std::sqrt(a), !(a < 0);
      default:
        return compare(op, a, b, out);
    }
  }

  // Of an operation that has no value.
  template <class T>
  static std::string why(Op op, T a, T b) {
    constexpr bool kWhole = std::is_integral_v<T>;
    switch (op) {
      case Op::kDivide:
      case Op::kRest:
        if (b == 0) return "divides by zero";
        break;
      case Op::kLeft:
      case Op::kRight:
        if (!kWhole && !are_shifted(static_cast<double>(a), static_cast<double>(b))) return "shifts what is not whole";
        if (b < 0) return fmt::format("shifts by {}", b);
        break;
      case Op::kCeilDiv:
      case Op::kRoundUp:
        if (!(b > 0))
          return fmt::format("{} by {}; it must be positive", op == Op::kCeilDiv ? "ceil_div" : "round_up", b);
        break;
      case Op::kLog2:
        return fmt::format(kWhole ? "log2({}) is not whole" : "log2({}) is not a number", a);
      case Op::kSqrt:
        if (kWhole) return "sqrt is not whole; only scalars of a float dtype may use it";
        return fmt::format("sqrt({}) is not a number", a);
      default:
        break;
    }
    return "does not fit 64 bits";
  }
};

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

Error problem(const std::string& text, std::string_view what) { return invalid(fmt::format("'{}': {}", text, what)); }

}  // namespace

int compare_numbers(const Number& a, const Number& b) {
  return std::visit(
      [](auto one, auto two) {
        if constexpr (std::is_integral_v<decltype(one)> && std::is_integral_v<decltype(two)>) {
          return std::cmp_greater(one, two) - std::cmp_less(one, two);
        } else {
          const auto x = static_cast<double>(one), y = static_cast<double>(two);
          return (x > y) - (x < y);
        }
      },
      a, b);
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) { out_.text_ = text; }

  Result<Expression> parse() {
    const int32_t root = choice();
    if (root >= 0 && (skip_space(), at_ < text_.size())) fail(fmt::format("unexpected '{}'", text_[at_]));
    if (!problem_.empty()) return invalid(problem_);
    return std::move(out_);
  }

 private:
  using Node = Expression::Node;
  using Kind = Node::Kind;
  using Op = Expression::Op;
  struct FunctionRow {
    std::string_view name;
    Op op;
    int arguments;  // min and max take more, folded from the left
  };
  static constexpr std::array<FunctionRow, 6> kFunctions = {{{"ceil_div", Op::kCeilDiv, 2},
                                                             {"round_up", Op::kRoundUp, 2},
                                                             {"min", Op::kMin, 2},
                                                             {"max", Op::kMax, 2},
                                                             {"log2", Op::kLog2, 1},
                                                             {"sqrt", Op::kSqrt, 1}}};
  struct OperatorRow {
    std::string_view sign;
    Op op;
    int level;  // of precedence, 0 the weakest
  };
  // A sign that another one begins with stands behind it.
  static constexpr std::array<OperatorRow, 15> kOperators = {{{"||", Op::kOr, 0},
                                                              {"&&", Op::kAnd, 1},
                                                              {"==", Op::kEqual, 2},
                                                              {"!=", Op::kUnequal, 2},
                                                              {"<<", Op::kLeft, 4},
                                                              {">>", Op::kRight, 4},
                                                              {"<=", Op::kAtMost, 3},
                                                              {">=", Op::kAtLeast, 3},
                                                              {"<", Op::kBelow, 3},
                                                              {">", Op::kAbove, 3},
                                                              {"+", Op::kAdd, 5},
                                                              {"-", Op::kSubtract, 5},
                                                              {"*", Op::kMultiply, 6},
                                                              {"/", Op::kDivide, 6},
                                                              {"%", Op::kRest, 6}}};
  static constexpr int kTightest = 6;

  // The first problem is the one worth telling.
  int32_t fail(std::string_view what) {
    if (problem_.empty()) problem_ = fmt::format("'{}': {} at character {}", out_.text_, what, at_ + 1);
    return -1;
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  int32_t add(Node node) {
    out_.nodes_.push_back(node);
    return static_cast<int32_t>(out_.nodes_.size()) - 1;
  }

  // a ? b : c, which is weakest, and goes from the right: its length bounds how deep that nests.
  int32_t choice() {
    const int32_t condition = operation(0);
    if (condition < 0 || !take("?")) return condition;
    const int32_t left = choice();
    if (left < 0) return -1;
    if (!take(":")) return fail("':' is missing");
    const int32_t right = choice();
    if (right < 0) return -1;
    return add({.kind = Kind::kChoice, .left = left, .right = right, .condition = condition});
  }

  const OperatorRow* next_operator() {
    skip_space();
    for (const OperatorRow& row : kOperators)
      if (text_.substr(at_, row.sign.size()) == row.sign) return &row;
    return nullptr;
  }

  // What operators of this level join, or of a tighter one.
  int32_t operation(int level) {
    if (level > kTightest) return sign();
    int32_t left = operation(level + 1);
    while (left >= 0) {
      const OperatorRow* row = next_operator();
      if (!row || row->level != level) break;
      at_ += row->sign.size();
      const int32_t right = operation(level + 1);
      if (right < 0) return -1;
      left = add({.kind = Kind::kOperation, .op = row->op, .left = left, .right = right});
    }
    return left;
  }

  // Any number of signs without recursion: they are applied from the innermost.
  int32_t sign() {
    std::string signs;
    for (skip_space(); at_ < text_.size() && std::string_view("+-!").find(text_[at_]) != std::string_view::npos;
         skip_space())
      signs += text_[at_++];
    int32_t operand = primary();
    for (size_t i = signs.size(); operand >= 0 && i > 0; --i) {
      // Two that stand together cancel.
      if (signs[i - 1] == '-' && i > 1 && signs[i - 2] == '-')
        --i;
      else if (signs[i - 1] != '+')
        operand = add({.kind = signs[i - 1] == '-' ? Kind::kMinus : Kind::kNot, .left = operand});
    }
    return operand;
  }
  int32_t primary() {
    skip_space();
    if (at_ == text_.size()) return fail("a number, a name or '(' is missing");
    const char c = text_[at_];
    if (is_digit(c) || c == '.') return number();
    if (is_letter(c)) return name_or_call();
    if (c == '(') {
      ++at_;
      return nested();
    }
    return fail(fmt::format("unexpected '{}'", c));
  }
  // Behind an opening parenthesis, to its closing one.
  int32_t nested() {
    if (++depth_ > Expression::kDeepest)
      return fail(fmt::format("more than {} nested parentheses", Expression::kDeepest));
    const int32_t inner = choice();
    if (inner >= 0 && !take(")")) return fail("')' is missing");
    --depth_;
    return inner;
  }
  int32_t number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    double real = 0;
    const auto as_real = std::from_chars(begin, end, real);
    if (as_real.ec == std::errc::result_out_of_range) return fail("a number out of range");
    if (as_real.ec != std::errc()) return fail("not a number");
    int64_t whole = 0;
    const auto as_whole = std::from_chars(begin, end, whole);
    const bool is_whole = as_whole.ptr == as_real.ptr;
    if (is_whole && as_whole.ec != std::errc()) return fail("a whole number that does not fit 64 bits");
    if (as_real.ptr != end && is_letter(*as_real.ptr)) return fail("a number runs into a name");
    at_ += static_cast<size_t>(as_real.ptr - begin);
    return add({.kind = is_whole ? Kind::kNumber : Kind::kReal, .whole = is_whole ? whole : 0, .real = real});
  }
  int32_t name_or_call() {
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = end;
    for (const FunctionRow& row : kFunctions)
      if (row.name == name) return call(row);
    if (take("("))
      return --at_, fail(fmt::format("'{}' is no function (there are ceil_div, round_up, min, max, log2, sqrt)", name));
    auto& names = out_.names_;
    auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) known = names.emplace(names.end(), name);
    return add({.kind = Kind::kName, .name = static_cast<uint32_t>(known - names.begin())});
  }
  int32_t call(const FunctionRow& row) {
    if (!take("(")) return fail(fmt::format("'(' is missing behind {}", row.name));
    if (++depth_ > Expression::kDeepest)
      return fail(fmt::format("more than {} nested parentheses", Expression::kDeepest));
    int32_t result = choice();
    if (row.arguments == 1) {
      if (result >= 0) result = add({.kind = Kind::kOperation, .op = row.op, .left = result, .right = result});
    } else {
      const bool takes_more = row.op == Op::kMin || row.op == Op::kMax;
      bool first = true;
      while (result >= 0 && (first || takes_more) && take(",")) {
        const int32_t right = choice();
        if (right < 0) return -1;
        result = add({.kind = Kind::kOperation, .op = row.op, .left = result, .right = right});
        first = false;
      }
      if (result >= 0 && first)
        return fail(fmt::format("{} takes {} arguments, put it in quotes within a list; ',' is missing", row.name,
                                row.arguments));
    }
    if (result >= 0 && !take(")")) return fail("')' is missing");
    --depth_;
    return result;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string problem_;
  Expression out_;
};

Result<Expression> Expression::parse(std::string_view text) {
  if (text.size() > kLongest)
    return invalid(
        fmt::format("'{}…': is {} characters long; at most {} are read", text.substr(0, 32), text.size(), kLongest));
  return ExpressionParser(text).parse();
}

Expression Expression::constant(int64_t value) {
  Expression out;
  out.text_ = std::to_string(value);
  out.nodes_.push_back({.kind = Node::Kind::kNumber, .whole = value, .real = static_cast<double>(value)});
  return out;
}

/// The values of all nodes. A node is at least one character, except that `a` in min(a, b, c) shares one with its
/// comma: there are never more than kLongest.
template <class T>
struct Expression::Evaluation {
  using Kind = Node::Kind;
  static constexpr bool kWhole = std::is_integral_v<T>;

  const Expression& of;
  const Names& names;
  std::array<T, kLongest> values;           ///< of nodes that have one
  std::array<uint16_t, kLongest> culprits;  ///< 0, or 1 + the node by which a node has no value

  Evaluation(const Expression& expression, const Names& all) : of(expression), names(all) {}

  static bool number_of(const std::optional<Number>& number, T& out) {
    if constexpr (kWhole) {
      const int64_t* whole = number ? std::get_if<int64_t>(&*number) : nullptr;
      return whole && (out = *whole, true);
    } else {
      if (!number) return false;
      out = std::visit([](auto value) { return static_cast<double>(value); }, *number);
      return true;
    }
  }

  // False: the node is to blame itself.
  bool step(size_t i) {
    const Node& node = of.nodes_[i];
    const auto at = [](int32_t child) { return static_cast<size_t>(child); };
    culprits[i] = 0;
    switch (node.kind) {
      case Kind::kNumber:
        if constexpr (kWhole)
          values[i] = node.whole;
        else
          values[i] = node.real;
        return true;
      case Kind::kReal:
        values[i] = static_cast<T>(0);
        if constexpr (!kWhole) values[i] = node.real;
        return !kWhole;
      case Kind::kName:
        return names && number_of(names(of.names_[node.name]), values[i]);
      case Kind::kMinus:
      case Kind::kNot:
        if ((culprits[i] = culprits[at(node.left)]) != 0) return true;
        if (node.kind == Kind::kNot) return values[i] = values[at(node.left)] == T{0}, true;
        if constexpr (!kWhole) return values[i] = -values[at(node.left)], true;
        return ExpressionMath::compute(Op::kSubtract, T{0}, values[at(node.left)], values[i]);
      case Kind::kChoice: {
        if ((culprits[i] = culprits[at(node.condition)]) != 0) return true;
        const size_t chosen = at(values[at(node.condition)] != T{0} ? node.left : node.right);
        culprits[i] = culprits[chosen];
        if (culprits[i] == 0) values[i] = values[chosen];
        return true;
      }
      case Kind::kOperation:
        break;
    }
    const size_t left = at(node.left), right = at(node.right);
    if ((culprits[i] = culprits[left]) != 0) return true;
    // The right side does not matter where the left one decides.
    if ((node.op == Op::kAnd && values[left] == T{0}) || (node.op == Op::kOr && values[left] != T{0}))
      return values[i] = node.op == Op::kOr, true;
    if ((culprits[i] = culprits[right]) != 0) return true;
    return ExpressionMath::compute(node.op, values[left], values[right], values[i]);
  }

  std::string why(const Node& node) const {
    if (node.kind == Kind::kReal) return fmt::format("{} is not whole", node.real);
    if (node.kind == Kind::kMinus) return ExpressionMath::why(Op::kSubtract, T{}, T{});
    if (node.kind == Kind::kOperation)
      return ExpressionMath::why(node.op, values[static_cast<size_t>(node.left)],
                                 values[static_cast<size_t>(node.right)]);
    const std::string& name = of.names_[node.name];
    const auto value = names ? names(name) : std::nullopt;
    if (!value) return fmt::format("'{}' is not known here", name);
    if (const auto* beyond = std::get_if<uint64_t>(&*value))
      return fmt::format("'{}' is {}, and an expression counts to 2^63 - 1; pass it on alone, without arithmetic", name,
                         *beyond);
    return fmt::format("'{}' is not a whole number of 64 bits", name);
  }

  Result<T> run() {
    const size_t count = of.nodes_.size();
    if (count == 0) return T{0};
    if (count == 1 && step(0)) return values[0];  // most are a number or a name
    for (size_t i = 0; i < count; ++i)
      if (!step(i)) culprits[i] = static_cast<uint16_t>(i + 1);
    const uint16_t culprit = culprits[count - 1];
    if (culprit != 0) return problem(of.text_, why(of.nodes_[culprit - 1U]));
    return values[count - 1];
  }
};

Result<int64_t> Expression::whole(const Names& names) const { return Evaluation<int64_t>(*this, names).run(); }

Result<double> Expression::real(const Names& names) const { return Evaluation<double>(*this, names).run(); }

bool Expression::is_whole() const {
  return std::none_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.kind == Node::Kind::kReal || (node.kind == Node::Kind::kOperation &&
                                              (node.op == Op::kDivide || node.op == Op::kLog2 || node.op == Op::kSqrt));
  });
}

bool Expression::has_fractions() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.kind == Node::Kind::kReal || (node.kind == Node::Kind::kOperation && node.op == Op::kSqrt);
  });
}

std::optional<int64_t> Expression::fixed() const {
  if (!names_.empty()) return std::nullopt;
  auto value = whole({});
  return value.ok() ? std::optional(*value) : std::nullopt;
}

}  // namespace quern
