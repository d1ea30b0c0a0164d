// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/suggest.h"
#include "bench/main/commands.h"
#include "os/file.h"

namespace quern::main {
namespace {

struct BenchFlags {
  std::string name, json, row;
  bool quick = false, full = false;
};

const bench::Bench* find(const std::string& name) {
  for (const auto& one : bench::all())
    if (one.name == name) return &one;
  return nullptr;
}

int list() {
  std::vector<std::vector<std::string>> rows{{"NAME", "WHAT IT MEASURES"}};
  for (const auto& one : bench::all()) rows.push_back({std::string(one.name), std::string(one.summary)});
  fmt::print("{}", align(rows));
  return 0;
}

Status measure(const bench::Bench& one, const BenchFlags& flags) {
  bench::Report report;
  report.bench = one.name;
  report.commit = commit();
  report.machine = bench::machine_description();
  bench::Options options;
  options.quick = flags.quick;
  options.full = flags.full;
  options.row = flags.row;
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  options.progress = [is_terminal](std::string_view line) {
    fmt::print(stderr, "{}{}{}", is_terminal ? "\r\x1b[K" : "", line, is_terminal ? "" : "\n");
  };
  const bench::CoreTime before = bench::core_time();
  const auto ran = one.run(options, report);
  report.stolen = bench::stolen_between(before, bench::core_time());
  if (is_terminal) fmt::print(stderr, "\r\x1b[K");
  QUERN_TRY(Status(ran));
  QUERN_TRY(bench::judge(report));
  fmt::print("{}", bench::table_of(report));
  std::fflush(stdout);
  if (!flags.json.empty()) QUERN_TRY(os::write_file(flags.json, as_bytes_of(bench::json_of(report))));
  return {};
}

int run(const BenchFlags& flags) {
  if (flags.name.empty()) return list();
  const auto* one = find(flags.name);
  if (!one) {
    std::vector<std::string> known;
    for (const auto& other : bench::all()) known.emplace_back(other.name);
    return fail(not_found(fmt::format("bench {}: there is none{}", flags.name, did_you_mean(flags.name, known))));
  }
  const auto measured = measure(*one, flags);
  return measured.ok() ? 0 : fail(measured.error());
}

}  // namespace

void add_bench(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("bench", "Measure Quern against what it stands on");
  auto flags = std::make_shared<BenchFlags>();
  command->add_option("NAME", flags->name, "Which; without it, all are listed");
  command->add_option("--json", flags->json, "Also write the rows here")->type_name("FILE");
  command->add_option("--row", flags->row, "Only rows whose names begin so, where others can be left out");
  command->add_flag("--quick", flags->quick, "A tenth of the rounds: does it run at all?");
  command->add_flag("--full", flags->full, "Every row it knows, however long that takes, where some are left out");
  command->callback([=, &work] { work = [=] { return run(*flags); }; });
}

}  // namespace quern::main
