// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace quern {

class ManifestReader;
struct YamlNode;

/// A kind of function, as `kind:` in function.yaml names it.
struct FunctionKind {
  std::string_view name;           ///< in function.yaml, and `kind` in answers
  std::string_view platform = {};  ///< `platform` in the answer of GET /v2/models/NAME
  /// The front end: makes a graph of the tree of a function.yaml. Null: the kind is planned, and refused.
  void (ManifestReader::*read)(const YamlNode& root) = nullptr;
};

/// The kind of a function that is written as a graph of kernels.
constexpr std::string_view kGraphKind = "graph";

/// Every kind. A new kind is a row, its front end, and its name in api/function.schema.json and api/openapi.yaml, which
/// tests hold against the rows.
std::span<const FunctionKind> function_kinds();

/// The row of a name; null if no kind has it.
const FunctionKind* find_kind(std::string_view name);

/// The names of the kinds that have a front end, for messages: "graph", "graph or model".
std::string supported_kinds();

}  // namespace quern
