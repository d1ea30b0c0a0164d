// SPDX-License-Identifier: Apache-2.0
#include "os/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace quern::os {
namespace {
spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}
}  // namespace

void start_log(Level least) {
  auto logger = std::make_shared<spdlog::logger>("quern", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  logger->set_level(to_spdlog(least));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(logger);
}

void log(Level level, const std::string& text) { spdlog::default_logger_raw()->log(to_spdlog(level), text); }

bool logs(Level level) { return spdlog::default_logger_raw()->should_log(to_spdlog(level)); }

}  // namespace quern::os
