// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace quern::daemon {

/// The text with every path below `folder` told in other words: tenants read it, and where the server keeps things is
/// nobody's business but the operator's.
inline std::string without_paths(std::string text, const std::string& folder) {
  static constexpr std::string_view kInstead = "the server's disk";
  if (folder.empty()) return text;
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + kInstead.size())) {
    const size_t end = std::min(text.find_first_of(": '\"\n", at), text.size());
    text.replace(at, end - at, kInstead);
  }
  return text;
}

}  // namespace quern::daemon
