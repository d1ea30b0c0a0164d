// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/pass/rewriter.h"

namespace quern::model::pass {

/// What a pattern found in a graph.
struct Match {
  std::map<std::string, ir::ValueId, std::less<>> values;
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, const ir::Node*, std::less<>> nodes;  ///< those that have a name in the pattern
  std::vector<const ir::Node*> all;                           ///< every node, the root first

  ir::ValueId value(std::string_view name) const { return values.find(name)->second; }
  double number(std::string_view name) const { return numbers.find(name)->second; }
  const ir::Node& node(std::string_view name) const { return *nodes.find(name)->second; }
};

/// A tree of operators as text: `mul(x, add(erf(mul(x, 0.70710678)), ?c))`.
///
/// A name that no parenthesis follows is any value, the same one wherever the name stands. A number is a constant all
/// of whose elements are that number, to 5 digits; `?c` is such a constant of any number. `m:reduce_mean(x)` also names
/// the node. Operands of add, mul, min and max match in either order. Inner nodes must have no readers outside the
/// match: else they would be computed twice.
class Pattern {
 public:
  /// The text is ours: a mistake in it dies.
  explicit Pattern(std::string_view text);

  std::optional<Match> match(const Rewriter& rewriter, const ir::Node& root) const;

 private:
  struct Part {
    enum class Kind : uint8_t { kNode, kValue, kNumber, kAnyNumber } kind = Kind::kValue;
    std::string op, name;
    double number = 0;
    std::vector<size_t> operands;  // indices into parts_
  };
  struct Trial;

  size_t parse(std::string_view& text);
  bool match_value(Trial& trial, size_t part, ir::ValueId id) const;
  bool match_node(Trial& trial, const Part& part, const ir::Node& node) const;

  std::vector<Part> parts_;
  size_t root_ = 0;
};

/// The number that all elements of a constant are; nothing for other constants, and for what is none.
std::optional<double> number_of(const ir::Tensor* constant);

/// Whether two numbers agree to 5 digits: constants of a model were rounded on their way.
bool is_close(double a, double b);

}  // namespace quern::model::pass
