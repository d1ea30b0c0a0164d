// SPDX-License-Identifier: Apache-2.0
//
// Recursive descent, one function per precedence, as in C from the weakest: shifts, then + -, then * / %, then signs.
// The parser appends nodes children first, so evaluation is one pass over an array with a second array of values:
// no recursion and no allocation, whatever a stranger wrote.
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
namespace {

enum Function : char { kCeilDiv, kRoundUp, kMin, kMax, kLog2, kSqrt };
struct FunctionRow {
  std::string_view name;
  int arguments;  // min and max take more, folded from the left
};
// In the order of Function.
constexpr std::array<FunctionRow, 6> kFunctions = {
    {{"ceil_div", 2}, {"round_up", 2}, {"min", 2}, {"max", 2}, {"log2", 1}, {"sqrt", 1}}};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What stops an evaluation; the caller adds which expression it was.
using Outcome = std::optional<std::string>;

Outcome overflow() { return "does not fit 64 bits"; }

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

Outcome divide_whole(char op, int64_t a, int64_t b, int64_t& out) {
  if (b == 0) return "divides by zero";
  if (b == -1) {  // the one quotient that does not fit, and a trap on x86
    if (op == '%') return out = 0, std::nullopt;
    return __builtin_sub_overflow(int64_t{0}, a, &out) ? overflow() : std::nullopt;
  }
  if (op == '/') return out = floor_div(a, b), std::nullopt;
  out = a % b;
  if (out != 0 && (out < 0) != (b < 0)) out += b;  // has the sign of b, as what is left of a floor has
  return std::nullopt;
}

Outcome shift_whole(char op, int64_t a, int64_t b, int64_t& out) {
  if (b < 0) return fmt::format("shifts by {}", b);
  if (op == 'r') {
    out = a >> std::min<int64_t>(b, 63);
    return std::nullopt;
  }
  if (a == 0) return out = 0, std::nullopt;
  if (b > 62) return overflow();
  return __builtin_mul_overflow(a, int64_t{1} << b, &out) ? overflow() : std::nullopt;
}

Outcome binary_whole(char op, int64_t a, int64_t b, int64_t& out) {
  switch (op) {
    case '+':
      return __builtin_add_overflow(a, b, &out) ? overflow() : std::nullopt;
    case '-':
      return __builtin_sub_overflow(a, b, &out) ? overflow() : std::nullopt;
    case '*':
      return __builtin_mul_overflow(a, b, &out) ? overflow() : std::nullopt;
    case '/':
    case '%':
      return divide_whole(op, a, b, out);
    default:
      return shift_whole(op, a, b, out);
  }
}

Outcome call_whole(char function, int64_t a, int64_t b, int64_t& out) {
  switch (function) {
    case kMin:
      return out = std::min(a, b), std::nullopt;
    case kMax:
      return out = std::max(a, b), std::nullopt;
    case kSqrt:
      return "sqrt is not whole; only scalars of a float dtype may use it";
    case kLog2:
      if (a <= 0 || (a & (a - 1)) != 0) return fmt::format("log2({}) is not whole", a);
      return out = 63 - __builtin_clzll(static_cast<uint64_t>(a)), std::nullopt;
    default:
      break;
  }
  if (b <= 0) return fmt::format("{} by {}; it must be positive", kFunctions[static_cast<size_t>(function)].name, b);
  const int64_t up = floor_div(a, b) + (a % b != 0);  // fits: it is between a and 0, or at most 1 above a / b
  if (function == kCeilDiv) return out = up, std::nullopt;
  return __builtin_mul_overflow(up, b, &out) ? overflow() : std::nullopt;
}

Outcome binary_real(char op, double a, double b, double& out) {
  switch (op) {
    case '+':
      return out = a + b, std::nullopt;
    case '-':
      return out = a - b, std::nullopt;
    case '*':
      return out = a * b, std::nullopt;
    case '/':
      return b == 0 ? Outcome("divides by zero") : (out = a / b, std::nullopt);
    case '%':
      return b == 0 ? Outcome("divides by zero") : (out = a - std::floor(a / b) * b, std::nullopt);
    default:
      break;
  }
  constexpr double kWhole = 0x1p53;
  if (a != std::floor(a) || b != std::floor(b) || std::fabs(a) > kWhole || std::fabs(b) > kWhole)
    return "shifts what is not whole";
  int64_t whole = 0;
  Outcome outcome = shift_whole(op, static_cast<int64_t>(a), static_cast<int64_t>(b), whole);
  out = static_cast<double>(whole);
  return outcome;
}

Outcome call_real(char function, double a, double b, double& out) {
  switch (function) {
    case kMin:
      return out = std::min(a, b), std::nullopt;
    case kMax:
      return out = std::max(a, b), std::nullopt;
    case kSqrt:
      return a < 0 ? Outcome(fmt::format("sqrt({}) is not a number", a)) : (out = std::sqrt(a), std::nullopt);
    case kLog2:
      return a <= 0 ? Outcome(fmt::format("log2({}) is not a number", a)) : (out = std::log2(a), std::nullopt);
    default:
      break;
  }
  if (!(b > 0)) return fmt::format("{} by {}; it must be positive", kFunctions[static_cast<size_t>(function)].name, b);
  out = std::ceil(a / b);
  if (function == kRoundUp) out *= b;
  return std::nullopt;
}

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
    const int32_t root = shift();
    if (root >= 0 && (skip_space(), at_ < text_.size())) fail(fmt::format("unexpected '{}'", text_[at_]));
    if (!problem_.empty()) return invalid(problem_);
    return std::move(out_);
  }

 private:
  using Node = Expression::Node;
  using Kind = Node::Kind;

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
  int32_t join(char op, int32_t left, int32_t right) {
    if (left < 0 || right < 0) return -1;
    return add({.kind = Kind::kBinary, .op = op, .left = left, .right = right});
  }

  int32_t shift() {
    int32_t left = sum();
    while (left >= 0) {
      if (take("<<"))
        left = join('l', left, sum());
      else if (take(">>"))
        left = join('r', left, sum());
      else
        break;
    }
    return left;
  }
  int32_t sum() {
    int32_t left = product();
    while (left >= 0) {
      if (take("+"))
        left = join('+', left, product());
      else if (take("-"))
        left = join('-', left, product());
      else
        break;
    }
    return left;
  }
  int32_t product() {
    int32_t left = sign();
    while (left >= 0) {
      if (take("*"))
        left = join('*', left, sign());
      else if (take("/"))
        left = join('/', left, sign());
      else if (take("%"))
        left = join('%', left, sign());
      else
        break;
    }
    return left;
  }
  int32_t sign() {
    // Two signs cancel, so any number of them is at most one node and no recursion.
    bool minus = false;
    while (true) {
      if (take("-"))
        minus = !minus;
      else if (!take("+"))
        break;
    }
    const int32_t operand = primary();
    if (operand < 0 || !minus) return operand;
    return add({.kind = Kind::kUnary, .op = '-', .left = operand});
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
    const int32_t inner = shift();
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
    for (size_t i = 0; i < kFunctions.size(); ++i)
      if (kFunctions[i].name == name) return at_ = end, call(static_cast<char>(i));
    at_ = end;
    if (take("("))
      return --at_, fail(fmt::format("'{}' is no function (there are ceil_div, round_up, min, max, log2, sqrt)", name));
    auto& names = out_.names_;
    auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) known = names.emplace(names.end(), name);
    return add({.kind = Kind::kName, .name = static_cast<uint32_t>(known - names.begin())});
  }
  int32_t call(char function) {
    const FunctionRow& row = kFunctions[static_cast<size_t>(function)];
    if (!take("(")) return fail(fmt::format("'(' is missing behind {}", row.name));
    if (++depth_ > Expression::kDeepest)
      return fail(fmt::format("more than {} nested parentheses", Expression::kDeepest));
    int32_t result = shift();
    if (row.arguments == 1) {
      if (result >= 0) result = add({.kind = Kind::kCall, .op = function, .left = result, .right = result});
    } else {
      const bool takes_more = function == kMin || function == kMax;
      bool first = true;
      while (result >= 0 && (first || takes_more) && take(",")) {
        const int32_t right = shift();
        if (right < 0) return -1;
        result = add({.kind = Kind::kCall, .op = function, .left = result, .right = right});
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

// A node is at least one character, except that `a` in min(a, b, c) shares one with its comma: never more than
// kLongest.
template <class T>
using Values = std::array<T, Expression::kLongest>;

Result<int64_t> Expression::whole(const Names& names) const {
  Values<int64_t> values;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const int64_t left = node.left >= 0 ? values[static_cast<size_t>(node.left)] : 0;
    const int64_t right = node.right >= 0 ? values[static_cast<size_t>(node.right)] : 0;
    Outcome stop;
    switch (node.kind) {
      case Node::Kind::kNumber:
        values[i] = node.whole;
        break;
      case Node::Kind::kReal:
        stop = fmt::format("{} is not whole", node.real);
        break;
      case Node::Kind::kUnary:
        stop = binary_whole('-', 0, left, values[i]);
        break;
      case Node::Kind::kBinary:
        stop = binary_whole(node.op, left, right, values[i]);
        break;
      case Node::Kind::kCall:
        stop = call_whole(node.op, left, right, values[i]);
        break;
      case Node::Kind::kName: {
        const auto value = names ? names(names_[node.name]) : std::nullopt;
        if (!value)
          stop = fmt::format("'{}' is not known here", names_[node.name]);
        else if (const auto* beyond = std::get_if<uint64_t>(&*value))
          stop = fmt::format("'{}' is {}, and an expression counts to 2^63 - 1; pass it on alone, without arithmetic",
                             names_[node.name], *beyond);
        else if (!std::holds_alternative<int64_t>(*value))
          stop = fmt::format("'{}' is not a whole number of 64 bits", names_[node.name]);
        else
          values[i] = std::get<int64_t>(*value);
      }
    }
    if (stop) return problem(text_, *stop);
  }
  return nodes_.empty() ? 0 : values[nodes_.size() - 1];
}

Result<double> Expression::real(const Names& names) const {
  Values<double> values;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const double left = node.left >= 0 ? values[static_cast<size_t>(node.left)] : 0;
    const double right = node.right >= 0 ? values[static_cast<size_t>(node.right)] : 0;
    Outcome stop;
    switch (node.kind) {
      case Node::Kind::kNumber:
      case Node::Kind::kReal:
        values[i] = node.real;
        break;
      case Node::Kind::kUnary:
        values[i] = -left;
        break;
      case Node::Kind::kBinary:
        stop = binary_real(node.op, left, right, values[i]);
        break;
      case Node::Kind::kCall:
        stop = call_real(node.op, left, right, values[i]);
        break;
      case Node::Kind::kName: {
        const auto value = names ? names(names_[node.name]) : std::nullopt;
        if (!value)
          stop = fmt::format("'{}' is not known here", names_[node.name]);
        else
          values[i] = std::visit([](auto number) { return static_cast<double>(number); }, *value);
      }
    }
    if (stop) return problem(text_, *stop);
  }
  return nodes_.empty() ? 0.0 : values[nodes_.size() - 1];
}

bool Expression::is_whole() const {
  return std::none_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.kind == Node::Kind::kReal || (node.kind == Node::Kind::kBinary && node.op == '/') ||
           (node.kind == Node::Kind::kCall && (node.op == kLog2 || node.op == kSqrt));
  });
}

std::optional<int64_t> Expression::fixed() const {
  if (!names_.empty()) return std::nullopt;
  auto value = whole({});
  return value.ok() ? std::optional(*value) : std::nullopt;
}

}  // namespace quern
