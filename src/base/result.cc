// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace quern {
namespace {
// In the order of ErrorCode.
constexpr std::array<std::string_view, 11> kNames = {
    "invalid",   "not_found",   "conflict",    "denied",  "exhausted", "deadline",
    "cancelled", "unavailable", "unsupported", "faulted", "internal",
};
}  // namespace

std::string_view name_of(ErrorCode code) { return kNames.at(static_cast<size_t>(code)); }

std::optional<ErrorCode> error_code_of(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<ErrorCode>(i);
  return std::nullopt;
}

void check_failed(const char* file, int line, const char* condition, const std::string& text) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, text.c_str());
  std::abort();
}

}  // namespace quern
