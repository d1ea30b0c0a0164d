// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "main/command.h"

namespace quern::main {

/// The subcommands of quern-bench that `quern` lacks, each in the file of its name.
void add_bench(CLI::App& app, Work& work);
void add_calibrate(CLI::App& app, Work& work);
/// Started by `quern-bench bench priority` with its socket as descriptor 3.
void add_launcher(CLI::App& app, Work& work);

}  // namespace quern::main
