// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <functional>

#include "base/printable.h"
#include "model/ir/dim.h"
#include "model/ir/dim_parts.h"

namespace quern::model::ir {

/// Writes expressions, with the parentheses that `/` needs because it rounds.
class DimText {
 public:
  static std::string sum(const Dim& dim) {
    if (!dim.is_known_) return "?";
    if (!dim.sum_) return std::to_string(dim.constant_);
    std::string out;
    for (const Dim::Term& term : dim.sum_->terms) {
      const bool is_negative = term.number < 0;
      if (!out.empty())
        out += is_negative ? " - " : " + ";
      else if (is_negative)
        out += '-';
      out += product(term);
    }
    if (dim.constant_ > 0) out += fmt::format(" + {}", dim.constant_);
    // The magnitude as unsigned: that of the smallest int64_t does not fit an int64_t.
    if (dim.constant_ < 0) out += fmt::format(" - {}", ~static_cast<uint64_t>(dim.constant_) + 1);
    return out;
  }

 private:
  static std::string product(const Dim::Term& term) {
    std::string out;
    const uint64_t magnitude =
        term.number < 0 ? ~static_cast<uint64_t>(term.number) + 1 : static_cast<uint64_t>(term.number);
    if (magnitude != 1) out = std::to_string(magnitude);
    // Behind a sign the quotient needs parentheses: -2 / a is (-2) / a.
    const bool is_alone = term.number == 1 && term.factors.size() == 1 && term.factors[0].power == 1;
    for (const Dim::Factor& factor : term.factors)
      for (int i = 0; i < factor.power; ++i) out += (out.empty() ? "" : " * ") + atom(*factor.atom, is_alone);
    return out;
  }
  static std::string atom(const Dim::Atom& atom, bool is_alone) {
    switch (atom.kind) {
      case Dim::Atom::Kind::kName:
        return atom.name;
      case Dim::Atom::Kind::kMin:
        return fmt::format("min({}, {})", sum(atom.a), sum(atom.b));
      case Dim::Atom::Kind::kMax:
        return fmt::format("max({}, {})", sum(atom.a), sum(atom.b));
      case Dim::Atom::Kind::kFloorDiv:
        break;
    }
    const std::string quotient = fmt::format("{} / {}", operand(atom.a), operand(atom.b));
    return is_alone ? quotient : fmt::format("({})", quotient);
  }
  static std::string operand(const Dim& dim) {
    const bool is_simple = dim.is_fixed() ? dim.constant_ >= 0 : !dim.name().empty();
    return is_simple ? sum(dim) : fmt::format("({})", sum(dim));
  }
};

std::string Dim::text() const { return DimText::sum(*this); }

std::string show_dims(const Dims& dims) {
  std::string out;
  for (const Dim& dim : dims) out += (out.empty() ? "" : ", ") + dim.text();
  return fmt::format("[{}]", out);
}

namespace {

constexpr size_t kLongestText = 2048;
constexpr int kDeepest = 32;

// Recursive descent, one function per precedence.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, const Dim::Bounds& bounds) : text_(text), bounds_(bounds) {}

  Result<Dim> parse() {
    const Dim out = sum();
    if (problem_.empty() && (skip_space(), at_ < text_.size())) fail("something follows the expression");
    if (!problem_.empty())
      return invalid(fmt::format("'{}': {} at character {}; write an expression of names and whole numbers",
                                 printable(text_), problem_, at_ + 1));
    return out;
  }

 private:
  Dim fail(std::string_view what) {
    if (problem_.empty()) problem_ = what;
    return 0;
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Dim sum() {
    Dim left = product();
    while (problem_.empty()) {
      if (take('+'))
        left = left + product();
      else if (take('-'))
        left = left - product();
      else
        break;
    }
    return left;
  }
  Dim product() {
    Dim left = sign();
    while (problem_.empty()) {
      if (take('*'))
        left = left * sign();
      else if (take('/'))
        left = floor_div(left, sign());
      else
        break;
    }
    return left;
  }
  Dim sign() {
    if (!take('-')) return primary();
    return primary() * Dim(-1);
  }
  Dim primary() {
    if (take('(')) return nested();
    if (take('?')) return Dim::unknown();
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return fail("a name, a number or '(' is missing");
    if (word[0] >= '0' && word[0] <= '9') {
      int64_t value = 0;
      const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
      if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) return fail("no whole number");
      return value;
    }
    if (!take('(')) {
      const auto found = bounds_.find(word);
      return found == bounds_.end() ? Dim::symbol(word) : Dim::symbol(word, found->second.low, found->second.high);
    }
    const Dim first = argument();
    if (!take(',')) return fail("',' is missing");
    const Dim second = argument();
    if (!take(')')) return fail("')' is missing");
    if (word == "min") return min(first, second);
    if (word == "max") return max(first, second);
    if (word == "ceil_div") return ceil_div(first, second);
    return fail("no function (there are min, max, ceil_div)");
  }
  Dim argument() {
    if (++depth_ > kDeepest) return fail("too many nested parentheses");
    const Dim out = sum();
    --depth_;
    return out;
  }
  Dim nested() {
    const Dim out = argument();
    if (!take(')')) return fail("')' is missing");
    return out;
  }

  std::string_view text_;
  const Dim::Bounds& bounds_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

Result<Dim> Dim::parse(std::string_view text, const Bounds& bounds) {
  if (text.size() > kLongestText)
    return invalid("dim: an expression of more than 2048 characters; write a shorter one");
  return ExpressionParser(text, bounds).parse();
}

}  // namespace quern::model::ir
