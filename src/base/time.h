// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quern {

/// A length of time in whole nanoseconds.
struct Duration {
  int64_t ns = 0;

  static constexpr Duration micros(int64_t n) { return {n * 1'000}; }
  static constexpr Duration millis(int64_t n) { return {n * 1'000'000}; }
  static constexpr Duration seconds(int64_t n) { return {n * 1'000'000'000}; }
  static constexpr Duration forever() { return {std::numeric_limits<int64_t>::max()}; }
  constexpr auto operator<=>(const Duration&) const = default;
};

/// A moment of the steady clock. It says nothing to people: wall time is another thing, and never decides.
struct Time {
  int64_t ns = 0;

  static constexpr Time never() { return {std::numeric_limits<int64_t>::max()}; }
  constexpr auto operator<=>(const Time&) const = default;
};

constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
constexpr Duration operator-(Time a, Time b) { return {a.ns - b.ns}; }

/// Saturates: a moment plus forever is never.
constexpr Time operator+(Time a, Duration b) {
  return b.ns > 0 && a.ns > Time::never().ns - b.ns ? Time::never() : Time{a.ns + b.ns};
}

/// "250us", "1.5s", "60s", "10ms", "500ns", "2m", "1h"; a number without a unit is a mistake, and so is what is longer
/// than `longest`.
Result<Duration> parse_duration(std::string_view text, Duration longest = Duration::forever());

/// The shortest exact form that parse_duration reads back: "1500ms", "2s".
std::string to_string(Duration duration);

}  // namespace quern
