// SPDX-License-Identifier: Apache-2.0
//
// Settings are few and small, so that one form serves all: a list of (path, value). Text is made from it, and a change
// is a change of the list that is read again, with the checks of a manifest.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/suggest.h"
#include "base/units.h"
#include "function/manifest_reader.h"

namespace quern {
namespace {

// In this order they make a nested map without going back.
constexpr std::array<std::string_view, 10> kPaths = {
    "keep_warm",        "limits.device_time", "limits.memory", "limits.timeout", "priority",
    "quota.time.limit", "quota.time.request", "quota.units",   "slo.latency",    "slo.percentile"};
using Flat = std::map<std::string, std::string>;

std::string exact(Duration duration) {
  for (const auto& [factor, unit] :
       {std::pair{int64_t{1'000'000'000}, "s"}, std::pair{int64_t{1'000'000}, "ms"}, std::pair{int64_t{1'000}, "us"}})
    if (duration.ns % factor == 0) return fmt::format("{}{}", duration.ns / factor, unit);
  return fmt::format("{}ns", duration.ns);
}

Flat flat(const Settings& settings) {
  const Settings plain;
  Flat all;
  const auto& number = plain_number;
  if (settings.priority != plain.priority) all["priority"] = fmt::format("{}", settings.priority);
  if (settings.keep_warm != plain.keep_warm) all["keep_warm"] = name_of(settings.keep_warm);
  if (settings.timeout != plain.timeout) all["limits.timeout"] = exact(settings.timeout);
  if (settings.device_time) all["limits.device_time"] = exact(*settings.device_time);
  if (settings.memory_bytes) all["limits.memory"] = fmt::format("{}", *settings.memory_bytes);
  if (settings.time_request) all["quota.time.request"] = number(*settings.time_request);
  if (settings.time_limit) all["quota.time.limit"] = number(*settings.time_limit);
  if (settings.units) all["quota.units"] = number(*settings.units);
  if (settings.slo_latency) all["slo.latency"] = exact(*settings.slo_latency);
  if (settings.slo_percentile != plain.slo_percentile) all["slo.percentile"] = number(settings.slo_percentile);
  return all;
}

// A number as YAML and JSON have it, without a sign: what is written without quotes.
bool is_number(std::string_view text) {
  if (text.empty() || text.find_first_of("0123456789.") != 0) return false;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// The part of the list whose paths start with `prefix`, as a JSON map.
std::string nested(const Flat& all, const std::string& prefix) {
  std::string text;
  std::string done;
  for (const auto& [path, value] : all) {
    if (!path.starts_with(prefix)) continue;
    const std::string rest = path.substr(prefix.size());
    const size_t dot = rest.find('.');
    const std::string key = rest.substr(0, dot);
    if (key == done) continue;
    done = key;
    const std::string inner = dot == std::string::npos ? (is_number(value) ? value : fmt::format("\"{}\"", value))
                                                       : nested(all, prefix + key + ".");
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key, inner);
  }
  return "{" + text + "}";
}

}  // namespace

std::string settings_text(const Settings& settings) { return nested(flat(settings), ""); }

Result<Settings> parse_settings(std::string_view text) {
  auto tree = read_yaml(text);
  if (const auto* problem = std::get_if<YamlProblem>(&tree)) return invalid("settings: " + problem->text);
  Mistakes mistakes;
  const Files none;
  Settings settings = ManifestReader(none, mistakes).read_settings_alone(std::get<YamlNode>(tree));
  if (!mistakes.any_error()) return settings;
  std::string all;
  for (const Mistake& mistake : mistakes.take()) all += (all.empty() ? "settings: " : "\nsettings: ") + mistake.text;
  return invalid(all);
}

Result<Settings> change_setting(const Settings& settings, std::string_view path, std::string_view value) {
  if (std::find(kPaths.begin(), kPaths.end(), path) == kPaths.end()) {
    const std::vector<std::string> known(kPaths.begin(), kPaths.end());
    const std::string hint = did_you_mean(path, known);
    return invalid(fmt::format("settings: there is no {}{}", shown(path),
                               hint.empty() ? fmt::format("; write one of {}", fmt::join(kPaths, ", ")) : hint));
  }
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_";
  if (value.find_first_not_of(kPlain) != std::string_view::npos)
    return invalid(
        fmt::format("settings: {} is {}; write a number, a time as 2s, or a size as 64MiB", path, shown(value)));
  Flat all = flat(settings);
  if (value.empty())
    all.erase(std::string(path));
  else
    all[std::string(path)] = value;
  return parse_settings(nested(all, ""));
}

}  // namespace quern
