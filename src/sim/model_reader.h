// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "function/yaml_tree.h"

namespace quern::sim {

/// Values out of a YAML tree, each with its limits. What is wrong is noted with its place, keeps its default, and
/// reading goes on: all mistakes come at once. `what` is how messages call the entry, as in "device v100".
class ModelReader {
 public:
  explicit ModelReader(std::string file) : file_(std::move(file)) {}

  static constexpr size_t kMostMistakes = 100;

  void mistake(const YamlNode& at, std::string text);
  void mistake(int line, int column, std::string text);
  bool any() const { return !mistakes_.empty(); }
  /// In order of place.
  std::string text();

  bool is_map(const YamlNode& node, std::string_view what);
  void refuse_unknown(const YamlNode& map, std::string_view what, const std::vector<std::string>& known);
  /// The items of a list; those of one that is missing are none.
  void each(const YamlNode& map, std::string_view key, const std::function<void(const YamlNode&)>& work);
  /// A name that `taken` does not hold yet; added to `what`. "" if there is none.
  std::string name(const YamlNode& map, std::string& what, std::set<std::string>& taken);
  const YamlNode* required(const YamlNode& map, std::string_view what, std::string_view key);
  std::optional<std::string> word(const YamlNode& map, std::string_view what, std::string_view key);

  // Each leaves `into` as it is when the key is missing or wrong.
  template <class T>
  void whole(const YamlNode& map, std::string_view what, std::string_view key, T& into, int64_t least, int64_t most) {
    if (const auto value = read_whole(map, what, key, least, most)) into = static_cast<T>(*value);
  }
  void number(const YamlNode& map, std::string_view what, std::string_view key, double& into, double least,
              double most);
  void bytes(const YamlNode& map, std::string_view what, std::string_view key, uint64_t& into, uint64_t least = 0);
  void bandwidth(const YamlNode& map, std::string_view what, std::string_view key, uint64_t& into);
  void duration(const YamlNode& map, std::string_view what, std::string_view key, Duration& into, int64_t least_ns = 0);
  /// A list of them.
  void durations(const YamlNode& map, std::string_view what, std::string_view key, std::vector<Duration>& into,
                 int64_t least_ns = 0);
  void flag(const YamlNode& map, std::string_view what, std::string_view key, bool& into);
  /// Which of `known` it is; nothing if the key is missing or wrong.
  std::optional<size_t> choice(const YamlNode& map, std::string_view what, std::string_view key,
                               const std::vector<std::string>& known);

 private:
  std::optional<Duration> read_duration(const YamlNode& at, const std::string& text, std::string_view what,
                                        std::string_view key, int64_t least_ns);
  std::optional<int64_t> read_whole(const YamlNode& map, std::string_view what, std::string_view key, int64_t least,
                                    int64_t most);

  std::string file_;
  std::vector<std::tuple<int, int, std::string>> mistakes_;
  size_t left_out_ = 0;
};

}  // namespace quern::sim
