// SPDX-License-Identifier: Apache-2.0
//
// Which n makes n + 1 come to 9? Every node is taken for slope * n + offset as long as it is of that form.
#include <fmt/format.h>

#include <array>

#include "function/expression.h"

namespace quern {
namespace {

struct Line {
  int64_t slope = 0, offset = 0;
};
using MaybeLine = std::optional<Line>;

MaybeLine sum_of(const Line& a, const Line& b, bool is_difference) {
  Line sum;
  const bool overflows = is_difference ? __builtin_sub_overflow(a.slope, b.slope, &sum.slope) ||
                                             __builtin_sub_overflow(a.offset, b.offset, &sum.offset)
                                       : __builtin_add_overflow(a.slope, b.slope, &sum.slope) ||
                                             __builtin_add_overflow(a.offset, b.offset, &sum.offset);
  return overflows ? MaybeLine() : sum;
}

MaybeLine product_of(const Line& a, const Line& b) {
  const Line &line = a.slope != 0 ? a : b, &factor = a.slope != 0 ? b : a;
  Line product;
  if (factor.slope != 0 || __builtin_mul_overflow(line.slope, factor.offset, &product.slope) ||
      __builtin_mul_overflow(line.offset, factor.offset, &product.offset))
    return std::nullopt;
  return product;
}

}  // namespace

Result<std::optional<int64_t>> Expression::solve(std::string_view name, int64_t value, const Names& others) const {
  std::array<MaybeLine, kLongest> lines;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const MaybeLine left = node.left >= 0 ? lines[static_cast<size_t>(node.left)] : MaybeLine(Line{});
    const MaybeLine right = node.right >= 0 ? lines[static_cast<size_t>(node.right)] : MaybeLine(Line{});
    if (!left || !right) continue;
    switch (node.kind) {
      case Node::Kind::kNumber:
        lines[i] = Line{0, node.whole};
        break;
      case Node::Kind::kName:
        if (names_[node.name] == name) {
          lines[i] = Line{1, 0};
        } else if (const auto number = others ? others(names_[node.name]) : std::nullopt) {
          if (const auto* whole = std::get_if<int64_t>(&*number)) lines[i] = Line{0, *whole};
        }
        break;
      case Node::Kind::kMinus:
        lines[i] = sum_of({}, *left, true);
        break;
      case Node::Kind::kOperation:
        if (node.op == Op::kAdd || node.op == Op::kSubtract) lines[i] = sum_of(*left, *right, node.op == Op::kSubtract);
        if (node.op == Op::kMultiply) lines[i] = product_of(*left, *right);
        if (node.op == Op::kLeft && right->slope == 0 && right->offset >= 0 && right->offset <= 62)
          lines[i] = product_of(*left, {0, int64_t{1} << right->offset});
        break;
      case Node::Kind::kReal:
      case Node::Kind::kNot:
      case Node::Kind::kChoice:
        break;
    }
  }
  const MaybeLine line = nodes_.empty() ? std::nullopt : lines[nodes_.size() - 1];
  int64_t rest = 0;
  if (!line || line->slope == 0 || __builtin_sub_overflow(value, line->offset, &rest)) return std::optional<int64_t>();
  if (line->slope == -1 && rest == INT64_MIN) return std::optional<int64_t>();
  if (rest % line->slope != 0) return invalid(fmt::format("no {} makes '{}' come to {}", name, text_, value));
  return std::optional(rest / line->slope);
}

}  // namespace quern
