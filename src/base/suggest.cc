// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace quern {
namespace {

// Insertions, deletions, replacements, and two neighbours swapped, which is what fingers do most.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view given, std::span<const std::string> known) {
  constexpr size_t kLongestName = 128;  // quadratic in the length, and `given` is a stranger's
  if (given.size() > kLongestName) return "";
  const std::string* best = nullptr;
  size_t best_distance = SIZE_MAX;
  for (const std::string& name : known) {
    if (name.size() > kLongestName) continue;
    // Up to a third of the letters, and never all of them: another letter is another name.
    const size_t longer = std::max(given.size(), name.size());
    const size_t distance = edit_distance(given, name);
    if (distance <= std::max<size_t>(2, longer / 3) && distance < longer && distance < best_distance)
      best = &name, best_distance = distance;
  }
  return best ? "; did you mean '" + *best + "'?" : "";
}

}  // namespace quern
