// SPDX-License-Identifier: Apache-2.0
//
// The throughput table of KaaS (four V100s, 1 to 32 tenants) in the simulator, beside what was published. The profile
// is public data and not part of the project: QUERN_DATA, or shared/data beside it, has it.
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
#include "os/env.h"
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

struct Profile {
  std::string name;
  uint64_t kaas_bytes = 0, native_bytes = 0;
  double kaas_rate = 0, native_rate = 0;         ///< requests per second of one GPU
  std::vector<double> kaas_table, native_table;  ///< published, by tenants; NaN: not measured
};

Result<std::string> find_data() {
  std::vector<std::string> folders;
  if (const std::string given = os::env("QUERN_DATA"); !given.empty()) folders.push_back(given);
  folders.insert(folders.end(), {"../shared/data", "shared/data"});
  for (const std::string& folder : folders)
    if (os::exists(folder + "/profiles/kaas-v100.json")) return folder + "/profiles/kaas-v100.json";
  return not_found("profiles/kaas-v100.json: is not here; set QUERN_DATA to the folder of public data");
}

double number(const json::value& value) { return value.is_number() ? value.to_number<double>() : std::nan(""); }

std::vector<double> numbers(const json::value& value) {
  std::vector<double> all;
  for (const json::value& one : value.as_array()) all.push_back(number(one));
  return all;
}

// Whatever is missing or of another shape makes boost throw; none of it leaves this function.
Result<std::vector<Profile>> read_profiles() try {
  QUERN_TRY(const std::string path, find_data());
  QUERN_TRY(const auto bytes, os::read_file(path, 1 << 24));
  std::string text(as_text(bytes));
  for (size_t at = 0; (at = text.find("NaN", at)) != text.npos;) text.replace(at, 3, "null");
  const json::value all = json::parse(text);
  std::vector<Profile> profiles;
  for (const char* name : {"resnet50", "bert", "cGEMM", "jacobi"}) {
    Profile one;
    one.name = name;
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
sim::Model model_of(const Profile& profile, std::string_view policy, uint32_t tenants, bool quick) {
  const bool is_exclusive = policy == "exclusive", is_kaas = policy == "kaas";
  sim::Model model;
  model.config.policy = *sched::preset(policy);
  // Neither system puts a second request on a worker: what a request keeps it for is all of it.
  if (policy != "quern") model.config.runs_in_flight = model.config.lanes = 1;
  sim::DeviceModel device;
  device.name = "v100";
  device.count = kDevices;
  device.memory_bytes = kMemory;
  device.copy_bytes_per_second = uint64_t{12} << 30;
  const double cold = kDevices / published(profile.native_table, 8) - 1 / profile.native_rate;
  device.context = is_exclusive ? seconds(cold) : Duration::millis(300);
  device.context_bytes = 300 * kMiB;
  model.devices = {device};
  // The program alone is ours: the rate of a conventional worker, and what a launch of ours costs on top (graph_300).
  const double rate = is_kaas ? profile.kaas_rate : profile.native_rate;
  const double overhead = policy == "quern" ? 1.05 : 1;
  for (uint32_t i = 0; i < tenants; ++i) {
    sim::TenantModel tenant;
    tenant.name = fmt::format("t{}", i + 1);
    tenant.domain = is_exclusive ? 0 : 1;
    model.tenants.push_back(tenant);
    // What a conventional worker holds stays on a device; what KaaS has more of is the buffers of a run. Of a
    // conventional worker all of it comes with its start, which the time above has in it.
    sim::FunctionModel function;
    function.name = fmt::format("{}{}", profile.name, i + 1);
    function.tenant = i;
    function.device_time = seconds(overhead / rate);
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
    model.loads.push_back(load);
  }
  model.length = Duration::seconds(quick ? 60 : 600);
  return model;
}

double simulate(const sim::Model& model, const std::string& policy) {
  sim::World world(model, 1);
  sim::Report report(model, Duration::seconds(20));
  world.observe(report);
  const auto outcome = world.run();
  return report.summary(policy, outcome).per_second();
}

std::string cell(double value) {
  if (std::isnan(value)) return "–";
  return value >= 100  ? fmt::format("{:.0f}", value)
         : value >= 10 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.2f}", value);
}

}  // namespace

Status run_kaas(const Options& options, Report& report) {
  report.layout = fmt::format("simulated: {} V100 of {}, callers that wait for each answer, {} in all or one a tenant",
                              kDevices, show_bytes(kMemory), kFewestClients);
  QUERN_TRY(const auto profiles, read_profiles());
  for (const Profile& profile : profiles) {
    if (!options.wants(profile.name)) continue;
    std::map<std::string, std::map<uint32_t, double>> rates;
    for (const char* policy : {"exclusive", "kaas", "quern"})
      for (const uint32_t tenants : kTenants) {
        options.progress(fmt::format("kaas: {} of {} tenants, {}", profile.name, tenants, policy));
        rates[policy][tenants] = simulate(model_of(profile, policy, tenants, options.quick), policy);
      }
    const auto line = [&](std::string_view name, auto of) {
      std::string text = fmt::format("| {} | {} |", profile.name, name);
      for (const uint32_t tenants : kTenants) text += fmt::format(" {} |", cell(of(tenants)));
      report.notes.push_back(std::move(text));
    };
    if (&profile == &profiles.front() || !options.row.empty()) {
      std::string head = "| model | tenants |", rule = "|---|---|";
      for (const uint32_t tenants : kTenants) {
        head += fmt::format(" {} |", tenants);
        rule += "---|";
      }
      report.notes.push_back(head);
      report.notes.push_back(rule);
    }
    line("exclusive, published", [&](uint32_t n) { return published(profile.native_table, n); });
    line("exclusive, simulated", [&](uint32_t n) { return rates["exclusive"][n]; });
    line("kaas, published", [&](uint32_t n) { return published(profile.kaas_table, n); });
    line("kaas, simulated", [&](uint32_t n) { return rates["kaas"][n]; });
    line("quern, simulated", [&](uint32_t n) { return rates["quern"][n]; });
    for (const uint32_t tenants : {4U, 16U, 32U}) {
      const auto row = [&](std::string name, double value, double baseline) {
        Row one;
        one.name = fmt::format("{}_{}_{}", profile.name, tenants, name);
        one.value = value;
        one.unit = "/s";
        if (!std::isnan(baseline)) {
          one.baseline = baseline;
          one.ratio = value / baseline;
        }
        report.rows.push_back(std::move(one));
      };
      row("exclusive_against_published", rates["exclusive"][tenants], published(profile.native_table, tenants));
      row("kaas_against_published", rates["kaas"][tenants], published(profile.kaas_table, tenants));
      row("quern_against_kaas", rates["quern"][tenants], rates["kaas"][tenants]);
      row("quern_against_exclusive", rates["quern"][tenants], rates["exclusive"][tenants]);
    }
  }
  return {};
}

}  // namespace quern::bench
