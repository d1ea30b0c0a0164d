// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace quern {

/// How far a function stays ready while nobody calls it.
enum class KeepWarm : uint8_t { kNothing, kContext, kHost, kHot };
std::string_view name_of(KeepWarm stage);

/// No timeout of a function or of a request is longer, nor is any other time of a manifest.
constexpr Duration kLongestTimeout = Duration::seconds(24 * 3600);

/// What a function is run with. Settings are not part of its version, and are changed in place.
struct Settings {
  uint8_t priority = 5;
  KeepWarm keep_warm = KeepWarm::kNothing;
  Duration timeout = Duration::seconds(60);  ///< a request's whole life
  std::optional<Duration> device_time;       ///< one run's; default: the timeout
  std::optional<uint64_t> memory_bytes;      ///< the most a request's plan may need
  /// Shares of a device: of its time what it has in any case and at the most, and of its units.
  std::optional<double> time_request, time_limit, units;
  std::optional<Duration> slo_latency;
  double slo_percentile = 99;
};

/// Settings apart from their manifest, as JSON: what is stored, shown and changed in place. Everything that is not its
/// default, and nothing else.
std::string settings_text(const Settings& settings);
/// From the text of a map of settings, YAML or JSON. kInvalid with every mistake.
Result<Settings> parse_settings(std::string_view text);
/// `path` is as in `limits.timeout`, `value` as in a manifest; an empty one sets it back. kInvalid if it makes no
/// sense.
Result<Settings> change_setting(const Settings& settings, std::string_view path, std::string_view value);

}  // namespace quern
