// SPDX-License-Identifier: Apache-2.0
#include "main/measure.h"
#include "main/program.h"

namespace quern::main {
namespace {

constexpr auto kExamples = R"(Examples:
  quern demo                                     see it work from start to end
  quern serve --state ./state                    start a server on 127.0.0.1:8080
  quern deploy examples/saxpy                    deploy a function
  quern invoke saxpy --input x=@ones --input y=@random --param alpha=2 --dims n=1024
  quern functions --json                         for programs

`quern COMMAND --help` shows what a command takes.)";

// In the order of the help.
constexpr void (*kCommands[])(CLI::App&, Work&) = {
    add_demo,      add_serve,   add_deploy,   add_invoke,   add_new,     add_plan,     add_run,      add_check,
    add_functions, add_devices, add_requests, add_cancel,   add_why,     add_memory,   add_account,  add_profile,
    add_trace,     add_keep,    add_put,      add_get,      add_objects, add_history,  add_rollback, add_set,
    add_remove,    add_doctor,  add_simulate, add_measured, add_version, add_executor, add_builder,
};

constexpr auto kAbout =
    "Quern makes the accelerators of this machine serverless: deploy functions made of kernels, and call them.";

constexpr Program kQuern = {"quern", kAbout, kExamples, kCommands};

}  // namespace
}  // namespace quern::main

int main(int count, char** words) {
  using namespace quern::main;
  return is_measured(count, words) ? measure(words) : run_program(kQuern, count, words);
}
