// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

Status list_objects(client::Client& server, bool json) {
  QUERN_TRY(const auto objects, server.objects());
  if (json) {
    fmt::print("{}\n", objects.json);
    return {};
  }
  if (objects.items.empty()) {
    fmt::print("no objects; 'quern put FILE' stores one, and 'quern invoke --keep NAME' leaves an output\n");
    return {};
  }
  std::vector<std::vector<std::string>> rows{{"ID", "BYTES", "KIND", "EXPIRES"}};
  for (const auto& one : objects.items)
    rows.push_back(
        {one.id, std::to_string(one.bytes), one.kind, one.expires_in.empty() ? "-" : "in " + one.expires_in});
  constexpr std::array<size_t, 1> kNumbers{1};
  fmt::print("{}", align(rows, kNumbers));
  return {};
}

Status remove(client::Client& server, const std::vector<std::string>& ids, bool json) {
  for (const std::string& id : ids) {
    QUERN_TRY(server.remove_object(id));
    if (json)
      fmt::print("{{\"removed\": {}}}\n", json_string(id));
    else
      fmt::print("{} removed\n", id);
  }
  return {};
}

Status objects(const Remote& remote, const std::vector<std::string>& removed) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  return removed.empty() ? list_objects(server, remote.json) : remove(server, removed, remote.json);
}

}  // namespace

void add_objects(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("objects", "List your objects, or remove some");
  auto removed = std::make_shared<std::vector<std::string>>();
  command->add_option("--remove", *removed, "Remove this one instead")->type_name("ID")->allow_extra_args(false);
  auto remote = add_remote_flags(*command);
  command->footer("KIND is stored (`quern put`), or lease: an output that a call left (`quern invoke --keep`).");
  command->callback([=, &work] {
    work = [=] {
      const Status done = objects(*remote, *removed);
      return done.ok() ? 0 : fail(done.error());
    };
  });
}

}  // namespace quern::main
