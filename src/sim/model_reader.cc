// SPDX-License-Identifier: Apache-2.0
#include "sim/model_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/printable.h"
#include "base/suggest.h"
#include "base/units.h"

namespace quern::sim {
namespace {

std::string shown(std::string_view text) {
  constexpr size_t kMost = 40;
  return text.size() > kMost ? printable(text.substr(0, kMost)) + "…" : printable(text);
}

bool is_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), plain);
}

}  // namespace

void ModelReader::mistake(const YamlNode& at, std::string text) { mistake(at.line, at.column, std::move(text)); }

void ModelReader::mistake(int line, int column, std::string text) {
  if (mistakes_.size() < kMostMistakes)
    mistakes_.emplace_back(line, column, std::move(text));
  else
    ++left_out_;
}

std::string ModelReader::text() {
  std::stable_sort(mistakes_.begin(), mistakes_.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<std::string> lines;
  for (const auto& [line, column, what] : mistakes_)
    lines.push_back(fmt::format("{}:{}:{}: error: {}", file_, line, column, what));
  if (left_out_ != 0) lines.push_back(fmt::format("{}: {} more mistakes", file_, left_out_));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

bool ModelReader::is_map(const YamlNode& node, std::string_view what) {
  if (!node.is_map()) mistake(node, fmt::format("{} is {}; write keys and values", what, node.kind_name()));
  return node.is_map();
}

void ModelReader::refuse_unknown(const YamlNode& map, std::string_view what, const std::vector<std::string>& known) {
  for (size_t i = 0; i + 1 < map.children.size(); i += 2) {
    const YamlNode& key = map.children[i];
    if (std::find(known.begin(), known.end(), key.text) == known.end())
      mistake(key, fmt::format("{} has no key '{}'{}; known are {}", what, shown(key.text),
                               did_you_mean(key.text, known), fmt::join(known, ", ")));
  }
}

void ModelReader::each(const YamlNode& map, std::string_view key, const std::function<void(const YamlNode&)>& work) {
  const YamlNode* list = map.find(key);
  if (!list) return;
  if (!list->is_sequence())
    return mistake(*list, fmt::format("{} is {}; write a list, as in [{{name: …}}]", key, list->kind_name()));
  for (const YamlNode& node : list->children) work(node);
}

const YamlNode* ModelReader::required(const YamlNode& map, std::string_view what, std::string_view key) {
  const YamlNode* node = map.find(key);
  if (!node) mistake(map, fmt::format("{} has no {}; write {}: …", what, key, key));
  return node;
}

std::optional<std::string> ModelReader::word(const YamlNode& map, std::string_view what, std::string_view key) {
  const YamlNode* node = map.find(key);
  if (!node) return std::nullopt;
  if (node->is_scalar()) return node->text;
  mistake(*node, fmt::format("{}: {} is {}; write one value", what, key, node->kind_name()));
  return std::nullopt;
}

std::string ModelReader::name(const YamlNode& map, std::string& what, std::set<std::string>& taken) {
  if (!required(map, what, "name")) return "";
  const auto name = word(map, what, "name");
  if (!name) return "";
  const YamlNode& at = *map.find("name");
  if (!is_name(*name)) {
    mistake(at, fmt::format("{}: name is '{}'; use a-z, 0-9, '.', '_', '-', at most 63", what, shown(*name)));
    return "";
  }
  if (!taken.insert(*name).second) mistake(at, fmt::format("{}: name '{}' is given twice; give another", what, *name));
  what += " " + *name;
  return *name;
}

std::optional<int64_t> ModelReader::read_whole(const YamlNode& map, std::string_view what, std::string_view key,
                                               int64_t least, int64_t most) {
  const auto text = word(map, what, key);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, problem] = std::from_chars(text->data(), end, value);
  if (problem == std::errc() && rest == end && value >= least && value <= most) return value;
  mistake(*map.find(key),
          fmt::format("{}: {} is '{}'; write a whole number from {} to {}", what, key, shown(*text), least, most));
  return std::nullopt;
}

void ModelReader::number(const YamlNode& map, std::string_view what, std::string_view key, double& into, double least,
                         double most) {
  const auto text = word(map, what, key);
  if (!text) return;
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, problem] = std::from_chars(text->data(), end, value);
  if (problem == std::errc() && rest == end && value >= least && value <= most)
    into = value;
  else
    mistake(*map.find(key),
            fmt::format("{}: {} is '{}'; write a number from {} to {}", what, key, shown(*text), least, most));
}

