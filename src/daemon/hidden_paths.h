// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace quern::daemon {

/// Returns `text` with every path that begins with `folder` replaced by "the server's disk". Tenants read error texts,
/// and only the operator may know where the server keeps its files.
///
/// A path ends at the first ':', blank, quote or line end behind the name of `folder`. The name itself may contain any
/// of these.
inline std::string without_paths(std::string text, const std::string& folder) {
  static constexpr std::string_view kInstead = "the server's disk";
  if (folder.empty()) return text;
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + kInstead.size())) {
    const size_t end = std::min(text.find_first_of(": '\"\n", at + folder.size()), text.size());
    text.replace(at, end - at, kInstead);
  }
  return text;
}

}  // namespace quern::daemon
