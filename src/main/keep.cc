// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

struct KeepFlags {
  std::string name, stage = "hot", lease = "60s";
  bool ends = false;
};

Status keep(const Remote& remote, const KeepFlags& flags) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(server.keep(flags.name, flags.ends ? "" : flags.stage, flags.lease));
  if (remote.json)
    fmt::print("{{\"function\": {}, \"stage\": {}}}\n", json_string(flags.name),
               json_string(flags.ends ? "nothing" : flags.stage));
  else if (flags.ends)
    fmt::print("{}: no longer kept\n", flags.name);
  else
    fmt::print("{}: kept {} for {}\n", flags.name, flags.stage, flags.lease);
  return {};
}

}  // namespace

void add_keep(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("keep", "Make a function ready, and keep it so for a while");
  auto flags = std::make_shared<KeepFlags>();
  command->add_option("NAME", flags->name, "The function")->required();
  command->add_option("--stage", flags->stage, "How far: context, host or hot")->capture_default_str();
  command->add_option("--for", flags->lease, "How long, at most 1h")->capture_default_str();
  command->add_flag("--end", flags->ends, "No longer; what its settings say still holds");
  auto remote = add_remote_flags(*command);
  command->footer("`quern set NAME keep_warm=hot` keeps it for good.");
  command->callback([=, &work] {
    work = [=] {
      const Status kept = keep(*remote, *flags);
      return kept.ok() ? 0 : fail(kept.error());
    };
  });
}

}  // namespace quern::main
