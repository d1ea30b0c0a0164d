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
constexpr int64_t kHour = 3'600'000'000'000;
constexpr TimeUnit kTimeUnits[] = {{"ns", 1},         {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000},
                                   {"m", kHour / 60}, {"h", kHour}};
}  // namespace

Result<Duration> parse_duration(std::string_view text, Duration longest) {
  const auto too_long = [&] {
    const Duration whole_hours = Duration::seconds(longest.ns / kHour * 3600);
    return invalid(fmt::format("'{}': is too long; write at most {}", text,
                               to_string(longest == Duration::forever() ? whole_hours : longest)));
  };
  const char* end = text.data() + text.size();
  // Whole numbers first: a double would blur those above 2^53.
  int64_t whole = 0;
  if (auto [unit, problem] = std::from_chars(text.data(), end, whole); problem == std::errc() && whole >= 0)
    for (const TimeUnit& known : kTimeUnits)
      if (known.name == std::string_view(unit, static_cast<size_t>(end - unit))) {
        int64_t ns = 0;
        if (__builtin_mul_overflow(whole, known.ns, &ns) || ns > longest.ns) return too_long();
        return Duration{ns};
      }
  double number = 0;
  auto [rest, problem] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const bool is_number = problem == std::errc() || problem == std::errc::result_out_of_range;
  if (is_number && number >= 0)
    for (const TimeUnit& known : kTimeUnits)
      if (known.name == unit) {
        const double ns = number * static_cast<double>(known.ns) + 0.5;
        if (problem != std::errc() || ns >= static_cast<double>(longest.ns) + 1) return too_long();
        return Duration{static_cast<int64_t>(ns)};
      }
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
