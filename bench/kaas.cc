// SPDX-License-Identifier: Apache-2.0
//
// The throughput table of KaaS (four V100s, 1 to 32 tenants) in the simulator, beside what was published, and its two
// headlines: 50 times the throughput and a sixteenth of the latency of a worker that owns its device. The profile is
// public data and not part of the project: QUERN_DATA, or shared/data beside it, has it.
//
// What is taken from it: the memory of each model; how long a request keeps a worker, which is one over the rate that
// one GPU alone reached, for KaaS and for the conventional worker; and the time after which a conventional worker that
// was ended serves again, from the rate it fell to when tenants outnumbered devices. Nothing is fitted to the rest.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/data.h"
#include "bench/graphs.h"
#include "bench/row.h"
#include "os/file.h"
#include "sched/policy/table.h"
#include "sim/report.h"
#include "sim/world.h"

namespace quern::bench {
namespace {

namespace json = boost::json;

constexpr uint32_t kDevices = 4;
// Callers that each wait for their answer: enough to keep four devices busy, and one a tenant where there are as many.
constexpr uint32_t kFewestClients = 8;
constexpr uint64_t kMemory = uint64_t{16160} << 20;
constexpr std::array<uint32_t, 7> kTenants{1, 4, 5, 8, 16, 24, 32};
// Of the headlines: so many tenants, and for latency calls at so much of what a system sustains at the most.
constexpr uint32_t kMany = 16;
constexpr double kOfPeak = 0.7;
// What a launch of ours costs beyond the kernel: 5 % of the 20 us kernels of graph_300 (`quern bench warm`).
constexpr double kLaunchSeconds = 1e-6;
// `quern` with a domain, and so an executor on every device, for each tenant.
constexpr std::string_view kApart = "quern, a domain each";

struct Profile {
  std::string name;
  double launches = 0;                  ///< of one request; those of ResNet-50 and BERT as bench/graphs.h has them
  double kaas_p50 = 0, native_p50 = 0;  ///< published, of 16 tenants, read off a figure; in seconds
  uint64_t kaas_bytes = 0, native_bytes = 0;
  double kaas_rate = 0, native_rate = 0;         ///< requests per second of one GPU
  std::vector<double> kaas_table, native_table;  ///< published, by tenants; NaN: not measured
};

double number(const json::value& value) { return value.is_number() ? value.to_number<double>() : std::nan(""); }

std::vector<double> numbers(const json::value& value) {
  std::vector<double> all;
  for (const json::value& one : value.as_array()) all.push_back(number(one));
  return all;
}

// Whatever is missing or of another shape makes boost throw; none of it leaves this function.
Result<std::vector<Profile>> read_profiles() try {
  QUERN_TRY(const std::string path, find_data("profiles/kaas-v100.json"));
  QUERN_TRY(const auto bytes, os::read_file(path, 1 << 24));
  std::string text(as_text(bytes));
  for (size_t at = 0; (at = text.find("NaN", at)) != text.npos;) text.replace(at, 3, "null");
  const json::value all = json::parse(text);
  std::vector<Profile> profiles;
  struct Known {
    const char* name;
    double launches, kaas_p50, native_p50;
  };
  const auto kernels = [](const Graph& graph) { return static_cast<double>(graph.kernels.size()); };
  for (const auto& [name, launches, kaas_p50, native_p50] :
       {Known{"resnet50", kernels(resnet50()), 0.03, 3.7}, Known{"bert", kernels(bert_base(384)), 0.35, 7.5},
        Known{"cGEMM", 4, 0.3, 3.7}, Known{"jacobi", 3000, 0.1, 2.4}}) {
    Profile one;
    one.name = name;
    one.launches = launches;
    one.kaas_p50 = kaas_p50;
    one.native_p50 = native_p50;
    one.kaas_bytes = static_cast<uint64_t>(number(all.at("reqs").at(name).at("kaas").at("mem")));
    one.native_bytes = static_cast<uint64_t>(number(all.at("reqs").at(name).at("native").at("mem")));
    one.kaas_rate = number(all.at("isolated").at(name).at("kaas").at("qps"));
    one.native_rate = number(all.at("isolated").at(name).at("exclusive").at("qps"));
    one.kaas_table = numbers(all.at("full").at(name).at("kaas").at("throughput"));
    one.native_table = numbers(all.at("full").at(name).at("exclusive").at("throughput"));
    profiles.push_back(std::move(one));
  }
  return profiles;
} catch (const std::exception& problem) {
  return invalid(fmt::format("kaas-v100.json: {}", problem.what()));
}

double published(const std::vector<double>& table, uint32_t tenants) {
  return tenants <= table.size() ? table[tenants - 1] : std::nan("");
}

Duration seconds(double s) { return {static_cast<int64_t>(s * 1e9)}; }

/// `exclusive`: a domain each, a worker that takes seconds to start. `kaas` and `quern`: one domain, as KaaS has it.
/// `per_second`: of all tenants together, in an open loop; 0: callers that wait for each answer.
sim::Model model_of(const Profile& profile, std::string_view system, uint32_t tenants, double per_second, bool quick) {
  const bool is_exclusive = system == "exclusive", is_kaas = system == "kaas", is_ours = !is_exclusive && !is_kaas;
  sim::Model model;
  model.config.policy = *sched::preset(is_ours ? "quern" : system);
  // Neither system puts a second request on a worker: what a request keeps it for is all of it.
  if (!is_ours) model.config.runs_in_flight = model.config.lanes = 1;
  sim::DeviceModel device;
  device.name = "v100";
  device.count = kDevices;
  device.memory_bytes = kMemory;
  device.copy_bytes_per_second = uint64_t{12} << 30;
  const double cold = kDevices / published(profile.native_table, 8) - 1 / profile.native_rate;
  device.context = is_exclusive ? seconds(cold) : Duration::millis(300);
  device.context_bytes = 300 * kMiB;
  model.devices = {device};
  // The program alone is ours: the time of a conventional worker, and what our launches cost on top.
  const double takes = is_kaas ? 1 / profile.kaas_rate : 1 / profile.native_rate;
  const double overhead = is_ours ? profile.launches * kLaunchSeconds : 0;
  for (uint32_t i = 0; i < tenants; ++i) {
    sim::TenantModel tenant;
    tenant.name = fmt::format("t{}", i + 1);
    tenant.domain = is_exclusive || system == kApart ? 0 : 1;
    model.tenants.push_back(tenant);
    // What a conventional worker holds stays on a device; what KaaS has more of is the buffers of a run. Of a
    // conventional worker all of it comes with its start, which the time above has in it.
    sim::FunctionModel function;
    function.name = fmt::format("{}{}", profile.name, i + 1);
    function.tenant = i;
    function.device_time = seconds(takes + overhead);
    function.spread = 0.05;
    if (is_exclusive) {
      function.memory_bytes = profile.native_bytes;
    } else {
      if (is_kaas) function.memory_bytes = profile.kaas_bytes - std::min(profile.kaas_bytes, profile.native_bytes);
      model.objects.push_back({function.name, profile.native_bytes});
      function.objects = {i};
    }
    model.functions.push_back(function);
    sim::LoadModel load;
    load.function = i;
    load.clients = std::max(1U, kFewestClients / tenants);
    if (per_second > 0) {
      load.kind = sim::LoadModel::Kind::kPoisson;
      load.per_second = per_second / tenants;
    }
    model.loads.push_back(load);
  }
  model.length = Duration::seconds(quick ? 60 : 600);
  return model;
}

struct Simulated {
  double per_second = 0, p50 = 0;  ///< seconds
};

Simulated simulate(const sim::Model& model) {
  sim::World world(model, 1);
  sim::Report report(model, Duration::seconds(20));
  world.observe(report);
  const auto summary = report.summary("", world.run());
  return {summary.per_second(), static_cast<double>(summary.all.latency.percentile(0.5).ns) / 1e9};
}

std::string cell(double value) {
  if (std::isnan(value)) return "–";
  return value >= 100  ? fmt::format("{:.0f}", value)
         : value >= 10 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.2f}", value);
}

/// What the four models come to; the headlines are made of it.
struct Gains {
  std::vector<double> kaas_throughput, quern_throughput, passed, passed_32;  ///< at kMany tenants, and at 32
  std::vector<double> kaas_latency, quern_latency, passed_latency;
};

using Rates = std::map<std::string_view, std::map<uint32_t, double>>;

// Each at the same part of what it sustains, as it was published; and ours at the rate of KaaS too.
void add_latency(const Profile& profile, const Rates& rates, const Options& options, Report& report, Gains& gains) {
  const auto p50 = [&](std::string_view system, double peak) {
    options.progress(fmt::format("kaas: latency of {}, {}", profile.name, system));
    return simulate(model_of(profile, system, kMany, kOfPeak * peak, options.quick)).p50;
  };
  const double kaas_peak = rates.at("kaas").at(kMany);
  const double native = p50("exclusive", rates.at("exclusive").at(kMany)), kaas = p50("kaas", kaas_peak);
  const double quern = p50("quern", rates.at("quern").at(kMany)), beside = p50("quern", kaas_peak);
  const double was = profile.native_p50 / profile.kaas_p50;
  report.rows.push_back(row_of(fmt::format("{}_{}_latency_kaas", profile.name, kMany), native / kaas, "x", was));
  report.rows.push_back(row_of(fmt::format("{}_{}_latency_quern", profile.name, kMany), native / quern, "x", was));
  report.notes.push_back(fmt::format(
      "{}, p50 of {} tenants at {:.0f} % of the peak: exclusive {:.3f} s, kaas {:.3f} s, quern {:.3f} s ({:.3f} s at "
      "the rate of kaas); published: {:.2f} s, {:.2f} s",
      profile.name, kMany, 100 * kOfPeak, native, kaas, quern, beside, profile.native_p50, profile.kaas_p50));
  gains.kaas_latency.push_back(native / kaas);
  gains.quern_latency.push_back(native / quern);
  gains.passed_latency.push_back(beside / kaas);
}

void add_headlines(const Gains& gains, Report& report) {
  if (gains.passed.empty()) return;
  const auto most = [](const std::vector<double>& all) { return *std::max_element(all.begin(), all.end()); };
  const auto least = [](const std::vector<double>& all) { return *std::min_element(all.begin(), all.end()); };
  // "Up to": of the model that gains most. Latency: of the model in the middle.
  report.rows.push_back(row_of("throughput_kaas", most(gains.kaas_throughput), "x exclusive", 50, ">= 1"));
  report.rows.push_back(row_of("throughput_quern", most(gains.quern_throughput), "x exclusive", 50, ">= 1"));
  report.rows.push_back(row_of("latency_kaas", middle_of(gains.kaas_latency).median, "x exclusive", 16, ">= 1"));
  report.rows.push_back(row_of("latency_quern", middle_of(gains.quern_latency).median, "x exclusive", 16, ">= 1"));
  // Passed: by every model in throughput, so the worst of them counts; in latency again by the one in the middle.
  report.rows.push_back(row_of("throughput_passed", least(gains.passed), "x kaas", ">= 1"));
  report.rows.push_back(row_of("throughput_passed_32", least(gains.passed_32), "x kaas", ">= 1"));
  report.rows.push_back(row_of("latency_passed", middle_of(gains.passed_latency).median, "x kaas", "<= 1"));
  report.rows.push_back(row_of("latency_passed_worst", most(gains.passed_latency), "x kaas", "<= 1"));
}

}  // namespace

