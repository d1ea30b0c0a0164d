// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace quern {
namespace {
struct SizeUnit {
  std::string_view name;
  uint64_t bytes;
};
constexpr SizeUnit kSizeUnits[] = {{"B", 1}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}, {"TiB", 1024 * kGiB}};
}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  auto [rest, problem] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (problem == std::errc()) {
    if (unit.empty()) return number;
    for (const SizeUnit& known : kSizeUnits) {
      uint64_t bytes = 0;
      if (known.name == unit && !__builtin_mul_overflow(number, known.bytes, &bytes)) return bytes;
    }
  }
  return invalid(
      fmt::format("'{}': is not a size; write a whole number with B, KiB, MiB, GiB or TiB, as in 4GiB", text));
}

std::string show_bytes(uint64_t bytes) {
  for (size_t i = std::size(kSizeUnits); i-- > 1;)
    if (bytes >= kSizeUnits[i].bytes)
      return bytes % kSizeUnits[i].bytes == 0
                 ? fmt::format("{}{}", bytes / kSizeUnits[i].bytes, kSizeUnits[i].name)
                 : fmt::format("{:.1f}{}", static_cast<double>(bytes) / static_cast<double>(kSizeUnits[i].bytes),
                               kSizeUnits[i].name);
  return fmt::format("{}B", bytes);
}

std::string show_time(double ns) {
  for (const auto& [unit, size] : {std::pair{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}})
    if (ns >= size) return fmt::format("{:.{}f}{}", ns / size, ns >= 100 * size ? 0 : ns >= 10 * size ? 1 : 2, unit);
  return fmt::format("{:.0f}ns", ns);
}

std::string plain_number(double value) {
  char text[400];  // the smallest double has 324 zeros behind its point
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr};
}

}  // namespace quern
