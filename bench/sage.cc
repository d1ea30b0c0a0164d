// SPDX-License-Identifier: Apache-2.0
//
// What was published of SAGE, in the simulator: how much shorter calls are, and how many more functions share the same
// devices, than where every call sets up all it needs one after another. The models are files anyone can run and change
// (examples/simulate: cold.yaml, cold-calls.yaml, density.yaml); the presets are `serial` (FixedGSL), `sage` and ours.
#include <fmt/format.h>

#include <map>

#include "bench/bench.h"
#include "bench/row.h"
#include "bench/stage.h"
#include "os/file.h"
#include "sched/policy/table.h"
#include "sim/model_file.h"
#include "sim/report.h"
#include "sim/world.h"

namespace quern::bench {
namespace {

constexpr double kPublishedDuration = 11.3, kPublishedDensity = 1.22;
constexpr Duration kServed = Duration::seconds(22);  // p95 up to which a function counts as served
constexpr uint32_t kMostFunctions = 256;
constexpr std::string_view kCopies = "copies: 34";  // as density.yaml has it

Result<std::string> read_example(const std::string& name) {
  QUERN_TRY(const std::string folder, examples_folder());
  QUERN_TRY(const auto bytes, os::read_file(folder + "/simulate/" + name, 1 << 20));
  return std::string(as_text(bytes));
}

Result<sim::Model> read_model(const std::string& workload, const std::string& name) {
  QUERN_TRY(const std::string devices, read_example("cold.yaml"));
  QUERN_TRY(const sim::Machine machine, sim::parse_devices(devices, "cold.yaml"));
  const auto no_files = [](const std::string& path) -> Result<std::string> { return not_found(path); };
  QUERN_TRY(sim::Workload read, sim::parse_workload(workload, name, no_files));
  sim::Model model = std::move(read.model);
  model.devices = machine.devices;
  if (machine.host) model.host = *machine.host;
  model.pool = machine.pool.value_or(0);
  return model;
}

sim::Summary simulate(sim::Model model, std::string_view policy) {
  model.config.policy = *sched::preset(policy);
  sim::World world(model, 1);
  sim::Report report(model, Duration::seconds(600));
  world.observe(report);
  return report.summary(std::string(policy), world.run());
}

double seconds(double ns) { return ns / 1e9; }

Status add_duration(const Options& options, Report& report) {
  QUERN_TRY(const std::string text, read_example("cold-calls.yaml"));
  QUERN_TRY(sim::Model model, read_model(text, "cold-calls.yaml"));
  if (options.quick) model.length = Duration::seconds(3600);
  std::map<std::string_view, double> mean;
  const auto run = [&](const std::string& name, const sim::Model& one, std::string_view policy) {
    options.progress("sage: durations, " + name);
    const sim::Summary summary = simulate(one, policy);
    report.notes.push_back(fmt::format(
        "{}: calls take {:.2f} s in the mean, p50 {:.2f} s, p95 {:.2f} s; {} of {} found their weights on the device, "
        "{} executors started",
        name, seconds(summary.all.latency.mean_ns()),
        seconds(static_cast<double>(summary.all.latency.percentile(0.5).ns)),
        seconds(static_cast<double>(summary.all.latency.percentile(0.95).ns)), summary.hits,
        summary.hits + summary.misses, summary.executors_started));
    return seconds(summary.all.latency.mean_ns());
  };
  for (const std::string_view policy : {"serial", "sage", "quern"})
    mean[policy] = run(std::string(policy), model, policy);
  // A graph of kernels needs no framework; the figures above are with one all the same, as SAGE's functions have it.
  sim::Model bare = model;
  for (sim::DeviceModel& device : bare.devices) device.framework = {0};
  const double without = run("quern, without a framework", bare, "quern");
  const double sage = mean["serial"] / mean["sage"], quern = mean["serial"] / mean["quern"];
  report.rows.push_back(row_of("duration_sage", sage, "x shorter", kPublishedDuration, ">= 0.8"));
  report.rows.push_back(row_of("duration_quern", quern, "x shorter", kPublishedDuration, ">= 1"));
  report.rows.push_back(row_of("duration_passed", quern, "x shorter", sage, "> 1"));
  report.rows.push_back(row_of("duration_quern_bare", mean["serial"] / without, "x shorter", kPublishedDuration));
  return {};
}

/// How many functions are served with a p95 of kServed; `text` is density.yaml.
Result<uint32_t> density(const std::string& text, std::string_view policy, bool quick) {
  const size_t at = text.find(kCopies);
  if (at == text.npos)
    return invalid(fmt::format("density.yaml: does not say '{}'; the benchmark changes it", kCopies));
  uint32_t least = 1, most = kMostFunctions;
  while (least < most) {
    const uint32_t middle = (least + most + 1) / 2;
    std::string changed = text;
    changed.replace(at, kCopies.size(), fmt::format("copies: {}", middle));
    QUERN_TRY(sim::Model model, read_model(changed, "density.yaml"));
    if (quick) model.length = Duration::seconds(1800);
    if (simulate(std::move(model), policy).all.latency.percentile(0.95) <= kServed)
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

Status add_density(const Options& options, Report& report) {
  QUERN_TRY(const std::string text, read_example("density.yaml"));
  std::map<std::string_view, double> served;
  for (const std::string_view policy : {"serial", "sage", "quern"}) {
    options.progress(fmt::format("sage: density, {}", policy));
    QUERN_TRY(const uint32_t functions, density(text, policy, options.quick));
    served[policy] = functions;
    report.notes.push_back(fmt::format("{}: {} functions within a p95 of {}", policy, functions, to_string(kServed)));
  }
  const double sage = served["sage"] / served["serial"], quern = served["quern"] / served["serial"];
  report.rows.push_back(row_of("density_sage", sage, "x functions", kPublishedDensity, ">= 0.9"));
  report.rows.push_back(row_of("density_quern", quern, "x functions", kPublishedDensity, ">= 1"));
  report.rows.push_back(row_of("density_passed", quern, "x functions", sage, "> 1"));
  return {};
}

}  // namespace

Status run_sage(const Options& options, Report& report) {
  report.layout = "simulated: 8 V100 as examples/simulate/cold.yaml has them";
  if (options.wants("duration")) QUERN_TRY(add_duration(options, report));
  if (options.wants("density")) QUERN_TRY(add_density(options, report));
  return {};
}

}  // namespace quern::bench
