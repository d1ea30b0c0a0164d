// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "function/files.h"
#include "function/graph.h"
#include "function/settings.h"
#include "function/signature.h"

namespace quern {

/// Where something stands in a text, from 1; 0 is nowhere.
struct TextPlace {
  int line = 0, column = 0;
};

/// A function of `kind: graph` as people write it, parsed and checked as far as that needs no device and no request.
struct Manifest : Graph {
  Settings settings;
  std::vector<TextPlace> kernel_places;  ///< in function.yaml, in the order of Graph::kernels
};

/// One thing wrong with a manifest: `function.yaml:12:5: error: …; write …`.
struct Mistake {
  std::string file;
  int line = 0, column = 0;
  bool is_warning = false;
  std::string text;
};
std::string to_string(const Mistake& mistake);

struct ParsedManifest {
  std::optional<Manifest> manifest;  ///< nothing if there is any mistake that is no warning
  std::vector<Mistake> mistakes;     ///< all of them, in order of line
};

/// What check_signatures found, with the lines of the kernels.
std::vector<Mistake> mistakes_in(const Manifest& manifest, std::span<const KernelProblem> problems);

/// Whether the files of constants are among the files, or were when it was deployed and are not needed any more.
enum class ConstantFiles : uint8_t { kHere, kElsewhere };

/// Reads `function.yaml` (YAML or JSON) of `files` and checks it against the files it names. Unknown keys are mistakes.
ParsedManifest parse_manifest(const Files& files, ConstantFiles constants = ConstantFiles::kHere);

/// SHA-256 over the canonical graph and every file it names: the version of a function of `kind: graph`.
std::string version_of(const Graph& graph, const Files& files);

/// The files that a graph names, and the manifest itself: what is kept of a folder.
std::set<std::string> files_of(const Graph& graph);
/// The same from the text of a manifest, which may have mistakes, before its files are read.
std::set<std::string> files_named_in(std::string_view manifest);
/// kInvalid if one of these files, or a folder that it lies in, came as a link.
Status check_links(const Files& files);

}  // namespace quern
