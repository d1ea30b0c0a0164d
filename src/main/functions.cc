// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

int list(const Remote& remote) {
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  const auto functions = server->functions();
  if (!functions.ok()) return fail(functions.error());
  if (remote.json) {
    fmt::print("{}\n", functions->json);
    return 0;
  }
  if (functions->items.empty()) {
    fmt::print("no functions yet; deploy one with 'quern deploy examples/saxpy'\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"NAME", "VERSION", "DEPLOYED"}};
  for (const auto& one : functions->items) rows.push_back({one.name, one.version, one.created_at});
  fmt::print("{}", align(rows));
  return 0;
}

}  // namespace

void add_functions(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("functions", "List the deployed functions");
  auto remote = add_remote_flags(*command);
  command->callback([=, &work] { work = [=] { return list(*remote); }; });
}

}  // namespace quern::main
