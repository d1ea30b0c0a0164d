// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern::model::ir {

/// The values of free dims, by name.
using DimValues = std::map<std::string, int64_t, std::less<>>;

/// Sizes of free dims are at most this, so that sums and products of few of them fit 64 bits.
constexpr int64_t kLargestDim = INT32_MAX;

/// A size of a dimension, or a whole number that sizes depend on: a number, or an expression over the names of free
/// dims (`batch`, `seq / 2 + 1`).
///
/// An expression is a sum of products of names, quotients, minima and maxima, in one canonical order. Two expressions
/// that are equal by the rules of + and * therefore compare equal, however they were computed. What cannot be expressed
/// (an overflow, a division by zero, more than kMostParts parts, the value of a tensor) is `unknown()`, and so is every
/// result of it: callers ask once, at the end. Immutable; a copy is cheap.
class Dim {
 public:
  static constexpr int kMostParts = 64;

  struct Range {
    int64_t low = 0, high = 0;
  };

  Dim() = default;  ///< 0
  Dim(int64_t value) : constant_(value) {}
  Dim(int value) : constant_(value) {}
  /// A free dim, whose size lies between the bounds. All uses of a name have the same bounds.
  static Dim symbol(std::string_view name, int64_t low = 1, int64_t high = kLargestDim);
  static Dim unknown();

  bool is_known() const { return is_known_; }
  bool is_fixed() const { return is_known_ && !sum_; }
  /// The number; of what is_fixed() only.
  int64_t fixed() const;
  bool is(int64_t value) const { return is_fixed() && constant_ == value; }
  /// The name, of an expression that is a name alone; else "".
  std::string name() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  /// Rounds towards minus infinity, as `/` of the manifest does.
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - Dim(1), b); }
  /// What is left of floor_div; has the sign of b.
  friend Dim modulo(const Dim& a, const Dim& b) { return a - floor_div(a, b) * b; }
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);

  /// Equal for all sizes. Two unknowns are not equal.
  bool operator==(const Dim& other) const;
  /// Whether a <= b for all sizes within the bounds of the names, for none of them, or nothing if that depends on them
  /// or is not seen.
  static std::optional<bool> at_most(const Dim& a, const Dim& b);
  /// Whether a == b; as at_most.
  static std::optional<bool> same(const Dim& a, const Dim& b);
  /// Bounds of the expression from the bounds of its names; they need not be reached.
  Range range() const;

  /// The number for these sizes. kInvalid if a name has no value, if the expression is unknown, or on overflow.
  Result<int64_t> value(const DimValues& values) const;
  /// The expression with these names replaced by numbers; others stay.
  Dim bound(const DimValues& values) const;
  /// Appends the names that occur, each once.
  void add_names(std::vector<std::string>& names) const;

  /// As an expression of the manifest: "batch * seq / 2 + 1". Unknown: "?".
  std::string text() const;
  /// Reads what text() writes, and any expression of + - * / ( ) min max ceil_div over names and whole numbers.
  /// `bounds` are those of names; a name without has those of symbol().
  using Bounds = std::map<std::string, Range, std::less<>>;
  static Result<Dim> parse(std::string_view text, const Bounds& bounds = {});

 private:
  struct Atom;
  struct Factor;
  struct Term;
  struct Sum;
  friend class DimText;

  static std::strong_ordering order(const Dim& a, const Dim& b);
  static std::strong_ordering order(const Atom& a, const Atom& b);
  static std::strong_ordering order(const Term& a, const Term& b);
  static Dim of_atom(Atom atom);
  static Dim of_terms(std::vector<Term> terms, int64_t constant);
  static Range range_of(const Atom& atom);
  static std::optional<Dim> divide_exactly(const Dim& a, const Dim& b);
  static Dim divide_by_number(const Dim& a, int64_t b);
  template <class Map>
  Dim mapped(const Map& map) const;

  bool is_known_ = true;
  int64_t constant_ = 0;
  std::shared_ptr<const Sum> sum_;  ///< the terms besides the constant; null if there are none
};

using Dims = std::vector<Dim>;

/// "[batch, 3, 224, 224]"
std::string show_dims(const Dims& dims);
/// The product; 1 of none.
Dim product_of(const Dims& dims);
/// All as numbers, if all are fixed.
std::optional<std::vector<int64_t>> fixed_of(const Dims& dims);
Dims dims_of(const std::vector<int64_t>& sizes);

}  // namespace quern::model::ir
