// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/command.h"

namespace quern::main {
namespace {

#if defined(__clang__)
constexpr auto kCompiler = "clang " __clang_version__;
#else
constexpr auto kCompiler = "gcc " __VERSION__;
#endif

int show(bool json) {
  if (json) {
    fmt::print("{{\"version\": \"{}\", \"commit\": \"{}\", \"compiler\": \"{}\", \"build\": \"{}\"}}\n", QUERN_VERSION,
               QUERN_COMMIT, kCompiler, QUERN_BUILD);
  } else {
    fmt::print("quern {} (commit {}, {}, {})\n", QUERN_VERSION, QUERN_COMMIT, kCompiler, QUERN_BUILD);
  }
  return 0;
}

}  // namespace

std::string version() { return QUERN_VERSION; }
std::string commit() { return QUERN_COMMIT; }

void add_version(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("version", "Show version, commit and compiler of this program");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Write JSON for programs");
  command->callback([json, &work] { work = [json] { return show(*json); }; });
}

}  // namespace quern::main
