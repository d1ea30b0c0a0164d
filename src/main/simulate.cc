// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/bytes.h"
#include "base/suggest.h"
#include "main/command.h"
#include "main/simulate_replay.h"
#include "main/simulate_search.h"
#include "os/clock.h"
#include "os/env.h"
#include "os/file.h"
#include "sched/policy/table.h"
#include "sim/model_file.h"
#include "sim/report.h"
#include "sim/report_text.h"
#include "sim/world.h"

namespace quern::main {
namespace {

struct SimulateFlags {
  std::vector<std::string> devices, policies;
  std::string workload, length, skip, by, replay;
  uint64_t seed = 1, requests = 0;
  bool json = false, search = false;
  SearchFlags search_flags;
};

/// How far a simulation is, on standard error: five times a second on a terminal, else a line every ten seconds.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what) : what_(std::move(what)), next_(os::now() + gap()) {}
  ~ProgressLine() {
    if (is_terminal_) fmt::print(stderr, "\r\x1b[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void tell(uint64_t ended, uint64_t all) {
    const Time now = os::now();
    if (now < next_) return;
    next_ = now + gap();
    const std::string of = all == 0 ? "" : fmt::format(" of {}", all);
    fmt::print(stderr, "{}{}: {}{} requests{}", is_terminal_ ? "\r\x1b[K" : "", what_, ended, of,
               is_terminal_ ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  Duration gap() const { return is_terminal_ ? Duration::millis(200) : Duration::seconds(10); }

  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  std::string what_;
  Time next_;
};

/// A file that a workload names: beside the workload, or in the folder of public data.
Result<std::string> read_named(const std::string& workload, const std::string& name) {
  namespace fs = std::filesystem;
  std::vector<std::string> tried{(fs::path(workload).parent_path() / name).string()};
  if (const std::string data = os::env("QUERN_DATA"); !data.empty() && !fs::path(name).is_absolute())
    tried.push_back((fs::path(data) / name).string());
  for (const std::string& path : tried)
    if (os::exists(path)) {
      QUERN_TRY(const Bytes bytes, os::read_file(path));
      return std::string(as_text(bytes));
    }
  return not_found(
      fmt::format("there is no file {}; name one beside the workload, or in $QUERN_DATA", fmt::join(tried, " nor ")));
}

template <class T>
Result<T> told(Result<T> read, const std::string& file) {
  if (read.ok()) return read;
  fmt::print(stderr, "{}\n", read.error().text);
  return invalid(fmt::format("{}: has mistakes; they are listed above", file));
}

Status read_duration(std::string_view flag, const std::string& text, Duration& into) {
  if (text.empty()) return {};
  const auto parsed = parse_duration(text);
  if (!parsed.ok()) return invalid(fmt::format("{} {}", flag, parsed.error().text));
  into = *parsed;
  return {};
}

Result<sim::Model> read_model(const SimulateFlags& flags) {
  if (flags.devices.empty() || flags.workload.empty())
    return invalid(
        "simulate: what is to be simulated? Give --devices FILE and --workload FILE, or --search, or --replay");
  QUERN_TRY(const Bytes bytes, os::read_file(flags.workload, 1 << 20));
  const auto read_file = [&](const std::string& name) { return read_named(flags.workload, name); };
  QUERN_TRY(sim::Workload workload,
            told(sim::parse_workload(as_text(bytes), flags.workload, read_file), flags.workload));
  for (const std::string& note : workload.notes) fmt::print(stderr, "note: {}\n", note);
  for (const std::string& file : flags.devices) {
    QUERN_TRY(const Bytes text, os::read_file(file, 1 << 20));
    QUERN_TRY(const sim::Machine machine, told(sim::parse_devices(as_text(text), file), file));
    auto& devices = workload.model.devices;
    devices.insert(devices.end(), machine.devices.begin(), machine.devices.end());
    if (machine.host) workload.model.host = *machine.host;
    if (machine.pool) workload.model.pool = *machine.pool;
  }
  if (flags.requests != 0) {
    workload.model.most_requests = flags.requests;
    workload.model.length = Duration::forever();
  }
  QUERN_TRY(read_duration("--length", flags.length, workload.model.length));
  return std::move(workload.model);
}

struct Choice {
  std::string name;
  sched::Policy policy;
};

/// Those of --policy; without it that of the workload, by its name if it is a preset.
Result<std::vector<Choice>> choices_of(const SimulateFlags& flags, const sched::Policy& own) {
  std::vector<std::string> known;
  for (const std::string_view name : sched::presets()) known.emplace_back(name);
  std::vector<Choice> choices;
  for (const std::string& name : flags.policies) {
    const auto policy = sched::preset(name);
    if (!policy)
      return invalid(fmt::format("--policy '{}': there is none{}; known are {}", name, did_you_mean(name, known),
                                 fmt::join(known, ", ")));
    choices.push_back({name, *policy});
  }
  if (!choices.empty()) return choices;
  for (const std::string& name : known)
    if (choices.empty() && sched::preset(name) == own) choices.push_back({name, own});
  if (choices.empty())
    choices.push_back(
        {fmt::format("{}+{}+{}+{}+{}", own.fairness, own.placement, own.eviction, own.setup, own.exit), own});
  return choices;
}

Status simulate(const SimulateFlags& flags) {
  QUERN_TRY(sim::Model model, read_model(flags));
  QUERN_TRY(const auto choices, choices_of(flags, model.config.policy));
  Duration skip{0};
  QUERN_TRY(read_duration("--skip", flags.skip, skip));
  const auto detail = flags.by.empty()       ? sim::Detail::kNone
                      : flags.by == "tenant" ? sim::Detail::kTenants
                                             : sim::Detail::kFunctions;
  std::vector<sim::Summary> summaries;
  for (const Choice& choice : choices) {
    model.config.policy = choice.policy;
    ProgressLine line(choices.size() == 1
                          ? choice.name
                          : fmt::format("{} ({} of {})", choice.name, summaries.size() + 1, choices.size()));
    sim::World world(model, flags.seed);
    sim::Report report(model, skip);
    world.observe(report);
    const auto outcome = world.run(
        nullptr, nullptr,
        [](void* context, uint64_t ended, uint64_t all) { static_cast<ProgressLine*>(context)->tell(ended, all); },
        &line);
    summaries.push_back(report.summary(choice.name, outcome));
  }
  fmt::print("{}",
             flags.json ? sim::json_of(model, summaries, flags.seed, detail) : sim::table_of(model, summaries, detail));
  return {};
}

int run(const SimulateFlags& flags) {
  if (!flags.search && flags.replay.empty()) {
    const Status simulated = simulate(flags);
    return simulated.ok() ? 0 : fail(simulated.error());
  }
  SearchFlags search = flags.search_flags;
  search.json = flags.json;
  const auto good = flags.search ? run_search(search) : run_replay(flags.replay, flags.json);
  if (!good.ok()) return fail(good.error());
  return *good ? 0 : kFailed;
}

}  // namespace

void add_simulate(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("simulate", "Run the scheduler over devices and calls that are only numbers");
  auto flags = std::make_shared<SimulateFlags>();
  command->add_option("--devices", flags->devices, "The devices there are, and their host; several files are added up")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_option("--workload", flags->workload, "Tenants, functions and who calls them")->type_name("FILE");
  command->add_option("--policy", flags->policies, "Presets to compare; without it, as the workload says")
      ->type_name("NAME[,NAME]")
      ->delimiter(',');
  command->add_option("--seed", flags->seed, "Of all that is random; the same seed gives the same output")
      ->capture_default_str();
  command->add_option("--requests", flags->requests, "Calls come until there were so many")->type_name("N");
  command->add_option("--length", flags->length, "Calls come for so long; then what is under way may end")
      ->type_name("TIME");
  command->add_option("--skip", flags->skip, "What is called before does not count")->type_name("TIME");
  command->add_option("--by", flags->by, "Also a row for each")->check(CLI::IsMember({"tenant", "function"}));
  command->add_flag("--json", flags->json, "For programs");

  auto* search =
      command->add_flag("--search", flags->search, "Hunt for bugs of the scheduler: random pools, all faults");
  command->add_option("--seeds", flags->search_flags.seeds, "How many random pools")->needs(search)->type_name("N");
  command->add_option("--first-seed", flags->search_flags.first_seed, "The first of them")
      ->needs(search)
      ->type_name("K");
  command
      ->add_option("--replay", flags->replay,
                   "Feed a log of `quern serve --record` to the scheduler; its actions must agree")
      ->excludes(search)
      ->type_name("FILE");
  command->footer(
      "Needs no device and no server. What it prints depends on its files and the seed only.\n\nExamples:\n"
      "  quern simulate --devices examples/simulate/v100x4.yaml --workload examples/simulate/tenants32.yaml \\\n"
      "      --policy exclusive,kaas,quern\n"
      "  quern simulate --devices examples/simulate/cold.yaml --workload examples/simulate/cold-calls.yaml \\\n"
      "      --policy serial,sage,quern\n"
      "  quern simulate --devices examples/simulate/cpu.yaml --workload examples/simulate/mixed.yaml --by tenant");
  command->callback([=, &work] { work = [=] { return run(*flags); }; });
}

}  // namespace quern::main
