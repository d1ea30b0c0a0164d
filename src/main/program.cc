// SPDX-License-Identifier: Apache-2.0
#include "main/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "base/suggest.h"

namespace quern::main {
namespace {

// CLI11 puts the footer of the program below every subcommand's help too, unless that has one of its own, and ends no
// footer with a line break.
void end_footers(CLI::App& app, const char* examples) {
  for (auto* command : app.get_subcommands([](CLI::App*) { return true; }))
    command->footer(command->get_footer() == examples ? "" : command->get_footer() + "\n");
  app.footer(std::string(examples) + "\n");
}

// The command that is most likely meant by a first word that is none: CLI11 only says that the word was not expected.
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

// Does not throw where standard error takes nothing, as fmt::print would.
void print_error(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

int fail_incomplete() { return fail(unavailable("standard output: takes no more; what was printed is not complete")); }

// Writes what is left of standard output and returns the exit code of the process. A full disk shows only now, because
// short output waits in a buffer until here.
int finish_output(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  return code != 0 ? code : fail_incomplete();
}

// Output that is longer than the buffer is written earlier: fmt::print then throws when the disk is full.
int run_work(const Work& work) {
  try {
    return finish_output(work());
  } catch (const std::system_error&) {
    if (std::ferror(stdout)) return fail_incomplete();
    if (std::ferror(stderr)) return kFailed;  // nobody can be told
    throw;
  }
}

}  // namespace

int run_program(const Program& program, int count, char** words) {
  CLI::App app(program.about, program.name);
  app.footer(program.examples);
  app.require_subcommand(1);
  app.set_version_flag("--version", version());
  Work work;
  for (const auto add : program.commands) add(app, work);
  end_footers(app, program.examples);
  if (count < 2) {
    const std::string help = app.help();
    std::fwrite(help.data(), 1, help.size(), stdout);
    return finish_output(kUsage);
  }
  if (auto text = unknown_command(app, count, words); !text.empty()) {
    print_error(fmt::format("error: {}\nrun '{} --help' for the commands\n", text, program.name));
    return kUsage;
  }
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return finish_output(app.exit(e));  // --help, --version
    const auto chosen = app.get_subcommands();
    print_error(fmt::format("error: {}\nrun '{} {}--help' for what it takes\n", e.what(), program.name,
                            chosen.empty() ? "" : chosen.front()->get_name() + " "));
    return kUsage;
  }
  return work ? run_work(work) : kUsage;
}

int fail(const Error& error) {
  std::fflush(stdout);
  // The server speaks to whoever speaks HTTP; here there is a flag.
  const bool has_no_key = error.code == ErrorCode::kDenied && error.text.starts_with("no key was sent");
  print_error(fmt::format(
      "error: {}\n",
      has_no_key ? "this server has tenants, and no key was given; give --key KEY, or set $QUERN_KEY" : error.text));
  return kFailed;
}

}  // namespace quern::main
