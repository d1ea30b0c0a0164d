// SPDX-License-Identifier: Apache-2.0
//
// The mixes of DISB in the simulator, under each policy of dispatch; `disb` has them live. All clients are in one
// executor whose kernels are in one queue, as DISB's server has it; and again in one each, on a device that gives each
// of them time slices. How long a model takes is as DISB publishes it; how that is divided among its kernels is as REEF
// measured it where it did (profiles/reef-mi50), else evenly. Both are public data and not part of the project:
// QUERN_DATA, or shared/data beside it, has them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "bench/bench.h"
#include "bench/data.h"
#include "bench/disb_mix.h"
#include "bench/profiles.h"
#include "bench/row.h"
#include "os/file.h"
#include "sched/policy/table.h"
#include "sim/world.h"

namespace quern::bench {
namespace {

using Sharing = sim::DeviceModel::Sharing;

constexpr std::array<std::string_view, 5> kMixes{"A", "B", "C", "D", "E"};
constexpr std::array<std::string_view, 4> kPolicies{"none", "strict", "fikit", "fill"};
// By TensorRT on an RTX 3080, which knows no priorities: the mean of urgent calls against alone.
constexpr std::array kPublished{1.07, 1.11, 2.02, 7.46, 7.22};
constexpr Duration kSettled = Duration::seconds(1);

struct ReefModel {
  std::string_view model, reef;
  size_t divided;  ///< it has this part of REEF's kernels: DistilBERT has half of BERT's layers
};
constexpr std::array<ReefModel, 3> kReef{
    {{"resnet152-imagenet", "resnet152", 1}, {"densenet201-imagenet", "densenet", 1}, {"distilbert", "bert", 2}}};

/// Of all calls that were sent and answered after the first second: how long they took, in ms, by function.
class Latencies : public sim::Observer {
 public:
  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& /*core*/) override {
    if (const auto* submit = std::get_if<sched::Submit>(&event); submit && now.ns >= kSettled.ns)
      sent_[submit->request] = {submit->function.value - 1, now};
    for (const sched::Action& action : actions)
      if (const auto* answer = std::get_if<sched::Answer>(&action))
        if (const auto sent = sent_.find(answer->request); sent != sent_.end()) {
          if (answer->end == sched::End::kDone)
            ms_[sent->second.first].push_back(static_cast<double>((now - sent->second.second).ns) / 1e6);
          sent_.erase(sent);
        }
  }
  const std::map<uint64_t, std::vector<double>>& ms() const { return ms_; }

