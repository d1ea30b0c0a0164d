// SPDX-License-Identifier: Apache-2.0
#include "executor/executor.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "main/command.h"
#include "main/drivers.h"
#include "os/process.h"

namespace quern::main {

// Started by the daemon with its socket as descriptor 3; of no use to people, and so not in the help.
void add_executor(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("executor", "Run kernels of one domain on one device")->group("");
  command->callback([&work] {
    work = []() -> int {
      // No destructors: a vendor's library may hang in them, and the end of the process frees all.
      _exit(executor::run(os::Fd(os::kChildSocket), create_driver));
    };
  });
}

}  // namespace quern::main
