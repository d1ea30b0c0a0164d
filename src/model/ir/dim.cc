// SPDX-License-Identifier: Apache-2.0
//
// An expression is `constant_` plus a sum of terms, each a number times powers of atoms. Sums and products stay in this
// form, so they need no simplifier: equal polynomials are equal structs. Only quotients, minima and maxima need rules,
// because they are atoms where no rule applies:
//
//   (c * q + r) / c   is  q + r / c        for a number c, where q is whole: every term gives up its multiples of c
//   (g * x) / (g * c) is  x / c            for a number g
//   (x / a + k) / b   is  (x + k * a) / (a * b)   for numbers a, b > 0
//   (m * p) / m       is  p                for a product m
//   min(a, b)         is  a                where the bounds of the names say a <= b
#include "model/ir/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/ir/dim_parts.h"

namespace quern::model::ir {
namespace {

constexpr int64_t kFar = int64_t{1} << 62;  // bounds beyond this are not told apart

int64_t clamp_wide(__int128 value) { return static_cast<int64_t>(std::clamp<__int128>(value, -kFar, kFar)); }
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}
Dim::Range product(Dim::Range a, Dim::Range b) {
  const __int128 corners[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                              static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
  return {clamp_wide(*low), clamp_wide(*high)};
}

}  // namespace

Dim Dim::unknown() {
  Dim out;
  out.is_known_ = false;
  return out;
}

Dim Dim::symbol(std::string_view name, int64_t low, int64_t high) {
  if (low == high) return low;
  Atom atom;
  atom.name = name;
  atom.low = low;
  atom.high = high;
  return of_atom(std::move(atom));
}

int64_t Dim::fixed() const {
  QUERN_CHECK(is_fixed(), "a size is a number");
  return constant_;
}

std::string Dim::name() const {
  if (!is_known_ || !sum_ || constant_ != 0 || sum_->terms.size() != 1) return "";
  const Term& term = sum_->terms[0];
  if (term.number != 1 || term.factors.size() != 1 || term.factors[0].power != 1) return "";
  return term.factors[0].atom->name;
}

std::strong_ordering Dim::order(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto by_kind = a.kind <=> b.kind; by_kind != 0) return by_kind;
  if (a.kind == Atom::Kind::kName) return a.name.compare(b.name) <=> 0;
  if (const auto by_first = order(a.a, b.a); by_first != 0) return by_first;
  return order(a.b, b.b);
}

std::strong_ordering Dim::order(const Term& a, const Term& b) {
  for (size_t i = 0; i < a.factors.size() && i < b.factors.size(); ++i) {
    if (const auto by_atom = order(*a.factors[i].atom, *b.factors[i].atom); by_atom != 0) return by_atom;
    if (const auto by_power = b.factors[i].power <=> a.factors[i].power; by_power != 0) return by_power;
  }
  return b.factors.size() <=> a.factors.size();
}

std::strong_ordering Dim::order(const Dim& a, const Dim& b) {
  if (a.is_known_ != b.is_known_) return a.is_known_ <=> b.is_known_;
  const size_t terms_of_a = a.sum_ ? a.sum_->terms.size() : 0, terms_of_b = b.sum_ ? b.sum_->terms.size() : 0;
  if (a.sum_ != b.sum_) {
    for (size_t i = 0; i < terms_of_a && i < terms_of_b; ++i) {
      const Term &one = a.sum_->terms[i], &other = b.sum_->terms[i];
      if (const auto by_term = order(one, other); by_term != 0) return by_term;
      if (const auto by_number = one.number <=> other.number; by_number != 0) return by_number;
    }
  }
  if (terms_of_a != terms_of_b) return terms_of_a <=> terms_of_b;
  return a.constant_ <=> b.constant_;
}

bool Dim::operator==(const Dim& other) const { return is_known_ && other.is_known_ && order(*this, other) == 0; }

Dim Dim::of_atom(Atom atom) {
  Term term;
  term.factors.push_back({std::make_shared<const Atom>(std::move(atom)), 1});
  std::vector<Term> terms;
  terms.push_back(std::move(term));
  return of_terms(std::move(terms), 0);
}

