// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <fmt/format.h>

#include <charconv>

namespace quern {
namespace {
struct TimeUnit {
  std::string_view name;
  int64_t ns;
};
constexpr TimeUnit kTimeUnits[] = {
    {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000}};
}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const char* end = text.data() + text.size();
  // Whole numbers first: a double would blur those above 2^53.
  int64_t whole = 0;
  if (auto [unit, problem] = std::from_chars(text.data(), end, whole); problem == std::errc() && whole >= 0)
    for (const TimeUnit& known : kTimeUnits)
      if (int64_t ns = 0; known.name == std::string_view(unit, static_cast<size_t>(end - unit)) &&
                          !__builtin_mul_overflow(whole, known.ns, &ns))
        return Duration{ns};
  double number = 0;
  auto [rest, problem] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (problem == std::errc() && number >= 0)
    for (const TimeUnit& known : kTimeUnits)
      if (known.name == unit && number * static_cast<double>(known.ns) < 9e18)
        return Duration{static_cast<int64_t>(number * static_cast<double>(known.ns) + 0.5)};
  return invalid(
      fmt::format("'{}': is not a length of time; write a number with ns, us, ms, s, m or h, as in 250ms", text));
}

std::string to_string(Duration duration) {
  for (size_t i = std::size(kTimeUnits); i-- > 1;)
    if (duration.ns != 0 && duration.ns % kTimeUnits[i].ns == 0)
      return fmt::format("{}{}", duration.ns / kTimeUnits[i].ns, kTimeUnits[i].name);
  return fmt::format("{}ns", duration.ns);
}

}  // namespace quern
