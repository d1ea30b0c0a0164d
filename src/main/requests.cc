// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

int list_requests(const Remote& remote) {
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  const auto requests = server->requests();
  if (!requests.ok()) return fail(requests.error());
  if (remote.json) {
    fmt::print("{}\n", requests->json);
    return 0;
  }
  if (requests->items.empty()) {
    fmt::print("no requests: none is on its way, and none ended lately\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"ID", "FUNCTION", "TENANT", "STATE", "AGE", "DEVICE", "END"}};
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const auto& one : requests->items)
    rows.push_back({one.id, one.function, one.tenant, one.state, show_time(static_cast<double>(one.age_ns)),
                    or_dash(one.device), or_dash(one.end)});
  constexpr std::array<size_t, 1> kNumbers{4};
  fmt::print("{}", align(rows, kNumbers));
  return 0;
}

}  // namespace

void add_requests(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("requests", "List the requests that wait, run, or ended lately");
  auto remote = add_remote_flags(*command);
  command->footer("AGE counts from when it was submitted. `quern cancel ID` ends one.");
  command->callback([=, &work] { work = [=] { return list_requests(*remote); }; });
}

}  // namespace quern::main
