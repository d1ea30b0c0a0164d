// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

Status set(const Remote& remote, const std::string& name, const std::vector<std::string>& pairs) {
  std::string changes;
  std::set<std::string> paths;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalid(fmt::format("{}: write PATH=VALUE, as in limits.timeout=2s", pair));
    if (!paths.insert(pair.substr(0, equals)).second)
      return invalid(fmt::format("{}: is given twice; give it once", pair.substr(0, equals)));
    changes += fmt::format("{}{}: {}", changes.empty() ? "" : ", ", json_string(pair.substr(0, equals)),
                           json_string(pair.substr(equals + 1)));
  }
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(const std::string text, server.set(name, "{" + changes + "}"));
  if (remote.json)
    fmt::print("{}\n", text);
  else
    for (const std::string& pair : pairs) fmt::print("{}: {}\n", name, pair);
  return {};
}

}  // namespace

void add_set(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("set", "Change settings of a function in place");
  auto name = std::make_shared<std::string>();
  auto pairs = std::make_shared<std::vector<std::string>>();
  command->add_option("NAME", *name, "The function")->required();
  command->add_option("CHANGES", *pairs, "PATH=VALUE; PATH= for what the manifest says")->required();
  auto remote = add_remote_flags(*command);
  command->footer(
      "Paths: priority, limits.timeout, limits.device_time, limits.memory, quota.time.request, quota.time.limit,\n"
      "quota.units, slo.latency, slo.percentile, keep_warm. They hold for all versions, until they are taken back.\n\n"
      "Example:\n  quern set jacobi priority=3 limits.timeout=2s");
  command->callback([=, &work] {
    work = [=] {
      const Status done = set(*remote, *name, *pairs);
      return done.ok() ? 0 : fail(done.error());
    };
  });
}

}  // namespace quern::main