// Brings terms into canonical order and adds up those with the same factors.
Dim Dim::of_terms(std::vector<Term> terms, int64_t constant) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return order(a, b) < 0; });
  auto sum = std::make_shared<Sum>();
  for (Term& term : terms) {
    std::vector<Term>& kept = sum->terms;
    if (!kept.empty() && order(kept.back(), term) == 0) {
      if (__builtin_add_overflow(kept.back().number, term.number, &kept.back().number)) return unknown();
      if (kept.back().number == 0) kept.pop_back();
    } else if (term.number != 0) {
      kept.push_back(std::move(term));
    }
  }
  for (const Term& term : sum->terms)
    for (const Factor& factor : term.factors) {
      const Dim &a = factor.atom->a, &b = factor.atom->b;
      sum->parts += 1 + (a.sum_ ? a.sum_->parts : 0) + (b.sum_ ? b.sum_->parts : 0);
    }
  if (sum->parts > kMostParts) return unknown();
  Dim out(constant);
  if (!sum->terms.empty()) out.sum_ = std::move(sum);
  return out;
}

Dim operator+(const Dim& a, const Dim& b) {
  int64_t constant = 0;
  if (!a.is_known_ || !b.is_known_ || __builtin_add_overflow(a.constant_, b.constant_, &constant))
    return Dim::unknown();
  if (!a.sum_ || !b.sum_) {
    Dim out = a.sum_ ? a : b;
    out.constant_ = constant;
    return out;
  }
  std::vector<Dim::Term> terms = a.sum_->terms;
  terms.insert(terms.end(), b.sum_->terms.begin(), b.sum_->terms.end());
  return Dim::of_terms(std::move(terms), constant);
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  int64_t constant = 0;
  if (!a.is_known_ || !b.is_known_ || __builtin_mul_overflow(a.constant_, b.constant_, &constant))
    return Dim::unknown();
  if (!a.sum_ && !b.sum_) return constant;
  std::vector<Dim::Term> terms;
  const auto multiply = [&](const Dim::Term& one, const Dim::Term& other) {
    Dim::Term term;
    if (__builtin_mul_overflow(one.number, other.number, &term.number)) return false;
    // Both lists are in order: merge them, adding powers of the same atom.
    size_t i = 0, j = 0;
    while (i < one.factors.size() || j < other.factors.size()) {
      const auto by_atom = i == one.factors.size()     ? std::strong_ordering::greater
                           : j == other.factors.size() ? std::strong_ordering::less
                                                       : Dim::order(*one.factors[i].atom, *other.factors[j].atom);
      Dim::Factor factor = by_atom > 0 ? other.factors[j] : one.factors[i];
      if (by_atom == 0) factor.power += other.factors[j].power;
      i += by_atom <= 0;
      j += by_atom >= 0;
      term.factors.push_back(std::move(factor));
    }
    terms.push_back(std::move(term));
    return terms.size() <= static_cast<size_t>(Dim::kMostParts);
  };
  static const Dim::Term kOne;
  const std::vector<Dim::Term> none;
  for (const Dim::Term& one : a.sum_ ? a.sum_->terms : none) {
    for (const Dim::Term& other : b.sum_ ? b.sum_->terms : none)
      if (!multiply(one, other)) return Dim::unknown();
    Dim::Term scale = kOne;
    scale.number = b.constant_;
    if (b.constant_ != 0 && !multiply(one, scale)) return Dim::unknown();
  }
  for (const Dim::Term& other : b.sum_ ? b.sum_->terms : none) {
    Dim::Term scale = kOne;
    scale.number = a.constant_;
    if (a.constant_ != 0 && !multiply(scale, other)) return Dim::unknown();
  }
  return Dim::of_terms(std::move(terms), constant);
}

// a / b if b is one product that divides every term of a, or if a is a multiple of b.
std::optional<Dim> Dim::divide_exactly(const Dim& a, const Dim& b) {
  if (b.constant_ == 0 && b.sum_->terms.size() == 1 && a.constant_ == 0 && a.sum_) {
    const Term& divisor = b.sum_->terms[0];
    std::vector<Term> terms;
    for (const Term& term : a.sum_->terms) {
      if (term.number % divisor.number != 0) return std::nullopt;
      Term quotient{term.number / divisor.number, term.factors};
      for (const Factor& factor : divisor.factors) {
        const auto found = std::find_if(quotient.factors.begin(), quotient.factors.end(),
                                        [&](const Factor& f) { return order(*f.atom, *factor.atom) == 0; });
        if (found == quotient.factors.end() || found->power < factor.power) return std::nullopt;
        if ((found->power -= factor.power) == 0) quotient.factors.erase(found);
      }
      terms.push_back(std::move(quotient));
    }
    int64_t constant = 0;
    std::erase_if(terms, [&](const Term& term) {
      if (term.factors.empty()) constant = term.number;  // at most one: terms differ in their factors
      return term.factors.empty();
    });
    return of_terms(std::move(terms), constant);
  }
  if (!a.sum_) return std::nullopt;
  const int64_t ratio = a.sum_->terms[0].number / b.sum_->terms[0].number;
  if (ratio != 0 && a == b * Dim(ratio)) return Dim(ratio);
  return std::nullopt;
}

