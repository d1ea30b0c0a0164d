// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/units.h"
#include "function/manifest_reader.h"

namespace quern {
namespace {

// By the values of KeepWarm.
constexpr std::array<std::string_view, 4> kStages = {"nothing", "context", "host", "hot"};

}  // namespace

std::string_view name_of(KeepWarm stage) { return kStages[static_cast<size_t>(stage)]; }

Settings ManifestReader::read_settings_alone(const YamlNode& node) {
  if (!node.is_null()) read_settings(node);
  return manifest_.settings;
}

void ManifestReader::read_settings(const YamlNode& node) {
  if (!is_map(node, "settings")) return;
  refuse_unknown_keys(node, "settings", {"priority", "keep_warm", "limits", "quota", "slo"}, {});
  if (const YamlNode* priority = node.find("priority"))
    if (auto value = whole_of(*priority, "priority")) {
      if (*value < 0 || *value > 9)
        mistakes_.error(*priority, fmt::format("priority is {}; write 0 (most urgent) to 9", *value));
      else
        manifest_.settings.priority = static_cast<uint8_t>(*value);
    }
  if (const YamlNode* keep = node.find("keep_warm"))
    if (auto text = text_of(*keep, "keep_warm")) {
      const auto stage = std::find(kStages.begin(), kStages.end(), *text);
      if (stage == kStages.end())
        mistakes_.error(*keep, fmt::format("keep_warm is {}; write {}", shown(*text), fmt::join(kStages, ", ")));
      else
        manifest_.settings.keep_warm = static_cast<KeepWarm>(stage - kStages.begin());
    }
  if (const YamlNode* limits = node.find("limits"); limits && !limits->is_null()) read_limits(*limits);
  if (const YamlNode* quota = node.find("quota"); quota && !quota->is_null()) read_quota(*quota);
  if (const YamlNode* slo = node.find("slo"); slo && !slo->is_null()) read_slo(*slo);
}

std::optional<Duration> ManifestReader::read_duration(const YamlNode& map, std::string_view key) {
  const YamlNode* value = map.find(key);
  if (!value) return std::nullopt;
  auto text = text_of(*value, key);
  if (!text) return std::nullopt;
  auto parsed = parse_duration(*text, kLongestTimeout);
  if (parsed.ok() && parsed->ns > 0) return *parsed;
  mistakes_.error(*value, parsed.ok() ? fmt::format("{} is {}; write more than 0", key, *text)
                                      : fmt::format("{}: {}", key, parsed.error().text));
  return std::nullopt;
}

// A number above 0 and up to `most`.
std::optional<double> ManifestReader::read_share(const YamlNode& map, std::string_view key, double most) {
  const YamlNode* node = map.find(key);
  if (!node) return std::nullopt;
  double value = 0;
  const char* end = node->text.data() + node->text.size();
  const auto parsed = std::from_chars(node->text.data(), end, value);
  if (node->is_scalar() && !node->quoted && parsed.ec == std::errc() && parsed.ptr == end && value > 0 && value <= most)
    return value;
  mistakes_.error(*node, fmt::format("{} is {}; write a number above 0, at most {}", key,
                                     node->is_scalar() ? shown(node->text) : std::string(node->kind_name()), most));
  return std::nullopt;
}

void ManifestReader::read_quota(const YamlNode& node) {
  if (!is_map(node, "quota")) return;
  refuse_unknown_keys(node, "quota", {"time", "units"}, {});
  manifest_.settings.units = read_share(node, "units", 1);
  const YamlNode* time = node.find("time");
  if (!time || !is_map(*time, "time")) return;
  refuse_unknown_keys(*time, "time", {"request", "limit"}, {});
  manifest_.settings.time_request = read_share(*time, "request", 1);
  manifest_.settings.time_limit = read_share(*time, "limit", 1);
  if (manifest_.settings.time_request && manifest_.settings.time_limit &&
      *manifest_.settings.time_request > *manifest_.settings.time_limit)
    mistakes_.error(*time, "request is above limit; ask for at most the limit");
}

void ManifestReader::read_slo(const YamlNode& node) {
  if (!is_map(node, "slo")) return;
  refuse_unknown_keys(node, "slo", {"latency", "percentile"}, {});
  manifest_.settings.slo_latency = read_duration(node, "latency");
  if (const auto percentile = read_share(node, "percentile", 100)) manifest_.settings.slo_percentile = *percentile;
}

void ManifestReader::read_limits(const YamlNode& node) {
  if (!is_map(node, "limits")) return;
  refuse_unknown_keys(node, "limits", {"timeout", "device_time", "memory"}, {});
  if (auto timeout = read_duration(node, "timeout")) manifest_.settings.timeout = *timeout;
  manifest_.settings.device_time = read_duration(node, "device_time");
  if (const YamlNode* value = node.find("memory"))
    if (auto text = text_of(*value, "memory")) {
      auto bytes = parse_bytes(*text);
      if (!bytes.ok())
        mistakes_.error(*value, fmt::format("memory: {}", bytes.error().text));
      else if (*bytes == 0)
        mistakes_.error(*value, "memory is 0; write what a request may need at most, as in 64MiB");
      else
        manifest_.settings.memory_bytes = *bytes;
    }
}

}  // namespace quern
