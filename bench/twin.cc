// SPDX-License-Identifier: Apache-2.0
//
// The simulator against the real thing: closed loops over examples by the ring, then the same in virtual time, with a
// device file that was made a moment before.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "bench/bench.h"
#include "bench/calibration.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/log.h"
#include "sim/report.h"
#include "sim/world.h"

namespace quern::bench {
namespace {

// Some milliseconds each: what takes less waits for the host, which the simulator does not model. And of one kernel
// each: PoCL mixes the kernels of two runs in flight, and the model has no kernels yet.
const std::map<std::string, std::map<std::string, int64_t>> kExamples{{"black_scholes", {{"n", 262144}}},
                                                                      {"conv2d", {{"h", 192}, {"w", 192}}},
                                                                      {"sgemm", {{"m", 384}, {"n", 384}, {"k", 384}}}};
constexpr std::array<uint32_t, 3> kClients{1, 4, 16};

Loop simulate(const Calibration& calibration, uint32_t clients, Duration length) {
  sim::Model model;
  model.devices = {calibration.device};
  model.tenants.emplace_back().name = "default";
  model.functions = calibration.functions;
  const auto functions = static_cast<uint32_t>(model.functions.size());
  for (uint32_t i = 0; i < std::min(clients, functions); ++i) {
    sim::LoadModel load;
    load.function = i;
    load.clients = clients / functions + (i < clients % functions ? 1 : 0);
    load.think = calibration.think[i];
    model.loads.push_back(load);
  }
  model.length = length;
  sim::World world(model, 1);
  sim::Report report(model, Duration::millis(500));
  world.observe(report);
  const auto outcome = world.run();
  const sim::Summary summary = report.summary("quern", outcome);
  return {summary.per_second(), static_cast<double>(summary.all.latency.percentile(0.5).ns) / 1e3,
          static_cast<double>(summary.all.latency.percentile(0.95).ns) / 1e3,
          static_cast<double>(summary.all.latency.largest().ns) / 1e3};
}

}  // namespace

Status run_twin(const Options& options, Report& report) {
  const Layout layout = Layout::here();
  report.layout = layout.text;
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  QUERN_TRY(const auto folder, Folder::create());
  os::start_log(os::Level::kWarning);
  const Time before = os::now();
  QUERN_TRY(auto ring, Ring::create(layout, folder.path()));
  const Duration started_in = os::now() - before;
  QUERN_TRY(const auto examples, examples_folder());
  std::vector<Callee> callees;
  for (const auto& [name, dims] : kExamples) {
    options.progress(fmt::format("twin: deploy {}", name));
    QUERN_TRY(auto callee, Callee::create(*ring, examples + "/" + name, dims));
    callees.push_back(std::move(callee));
  }
  const size_t rounds = options.quick ? 1 : 9;
  const Duration length = Duration::millis(options.quick ? 500 : 1500);
  // Live and simulated are taken in turns, each time over a file made just before: the clock of a machine moves.
  std::array<std::array<std::vector<double>, 3>, 3> off;  // by clients, then p50, p95 and throughput
  for (size_t round = 0; round < rounds; ++round) {
    QUERN_TRY(const Calibration calibration, calibrate(callees, layout.device_config(), started_in, options.progress));
    for (size_t i = 0; i < kClients.size(); ++i) {
      options.progress(fmt::format("twin: round {} of {}, {} clients", round, rounds, kClients[i]));
      QUERN_TRY(const Loop live, run_loop(callees, kClients[i], length));
      const Loop twin = simulate(calibration, kClients[i], Duration::seconds(20));
      const auto apart = [](double a, double b) { return 100 * std::abs(a / b - 1); };
      off[i][0].push_back(apart(twin.p50_us, live.p50_us));
      off[i][1].push_back(apart(twin.p95_us, live.p95_us));
      off[i][2].push_back(apart(twin.per_second, live.per_second));
      report.notes.push_back(
          fmt::format("round {}, {} clients: live p50 {:.0f} us, p95 {:.0f} us, most {:.0f} us, {:.1f}/s; simulated "
                      "{:.0f} us, {:.0f} us, {:.1f}/s",
                      round, kClients[i], live.p50_us, live.p95_us, live.most_us, live.per_second, twin.p50_us,
                      twin.p95_us, twin.per_second));
    }
    if (round == 0)
      report.notes.insert(report.notes.begin(),
                          "the device file of round 0:\n" + devices_file(calibration) + workload_file(calibration));
  }
  for (size_t i = 0; i < kClients.size(); ++i) {
    const char* names[] = {"p50", "p95", "throughput"};
    for (size_t what = 0; what < 3; ++what) {
      Row row;
      row.name = fmt::format("twin_{}_{}", kClients[i], names[what]);
      row.value = middle_of(off[i][what]).median;
      row.unit = "% apart";
      row.goal = what == 1 ? "<= 20" : "<= 10";
      report.rows.push_back(std::move(row));
    }
  }
  return {};
}

}  // namespace quern::bench
