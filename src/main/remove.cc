// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

int remove(const Remote& remote, const std::string& name) {
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  if (const auto removed = server->remove(name); !removed.ok()) return fail(removed.error());
  // A function's name needs no escapes in JSON: the server has just accepted it.
  if (remote.json)
    fmt::print("{{\"removed\": \"{}\"}}\n", name);
  else
    fmt::print("{} removed\n", name);
  return 0;
}

}  // namespace

void add_remove(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("remove", "Remove a function and all its versions");
  auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "The function")->required();
  auto remote = add_remote_flags(*command);
  command->callback([=, &work] { work = [=] { return remove(*remote, *name); }; });
}

}  // namespace quern::main
