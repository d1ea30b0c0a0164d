// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

constexpr const char* kNone = "no functions yet; deploy one with 'quern deploy examples/saxpy'\n";

std::string join(const std::vector<std::string>& sizes) {
  return sizes.empty() ? "any" : fmt::format("{}", fmt::join(sizes, " x "));
}

// One removed while we ask is not there any more; that is no mistake of whoever asked.
Result<std::vector<client::FunctionInfo>> details(client::Client& server) {
  QUERN_TRY(const auto functions, server.functions());
  std::vector<client::FunctionInfo> all;
  for (const auto& one : functions.items) {
    auto function = server.function(one.name);
    if (!function.ok() && function.error().code == ErrorCode::kNotFound) continue;
    if (!function.ok()) return function.error();
    all.push_back(*std::move(function));
  }
  return all;
}

int list_kernels(client::Client& server, bool json) {
  const auto functions = details(server);
  if (!functions.ok()) return fail(functions.error());
  if (json) {
    std::string list;
    for (const auto& one : *functions) list += (list.empty() ? "" : ", ") + one.json;
    fmt::print("{{\"functions\": [{}]}}\n", list);
    return 0;
  }
  if (functions->empty()) {
    fmt::print("{}", kNone);
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"FUNCTION", "KERNEL", "GLOBAL", "LOCAL", "SLICED"}};
  for (const auto& one : *functions)
    for (const auto& kernel : one.kernels)
      rows.push_back({one.name, kernel.entry, join(kernel.global), join(kernel.local),
                      kernel.sliceable ? "yes" : "no: " + kernel.reason});
  fmt::print("{}", align(rows));
  return 0;
}

int list(const Remote& remote, bool kernels) {
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  if (kernels) return list_kernels(*server, remote.json);
  const auto functions = server->functions();
  if (!functions.ok()) return fail(functions.error());
  if (remote.json) {
    fmt::print("{}\n", functions->json);
    return 0;
  }
  if (functions->items.empty()) {
    fmt::print("{}", kNone);
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
  auto kernels = std::make_shared<bool>(false);
  command->add_flag("--kernels", *kernels, "Their kernels: sizes, and which can be launched in slices");
  command->callback([=, &work] { work = [=] { return list(*remote, *kernels); }; });
}

}  // namespace quern::main
