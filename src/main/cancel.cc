// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

int cancel(const Remote& remote, const std::string& id) {
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  if (const auto cancelled = server->cancel(id); !cancelled.ok()) return fail(cancelled.error());
  if (remote.json)
    fmt::print("{{\"cancelled\": {}}}\n", json_string(id));
  else
    fmt::print("{} cancelled\n", id);
  return 0;
}

}  // namespace

void add_cancel(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("cancel", "Cancel a request that waits or runs");
  auto id = std::make_shared<std::string>();
  command->add_option("ID", *id, "As 'quern requests' shows it, or the header Quern-Request")->required();
  auto remote = add_remote_flags(*command);
  command->callback([=, &work] { work = [=] { return cancel(*remote, *id); }; });
}

}  // namespace quern::main
