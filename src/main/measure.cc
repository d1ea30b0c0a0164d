// SPDX-License-Identifier: Apache-2.0
//
// `quern bench` and `quern calibrate` are subcommands of quern-bench, a program beside this one, so that the product
// contains no benchmark. This file hands the whole command line over to it.
#include "main/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string_view>

#include "main/command.h"
#include "os/process.h"

namespace quern::main {

bool is_measured(int count, char** words) {
  if (count < 2) return false;
  const std::string_view word = words[1];
  return word == "bench" || word == "calibrate";
}

int measure(char** words) {
  const std::string program = os::own_path() + "-bench";
  execv(program.c_str(), words);
  return fail(unavailable(fmt::format(
      "{}: this build has no quern-bench beside quern; `./quern {}` builds and starts it", words[1], words[1])));
}

// For the help only: `measure` takes their command lines.
void add_measured(CLI::App& app, Work&) {
  app.add_subcommand("calibrate", "Measure this device and functions, and write files for simulate");
  app.add_subcommand("bench", "Measure Quern against what it stands on");
}

}  // namespace quern::main
