// SPDX-License-Identifier: Apache-2.0
#include "builder/builder.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/drivers.h"
#include "os/process.h"

namespace quern::main {

// Started by the daemon with its socket as descriptor 3; of no use to people, and so not in the help.
void add_builder(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("builder", "Compile one program")->group("");
  command->callback([&work] { work = []() -> int { _exit(builder::run(os::Fd(os::kChildSocket), create_driver)); }; });
}

}  // namespace quern::main
