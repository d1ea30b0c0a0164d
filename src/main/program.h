// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "main/command.h"

namespace quern::main {

/// What distinguishes one program made of subcommands from another: `quern` and `quern-bench`.
struct Program {
  const char* name = "";
  const char* about = "";
  const char* examples = "";  ///< below the help of the program itself
  std::span<void (*const)(CLI::App& app, Work& work)> commands;
};

/// Parses the command line, runs the chosen subcommand and returns the exit code of the process. A first word that is
/// no command is answered with the nearest one that is.
int run_program(const Program& program, int count, char** words);

}  // namespace quern::main
