// SPDX-License-Identifier: Apache-2.0
#include "function/kinds.h"

#include <algorithm>

#include "function/manifest_reader.h"

namespace quern {

std::span<const FunctionKind> function_kinds() {
  static constexpr FunctionKind kRows[] = {
      {kGraphKind, "quern_graph", &ManifestReader::read_graph},
      {"model"},
      {"program"},
      {"workflow"},
  };
  return kRows;
}

const FunctionKind* find_kind(std::string_view name) {
  const auto rows = function_kinds();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const FunctionKind& kind) { return kind.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

std::string supported_kinds() {
  std::string names;
  for (const FunctionKind& kind : function_kinds())
    if (kind.read) names.append(names.empty() ? "" : " or ").append(kind.name);
  return names;
}

}  // namespace quern