 private:
  std::map<sched::RequestId, std::pair<uint64_t, Time>> sent_;
  std::map<uint64_t, std::vector<double>> ms_;
};

double mean_of(const std::vector<double>& samples) {
  if (samples.empty()) return std::nan("");
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

struct Figures {
  std::map<std::string, std::vector<double>> ms;  ///< by urgent client
  double per_second = 0;                          ///< calls of all
};

class DisbSim {
 public:
  DisbSim(const Options& options, Report& report) : options_(options), report_(report) {}

  Status run() {
    QUERN_TRY(read_kernels());
    for (size_t i = 0; i < kMixes.size(); ++i) {
      QUERN_TRY(const std::string path, find_data(fmt::format("workloads/disb_{}.json", kMixes[i])));
      QUERN_TRY(const Bytes bytes, os::read_file(path, 1 << 20));
      QUERN_TRY(const DisbMix mix, parse_disb(std::string(kMixes[i]), as_text(bytes)));
      QUERN_TRY(compare("", mix, Sharing::kQueue, kPublished[i]));
      QUERN_TRY(compare("slices_", mix, Sharing::kSlices, std::nan("")));
    }
    return report_.rows.empty() ? Status(not_found(fmt::format("row {}: there is none", options_.row))) : Status();
  }

 private:
  Status read_kernels() {
    const auto read = [](const std::string& path) -> Result<std::string> {
      QUERN_TRY(const std::string found, find_data("profiles/reef-mi50/" + path));
      QUERN_TRY(const Bytes bytes, os::read_file(found, 1 << 24));
      return std::string(as_text(bytes));
    };
    for (const ReefModel& model : kReef) {
      const std::string name(model.reef);
      QUERN_TRY(const std::string graph, read(name + ".graph.json"));
      QUERN_TRY(const std::string profile, read(name + ".profile.json"));
      QUERN_TRY(std::vector<Duration> kernels, parse_reef(name, graph, profile));
      kernels.resize(std::max<size_t>(1, kernels.size() / model.divided));
      kernels_[model.model] = std::move(kernels);
    }
    return {};
  }

  Duration length() const { return Duration::seconds(options_.quick ? 3 : 21); }

  Result<sim::Model> model_of(const DisbMix& mix, std::string_view policy, Sharing sharing, bool is_alone) const {
    sim::Model model;
    model.config.policy.dispatch = policy;
    model.length = length();
    sim::DeviceModel device;
    device.name = "gpu";
    device.context = Duration::millis(1);
    device.launch = Duration::micros(5);
    device.gate = Duration::micros(6);
    device.sharing = sharing;
    model.devices = {device};
    QUERN_TRY(const std::vector<Duration> first, disb_first_sends(mix, 1));
    for (size_t i = 0; i < mix.clients.size(); ++i) {
      const DisbClient& client = mix.clients[i];
      if (is_alone && !client.is_urgent) continue;
      QUERN_TRY(const DisbModel known, disb_model(client.model));
      const auto index = static_cast<uint32_t>(model.functions.size());
      sim::TenantModel tenant;
      tenant.name = client.id;
      tenant.domain = sharing == Sharing::kSlices ? 0 : 1;
      model.tenants.push_back(tenant);
      sim::FunctionModel function;
      function.name = client.id;
      function.tenant = index;
      function.device_time = {static_cast<int64_t>(known.alone_ms * 1e6)};
      function.priority = client.is_urgent ? 0 : 9;
      const auto kernels = kernels_.find(known.name);
      function.kernels =
          kernels != kernels_.end() ? kernels->second : std::vector<Duration>(known.kernels, Duration::micros(1));
      model.functions.push_back(function);
      model.loads.push_back(load_of(client, index, first[i]));
    }
    return model;
  }

  sim::LoadModel load_of(const DisbClient& client, uint32_t function, Duration first) const {
    sim::LoadModel load;
    load.function = function;
    load.per_second = client.per_second;
    if (client.load == DisbClient::Load::kPoisson) load.kind = sim::LoadModel::Kind::kPoisson;
    if (client.load != DisbClient::Load::kPeriodic) return load;
    load.kind = sim::LoadModel::Kind::kTrace;
    const Duration period{static_cast<int64_t>(1e9 / client.per_second)};
    for (Time at{first.ns}; at.ns < length().ns; at = at + period) load.times.push_back(at);
    return load;
  }

  Result<Figures> simulate(const DisbMix& mix, std::string_view policy, Sharing sharing, bool is_alone) const {
    options_.progress(fmt::format("disb-sim: mix {}, {}", mix.name, is_alone ? "alone" : policy));
    QUERN_TRY(const sim::Model model, model_of(mix, policy, sharing, is_alone));
    sim::World world(model, 1);
    Latencies latencies;
    world.observe(latencies);
    world.run();
    Figures figures;
    for (const auto& [function, ms] : latencies.ms()) {
      figures.per_second += static_cast<double>(ms.size()) / (static_cast<double>((length() - kSettled).ns) / 1e9);
      if (model.functions[function].priority == 0) figures.ms[model.functions[function].name] = ms;
    }
    return figures;
  }

  Status compare(const std::string& prefix, const DisbMix& mix, Sharing sharing, double published) {
    const std::string all = prefix + mix.name + "_";
    if (!options_.wants(all) && !std::string_view(options_.row).starts_with(all)) return {};
    QUERN_TRY(const Figures alone, simulate(mix, kPolicies[0], sharing, true));
    // Of each call, against what its client's take alone in the mean.
    const auto slow = [&](const Figures& figures) {
      std::vector<double> all;
      for (const auto& [client, ms] : figures.ms)
        for (const double one : ms) all.push_back(one / mean_of(alone.ms.at(client)));
      return all;
    };
    const double alone_p95 = percentile_of(slow(alone), 0.95);
    double none = std::nan("");
    for (const std::string_view policy : kPolicies) {
      QUERN_TRY(const Figures figures, simulate(mix, policy, sharing, false));
      const std::vector<double> ratios = slow(figures);
      if (policy == kPolicies[0]) none = figures.per_second;
      const std::string name = fmt::format("{}{}_{}", prefix, mix.name, policy);
      const auto add = [&](Row row) {
        if (options_.wants(row.name)) report_.rows.push_back(std::move(row));
      };
      // What was published has no priorities: only what has none is held against it.
      add(row_of(name + "_mean", mean_of(ratios), "x alone", policy == kPolicies[0] ? published : std::nan("")));
      add(row_of(name + "_p95", percentile_of(ratios, 0.95), "x alone", alone_p95));
      add(row_of(name + "_throughput", figures.per_second, "calls/s", none));
    }
    return {};
  }

  const Options& options_;
  Report& report_;
  std::map<std::string_view, std::vector<Duration>> kernels_;  ///< by model
};

}  // namespace

Status run_disb_sim(const Options& options, Report& report) {
  report.layout =
      "simulated: one GPU, all clients in one executor and one queue of kernels; slices_: in one each, time slices of "
      "2 ms";
  report.notes.push_back(
      "mean, p95: of the urgent calls, each against the mean of its client's alone; the p95 is held against that of "
      "the "
      "calls alone, the mean of `none` against what was published of TensorRT on an RTX 3080. throughput: of all "
      "clients, "
      "against none's");
  return DisbSim(options, report).run();
}

}  // namespace quern::bench
