// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "function/manifest.h"

namespace quern::daemon {

/// All that are no warnings, a line each; empty if there are none.
inline std::string list_mistakes(const std::vector<Mistake>& mistakes) {
  std::string text;
  for (const Mistake& mistake : mistakes)
    if (!mistake.is_warning) text += (text.empty() ? "" : "\n") + to_string(mistake);
  return text;
}

inline void collect_warnings(const std::vector<Mistake>& mistakes, std::vector<std::string>& into) {
  for (const Mistake& mistake : mistakes)
    if (mistake.is_warning) into.push_back(to_string(mistake));
}

}  // namespace quern::daemon
