// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

int deploy(const Remote& remote, const std::string& folder) {
  auto packed = client::pack_folder(folder);
  if (!packed.ok()) return fail(packed.error());
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  const auto deployed = server->deploy(packed->name, packed->tar);
  if (!deployed.ok()) return fail(deployed.error());
  for (const std::string& warning : deployed->warnings) fmt::print(stderr, "{}\n", warning);
  if (remote.json)
    fmt::print("{}\n", deployed->json);
  else
    fmt::print("{}@{} {}\n", deployed->name, deployed->version,
               deployed->is_new             ? "deployed"
               : deployed->has_new_settings ? "was deployed already; its settings are new"
                                            : "was deployed already");
  return 0;
}

}  // namespace

void add_deploy(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("deploy", "Deploy the function in a folder");
  auto folder = std::make_shared<std::string>();
  command->add_option("FOLDER", *folder, "The folder that holds function.yaml")->required();
  auto remote = add_remote_flags(*command);
  command->footer(
      "Every mistake is listed with file and line, and nothing is deployed unless all of it is right.\n\n"
      "Example:\n  quern deploy examples/saxpy");
  command->callback([=, &work] { work = [=] { return deploy(*remote, *folder); }; });
}

}  // namespace quern::main