Dim Dim::divide_by_number(const Dim& a, int64_t b) {
  // Every term and the constant give up their multiples of b; what is left of each is in [0, b).
  std::vector<Term> whole, rest;
  int64_t common = b;
  for (const Term& term : a.sum_->terms) {
    const int64_t quotient = floor_quotient(term.number, b);
    const int64_t left = term.number - quotient * b;
    if (quotient != 0) whole.push_back({quotient, term.factors});
    if (left == 0) continue;
    rest.push_back({left, term.factors});
    common = std::gcd(common, left);
  }
  const int64_t quotient = floor_quotient(a.constant_, b);
  const Dim outside = of_terms(std::move(whole), quotient);
  if (rest.empty()) return outside;
  for (Term& term : rest) term.number /= common;
  Dim numerator = of_terms(std::move(rest), (a.constant_ - quotient * b) / common);
  int64_t divisor = b / common;
  if (divisor == 1) return outside + numerator;
  const Term& first = numerator.sum_->terms[0];
  if (numerator.sum_->terms.size() == 1 && first.number == 1 && first.factors.size() == 1 &&
      first.factors[0].power == 1 && first.factors[0].atom->kind == Atom::Kind::kFloorDiv &&
      first.factors[0].atom->b.is_fixed()) {
    const Atom inner = *first.factors[0].atom;
    const Dim wide = Dim(divisor) * inner.b;
    if (!wide.is_known()) return unknown();
    return outside + floor_div(inner.a + Dim(numerator.constant_) * inner.b, wide);
  }
  const Range range = numerator.range();
  if (floor_quotient(range.low, divisor) == floor_quotient(range.high, divisor))
    return outside + Dim(floor_quotient(range.low, divisor));
  Atom atom;
  atom.kind = Atom::Kind::kFloorDiv;
  atom.a = std::move(numerator);
  atom.b = divisor;
  return outside + of_atom(std::move(atom));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (!a.is_known_ || !b.is_known_ || b.is(0)) return Dim::unknown();
  if (b.is_fixed()) {
    if (b.constant_ < 0) return b.constant_ == INT64_MIN ? Dim::unknown() : floor_div(a * Dim(-1), Dim(-b.constant_));
    if (a.is_fixed()) return floor_quotient(a.constant_, b.constant_);
    return Dim::divide_by_number(a, b.constant_);
  }
  if (a.is(0)) return 0;
  if (auto exact = Dim::divide_exactly(a, b)) return *exact;
  Dim::Atom atom;
  atom.kind = Dim::Atom::Kind::kFloorDiv;
  atom.a = a;
  atom.b = b;
  return Dim::of_atom(std::move(atom));
}

Dim min(const Dim& a, const Dim& b) {
  if (!a.is_known_ || !b.is_known_) return Dim::unknown();
  if (const auto decided = Dim::at_most(a, b)) return *decided ? a : b;
  if (const auto decided = Dim::at_most(b, a); decided && *decided) return b;
  const bool in_order = Dim::order(a, b) < 0;
  Dim::Atom atom;
  atom.kind = Dim::Atom::Kind::kMin;
  atom.a = in_order ? a : b;
  atom.b = in_order ? b : a;
  return Dim::of_atom(std::move(atom));
}

Dim max(const Dim& a, const Dim& b) {
  if (!a.is_known_ || !b.is_known_) return Dim::unknown();
  if (const auto decided = Dim::at_most(a, b)) return *decided ? b : a;
  if (const auto decided = Dim::at_most(b, a); decided && *decided) return a;
  const bool in_order = Dim::order(a, b) < 0;
  Dim::Atom atom;
  atom.kind = Dim::Atom::Kind::kMax;
  atom.a = in_order ? a : b;
  atom.b = in_order ? b : a;
  return Dim::of_atom(std::move(atom));
}