void ModelReader::bytes(const YamlNode& map, std::string_view what, std::string_view key, uint64_t& into,
                        uint64_t least) {
  const auto text = word(map, what, key);
  if (!text) return;
  const auto value = parse_bytes(*text);
  if (value.ok() && *value >= least && *value <= uint64_t{1} << 62)
    into = *value;
  else
    mistake(*map.find(key), fmt::format("{}: {} is '{}'; write a size, as in 4GiB", what, key, shown(*text)));
}

void ModelReader::bandwidth(const YamlNode& map, std::string_view what, std::string_view key, uint64_t& into) {
  const auto text = word(map, what, key);
  if (!text) return;
  const std::string_view all = *text;
  if (all.ends_with("/s"))
    if (const auto value = parse_bytes(all.substr(0, all.size() - 2)); value.ok() && *value > 0) {
      into = *value;
      return;
    }
  mistake(*map.find(key), fmt::format("{}: {} is '{}'; write a size by time, as in 12GiB/s", what, key, shown(*text)));
}

void ModelReader::duration(const YamlNode& map, std::string_view what, std::string_view key, Duration& into,
                           int64_t least_ns) {
  const auto text = word(map, what, key);
  if (!text) return;
  if (const auto value = read_duration(*map.find(key), *text, what, key, least_ns)) into = *value;
}

void ModelReader::durations(const YamlNode& map, std::string_view what, std::string_view key,
                            std::vector<Duration>& into, int64_t least_ns) {
  const YamlNode* list = map.find(key);
  if (!list) return;
  if (!list->is_sequence() || list->children.empty())
    return mistake(*list, fmt::format("{}: {} is {}; write lengths of time, as in [1ms, 250us]", what, key,
                                      list->is_sequence() ? "empty" : list->kind_name()));
  for (const YamlNode& item : list->children) {
    if (!item.is_scalar())
      mistake(item,
              fmt::format("{}: {} holds {}; write lengths of time, as in [1ms, 250us]", what, key, item.kind_name()));
    else if (const auto value = read_duration(item, item.text, what, key, least_ns))
      into.push_back(*value);
  }
}

std::optional<Duration> ModelReader::read_duration(const YamlNode& at, const std::string& text, std::string_view what,
                                                   std::string_view key, int64_t least_ns) {
  // What is longer than a hundred years is a mistake, and must not overflow sums.
  constexpr int64_t kMost = int64_t{100} * 366 * 86400 * 1'000'000'000;
  const auto value = parse_duration(text);
  if (value.ok() && value->ns >= least_ns && value->ns <= kMost) return *value;
  mistake(at, fmt::format("{}: {} is '{}'; write a length of time{}, as in 250ms", what, key, shown(text),
                          least_ns > 0 ? " above 0" : ""));
  return std::nullopt;
}

void ModelReader::flag(const YamlNode& map, std::string_view what, std::string_view key, bool& into) {
  const auto text = word(map, what, key);
  if (!text) return;
  if (*text == "true" || *text == "false")
    into = *text == "true";
  else
    mistake(*map.find(key), fmt::format("{}: {} is '{}'; write true or false", what, key, shown(*text)));
}

std::optional<size_t> ModelReader::choice(const YamlNode& map, std::string_view what, std::string_view key,
                                          const std::vector<std::string>& known) {
  const auto name = word(map, what, key);
  if (!name) return std::nullopt;
  const auto found = std::find(known.begin(), known.end(), *name);
  if (found != known.end()) return static_cast<size_t>(found - known.begin());
  mistake(*map.find(key), fmt::format("{}: there is no {} '{}'{}; known are {}", what, key, shown(*name),
                                      did_you_mean(*name, known), fmt::join(known, ", ")));
  return std::nullopt;
}

}  // namespace quern::sim
