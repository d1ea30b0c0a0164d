// SPDX-License-Identifier: Apache-2.0
#include "main/remote.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "main/command.h"
#include "server/error_map.h"

namespace quern::main {

std::shared_ptr<Remote> add_remote_flags(CLI::App& command, bool with_json) {
  auto remote = std::make_shared<Remote>();
  command.add_option("--server", remote->options.url, "Where the server is")
      ->envname("QUERN_SERVER")
      ->type_name("URL")
      ->capture_default_str();
  command.add_option("--key", remote->options.key, "Who calls, on a server with tenants")
      ->envname("QUERN_KEY")
      ->type_name("KEY");
  if (with_json) command.add_flag("--json", remote->json, "Write JSON for programs");
  return remote;
}

std::string align(const std::vector<std::vector<std::string>>& rows, std::span<const size_t> right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      const std::string room(widths[i] - row[i].size(), ' ');
      line += std::find(right.begin(), right.end(), i) != right.end() ? room + row[i] : row[i] + room;
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string json_string(std::string_view text) {
  std::string out;
  server::append_json_string(out, text);
  return out;
}

}  // namespace quern::main