Dim::Range Dim::range_of(const Atom& atom) {
  if (atom.kind == Atom::Kind::kName) return {atom.low, atom.high};
  const Range a = atom.a.range(), b = atom.b.range();
  if (atom.kind == Atom::Kind::kMin) return {std::min(a.low, b.low), std::min(a.high, b.high)};
  if (atom.kind == Atom::Kind::kMax) return {std::max(a.low, b.low), std::max(a.high, b.high)};
  if (b.low < 1) return {-kFar, kFar};
  return {std::min(floor_quotient(a.low, b.low), floor_quotient(a.low, b.high)),
          std::max(floor_quotient(a.high, b.low), floor_quotient(a.high, b.high))};
}

Dim::Range Dim::range() const {
  if (!is_known_) return {-kFar, kFar};
  Range out{clamp_wide(constant_), clamp_wide(constant_)};
  if (!sum_) return out;
  for (const Term& term : sum_->terms) {
    Range range{term.number, term.number};
    for (const Factor& factor : term.factors)
      for (int i = 0; i < factor.power; ++i) range = product(range, range_of(*factor.atom));
    out.low = clamp_wide(static_cast<__int128>(out.low) + range.low);
    out.high = clamp_wide(static_cast<__int128>(out.high) + range.high);
  }
  return out;
}

std::optional<bool> Dim::at_most(const Dim& a, const Dim& b) {
  const Dim difference = b - a;
  if (!difference.is_known_) return std::nullopt;
  const Range range = difference.range();
  if (range.low >= 0) return true;
  if (range.high < 0) return false;
  return std::nullopt;
}

std::optional<bool> Dim::same(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (!difference.is_known_) return std::nullopt;
  if (difference.is(0)) return true;
  const Range range = difference.range();
  if (range.low > 0 || range.high < 0) return false;
  return std::nullopt;
}

// The expression again, with every name replaced by what `map` says, from the inside out.
template <class Map>
Dim Dim::mapped(const Map& map) const {
  if (!is_known_ || !sum_) return *this;
  Dim out = constant_;
  for (const Term& term : sum_->terms) {
    Dim product = term.number;
    for (const Factor& factor : term.factors) {
      const Atom& atom = *factor.atom;
      Dim value;
      switch (atom.kind) {
        case Atom::Kind::kName:
          value = map(atom);
          break;
        case Atom::Kind::kFloorDiv:
          value = floor_div(atom.a.mapped(map), atom.b.mapped(map));
          break;
        case Atom::Kind::kMin:
          value = min(atom.a.mapped(map), atom.b.mapped(map));
          break;
        case Atom::Kind::kMax:
          value = max(atom.a.mapped(map), atom.b.mapped(map));
          break;
      }
      for (int i = 0; i < factor.power; ++i) product = product * value;
    }
    out = out + product;
  }
  return out;
}

Dim Dim::bound(const DimValues& values) const {
  return mapped([&](const Atom& atom) {
    const auto found = values.find(atom.name);
    return found == values.end() ? symbol(atom.name, atom.low, atom.high) : Dim(found->second);
  });
}

Result<int64_t> Dim::value(const DimValues& values) const {
  if (is_fixed()) return constant_;
  const Dim out = bound(values);
  if (out.is_fixed()) return out.constant_;
  std::vector<std::string> names;
  out.add_names(names);
  if (!names.empty()) return invalid(fmt::format("'{}': dim '{}' has no value; state one", text(), names[0]));
  return invalid(fmt::format("'{}': is no whole number of 64 bits for these dims; call with smaller ones", text()));
}

void Dim::add_names(std::vector<std::string>& names) const {
  if (!is_known_ || !sum_) return;
  for (const Term& term : sum_->terms)
    for (const Factor& factor : term.factors) {
      const Atom& atom = *factor.atom;
      if (atom.kind != Atom::Kind::kName) {
        atom.a.add_names(names);
        atom.b.add_names(names);
      } else if (std::find(names.begin(), names.end(), atom.name) == names.end()) {
        names.push_back(atom.name);
      }
    }
}

Dim product_of(const Dims& dims) {
  Dim product = 1;
  for (const Dim& dim : dims) product = product * dim;
  return product;
}

std::optional<std::vector<int64_t>> fixed_of(const Dims& dims) {
  std::vector<int64_t> out;
  for (const Dim& dim : dims) {
    if (!dim.is_fixed()) return std::nullopt;
    out.push_back(dim.fixed());
  }
  return out;
}

Dims dims_of(const std::vector<int64_t>& sizes) { return Dims(sizes.begin(), sizes.end()); }

}  // namespace quern::model::ir