Status run_kaas(const Options& options, Report& report) {
  report.layout = fmt::format("simulated: {} V100 of {}, callers that wait for each answer, {} in all or one a tenant",
                              kDevices, show_bytes(kMemory), kFewestClients);
  QUERN_TRY(const auto profiles, read_profiles());
  Gains gains;
  for (const Profile& profile : profiles) {
    if (!options.wants(profile.name)) continue;
    Rates rates;
    for (const std::string_view system :
         {std::string_view("exclusive"), std::string_view("kaas"), std::string_view("quern"), kApart})
      for (const uint32_t tenants : kTenants) {
        options.progress(fmt::format("kaas: {} of {} tenants, {}", profile.name, tenants, system));
        rates[system][tenants] = simulate(model_of(profile, system, tenants, 0, options.quick)).per_second;
      }
    const auto line = [&](std::string_view name, auto of) {
      std::string text = fmt::format("| {} | {} |", profile.name, name);
      for (const uint32_t tenants : kTenants) text += fmt::format(" {} |", cell(of(tenants)));
      report.notes.push_back(std::move(text));
    };
    std::string head = "| model | tenants |", rule = "|---|---|";
    for (const uint32_t tenants : kTenants) {
      head += fmt::format(" {} |", tenants);
      rule += "---|";
    }
    report.notes.insert(report.notes.end(), {head, rule});
    line("exclusive, published", [&](uint32_t n) { return published(profile.native_table, n); });
    line("exclusive, simulated", [&](uint32_t n) { return rates["exclusive"][n]; });
    line("kaas, published", [&](uint32_t n) { return published(profile.kaas_table, n); });
    line("kaas, simulated", [&](uint32_t n) { return rates["kaas"][n]; });
    line("quern, simulated", [&](uint32_t n) { return rates["quern"][n]; });
    line(fmt::format("{}, simulated", kApart), [&](uint32_t n) { return rates[kApart][n]; });
    for (const uint32_t tenants : {4U, kMany, 32U}) {
      const auto row = [&](std::string_view name, double value, double baseline) {
        report.rows.push_back(row_of(fmt::format("{}_{}_{}", profile.name, tenants, name), value, "/s", baseline));
      };
      const double native = rates["exclusive"][tenants], kaas = rates["kaas"][tenants], quern = rates["quern"][tenants];
      row("exclusive_against_published", native, published(profile.native_table, tenants));
      row("kaas_against_published", kaas, published(profile.kaas_table, tenants));
      row("kaas_against_exclusive", kaas, native);
      row("quern_against_kaas", quern, kaas);
      row("quern_against_exclusive", quern, native);
      row("quern_apart_against_exclusive", rates[kApart][tenants], native);
    }
    gains.kaas_throughput.push_back(rates["kaas"][kMany] / rates["exclusive"][kMany]);
    gains.quern_throughput.push_back(rates["quern"][kMany] / rates["exclusive"][kMany]);
    gains.passed.push_back(rates["quern"][kMany] / rates["kaas"][kMany]);
    gains.passed_32.push_back(rates["quern"][32] / rates["kaas"][32]);
    add_latency(profile, rates, options, report, gains);
  }
  add_headlines(gains, report);
  return {};
}

}  // namespace quern::bench
