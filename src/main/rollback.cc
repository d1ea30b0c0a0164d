// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

Status rollback(const Remote& remote, const std::string& name, const std::string& version) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(const auto function, server.rollback(version.empty() ? name : name + "@" + version));
  if (remote.json)
    fmt::print("{}\n", function.json);
  else
    fmt::print("{}@{} is current\n", function.name, function.version);
  return {};
}

}  // namespace

void add_rollback(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("rollback", "Make an older version of a function the current one");
  auto name = std::make_shared<std::string>();
  auto version = std::make_shared<std::string>();
  command->add_option("NAME", *name, "The function")->required();
  command
      ->add_option("--to", *version, "Which one ('quern history NAME'); else the one deployed before the current one")
      ->type_name("VERSION");
  auto remote = add_remote_flags(*command);
  command->footer("Requests that run keep the version they started with.");
  command->callback([=, &work] {
    work = [=] {
      const Status done = rollback(*remote, *name, *version);
      return done.ok() ? 0 : fail(done.error());
    };
  });
}

}  // namespace quern::main
