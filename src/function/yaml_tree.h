// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace quern {

/// One node of a YAML or JSON text, with the place where it stands (from 1). Plain data: the library that read it
/// is named in yaml_tree.cc only.
struct YamlNode {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap } kind = Kind::kNull;
  int line = 1, column = 1;
  bool quoted = false;  ///< kScalar: '5' is text, 5 is a number
  std::string text;     ///< kScalar
  /// kSequence: the items. kMap: key, value, key, value, …; keys are scalars, and no key comes twice.
  std::vector<YamlNode> children;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_sequence() const { return kind == Kind::kSequence; }
  bool is_map() const { return kind == Kind::kMap; }
  /// "a list", for messages.
  std::string_view kind_name() const;
  /// The value of a key of a map; nullptr if there is none.
  const YamlNode* find(std::string_view key) const;
};

/// Why a text is no tree.
struct YamlProblem {
  int line = 1, column = 1;
  std::string text;
};

/// Limits that keep a stranger's text cheap to read, with room for graphs of 10,000 kernels. Aliases are refused
/// altogether: a few of them can stand for gigabytes.
constexpr size_t kMostYamlBytes = size_t{4} << 20;
constexpr int kDeepestYaml = 24;
constexpr size_t kMostYamlNodes = 600'000;

/// Exactly one document. Refuses anchors, aliases, tags, keys that are not scalars and keys given twice.
std::variant<YamlNode, YamlProblem> read_yaml(std::string_view text);

}  // namespace quern
