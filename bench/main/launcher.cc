// SPDX-License-Identifier: Apache-2.0
#include "bench/launcher.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "bench/main/commands.h"
#include "os/process.h"

namespace quern::main {

// Started by `quern bench priority` with its socket as descriptor 3; of no use to people, and so not in the help.
void add_launcher(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("launcher", "Launch kernels for a benchmark")->group("");
  command->callback([&work] {
    work = []() -> int {
      // No destructors, as in executors: a vendor's library may hang in them.
      _exit(bench::serve_launcher(os::Fd(os::kChildSocket)));
    };
  });
}

}  // namespace quern::main
