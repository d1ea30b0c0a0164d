// SPDX-License-Identifier: Apache-2.0
#include "bench/main/commands.h"
#include "main/program.h"

namespace quern::main {
namespace {

constexpr auto kExamples = R"(Examples:
  quern-bench bench                              list the benchmarks
  quern-bench bench warm --json warm.json        run one
  quern-bench calibrate examples/sgemm           write files for quern simulate

`quern-bench COMMAND --help` shows what a command takes.)";

// Daemons of benchmarks start executors and builders from the program that runs them: this one.
constexpr void (*kCommands[])(CLI::App&, Work&) = {add_bench,    add_calibrate, add_version,
                                                   add_executor, add_builder,   add_launcher};

constexpr Program kBench = {"quern-bench", "Measures Quern and the devices of this machine.", kExamples, kCommands};

}  // namespace
}  // namespace quern::main

int main(int count, char** words) { return quern::main::run_program(quern::main::kBench, count, words); }
