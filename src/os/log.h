// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>

namespace quern::os {

/// Lines for operators on standard error: "2026-11-16T10:00:00.123Z info listening on …". Never tensor bytes or keys.
/// An error line means that something needs a person; tests fail on one they did not ask for.
enum class Level { kDebug, kInfo, kWarning, kError };

void start_log(Level least);
void log(Level level, const std::string& text);
bool logs(Level level);

template <class... A>
void log_debug(fmt::format_string<A...> text, A&&... arguments) {
  if (logs(Level::kDebug)) log(Level::kDebug, fmt::format(text, std::forward<A>(arguments)...));
}
template <class... A>
void log_info(fmt::format_string<A...> text, A&&... arguments) {
  log(Level::kInfo, fmt::format(text, std::forward<A>(arguments)...));
}
template <class... A>
void log_warning(fmt::format_string<A...> text, A&&... arguments) {
  log(Level::kWarning, fmt::format(text, std::forward<A>(arguments)...));
}
template <class... A>
void log_error(fmt::format_string<A...> text, A&&... arguments) {
  log(Level::kError, fmt::format(text, std::forward<A>(arguments)...));
}

}  // namespace quern::os
