// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/suggest.h"
#include "main/command.h"

namespace quern::main {
namespace {

constexpr auto kAbout =
    "Quern makes the accelerators of this machine serverless: deploy functions made of kernels, and call them.";

constexpr auto kExamples = R"(Examples:
  quern demo                                     see it work from start to end
  quern serve --state ./state                    start a server on 127.0.0.1:8080
  quern deploy examples/saxpy                    deploy a function
  quern invoke saxpy --input x=@ones --input y=@random --param alpha=2 --dims n=1024
  quern functions --json                         for programs

`quern COMMAND --help` shows what a command takes.)";

// CLI11 puts the footer of the program below every subcommand's help too, unless that has one of its own, and ends no
// footer with a line break.
void end_footers(CLI::App& app) {
  for (auto* command : app.get_subcommands([](CLI::App*) { return true; }))
    command->footer(command->get_footer() == kExamples ? "" : command->get_footer() + "\n");
  app.footer(std::string(kExamples) + "\n");
}

// What is most likely meant by a first word that is no command: CLI11 only says that it was not expected.
std::string unknown_command(CLI::App& app, int count, char** words) {
  if (count < 2 || words[1][0] == '-') return "";
  const std::string word = words[1];
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_name() == word) return "";
    if (!command->get_group().empty()) known.push_back(command->get_name());
  }
  return fmt::format("'{}' is no command{}", word, did_you_mean(word, known));
}

}  // namespace

int run(int count, char** words) {
  CLI::App app(kAbout, "quern");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", version());
  Work work;
  add_demo(app, work);
  add_serve(app, work);
  add_deploy(app, work);
  add_invoke(app, work);
  add_new(app, work);
  add_plan(app, work);
  add_run(app, work);
  add_check(app, work);
  add_functions(app, work);
  add_devices(app, work);
  add_requests(app, work);
  add_cancel(app, work);
  add_why(app, work);
  add_memory(app, work);
  add_account(app, work);
  add_profile(app, work);
  add_trace(app, work);
  add_keep(app, work);
  add_put(app, work);
  add_get(app, work);
  add_objects(app, work);
  add_history(app, work);
  add_rollback(app, work);
  add_set(app, work);
  add_remove(app, work);
  add_simulate(app, work);
  add_calibrate(app, work);
  add_bench(app, work);
  add_version(app, work);
  add_executor(app, work);
  add_builder(app, work);
  add_launcher(app, work);
  end_footers(app);
  if (count < 2) {
    fmt::print("{}", app.help());
    return kUsage;
  }
  if (auto text = unknown_command(app, count, words); !text.empty()) {
    fmt::print(stderr, "error: {}\nrun 'quern --help' for the commands\n", text);
    return kUsage;
  }
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    const auto chosen = app.get_subcommands();
    fmt::print(stderr, "error: {}\nrun 'quern {}--help' for what it takes\n", e.what(),
               chosen.empty() ? "" : chosen.front()->get_name() + " ");
    return kUsage;
  }
  return work ? work() : kUsage;
}

int fail(const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", error.text);
  return kFailed;
}

}  // namespace quern::main

int main(int count, char** words) { return quern::main::run(count, words); }
