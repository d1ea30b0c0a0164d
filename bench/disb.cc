// SPDX-License-Identifier: Apache-2.0
//
// The mixes of DISB, live, under each policy of dispatch: clients in a hurry (priority 0) beside others in none
// (priority 9), each calling a graph that takes as long as its model does, in kernels as many as that has. DISB's own
// figures are the latency of those in a hurry against alone, and the calls of all together.
//
// DISB has one server for all, on one GPU: here too all clients are in one domain, and so in one executor, whose worker
// finishes a kernel before it takes the next; with --full each is also in a domain of its own. All times are kScale
// times as long, so that what a launch takes here is a small part of a kernel. In every round the clients in a hurry
// are also alone. The files of the mixes are public data and not part of the project: QUERN_DATA, or shared/data beside
// it, has them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "bench/bench.h"
#include "bench/data.h"
#include "bench/disb_mix.h"
#include "bench/grind.h"
#include "bench/launcher.h"
#include "bench/pairs.h"
#include "bench/row.h"
#include "bench/site.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "os/thread.h"

namespace quern::bench {
namespace {

constexpr double kScale = 2;
constexpr double kGroupNs = 5000;
constexpr uint8_t kMostUrgent = 0, kLeastUrgent = 9;
constexpr std::array<std::string_view, 5> kMixes{"A", "B", "C", "D", "E"};
// What is held against the others comes first.
constexpr std::array<std::string_view, 4> kPolicies{"none", "strict", "fikit", "fill"};
constexpr std::array<std::string_view, 3> kFigures{"mean", "p95", "throughput"};

struct Amounts {
  size_t rounds;
  Duration lead, length;  ///< what is sent in the lead is not counted; the length is with it

  static Amounts of(const Options& options) {
    if (options.quick) return {1, Duration::millis(200), Duration::millis(900)};
    return {4, Duration::millis(300), Duration::millis(2300)};
  }
  double seconds() const { return static_cast<double>((length - lead).ns) / 1e9; }
};

/// How a model is called here.
struct ModelCall {
  CallSpec spec;
  double cost_ms = 0;  ///< on the device, alone
};

/// A client at work.
struct Caller {
  const DisbClient* client = nullptr;
  Site::Work work;
  Duration first;
  uint64_t seed = 0;
  struct Sent {
    Duration at, ended;  ///< since the beginning
    double ms = 0;
  };
  std::vector<Sent> calls;
  uint64_t given_up = 0;
  Status status;
};

/// What became of a mix under a policy.
struct Figures {
  std::vector<double> ms, slow;       ///< of each urgent call, also against what its client's take alone in that round
  std::vector<double> rates, shares;  ///< of each round: calls a second of all, and the part of the device they are
  uint64_t given_up = 0;
};

double mean_of(const std::vector<double>& samples) {
  if (samples.empty()) return std::nan("");
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

class Disb {
 public:
  Disb(const Options& options, Report& report, Layout layout, std::string folder)
      : options_(options),
        report_(report),
        amounts_(Amounts::of(options)),
        layout_(std::move(layout)),
        folder_(std::move(folder)) {}

  Status run() {
    QUERN_TRY(read_mixes());
    QUERN_TRY(run_all("", true));
    if (options_.full || options_.row.starts_with("apart_")) QUERN_TRY(run_all("apart_", false));
    return report_.rows.empty() ? Status(not_found(fmt::format("row {}: there is none", options_.row))) : Status();
  }

 private:
  Status read_mixes() {
    for (const std::string_view name : kMixes) {
      QUERN_TRY(const std::string path, find_data(fmt::format("workloads/disb_{}.json", name)));
      QUERN_TRY(const Bytes bytes, os::read_file(path, 1 << 20));
      QUERN_TRY(DisbMix mix, parse_disb(std::string(name), as_text(bytes)));
      for (const DisbClient& client : mix.clients)
        if (std::find(ids_.begin(), ids_.end(), client.id) == ids_.end()) ids_.push_back(client.id);
      mixes_.push_back(std::move(mix));
    }
    return {};
  }

  static std::string row_name(const std::string& prefix, const DisbMix& mix, std::string_view policy) {
    return fmt::format("{}{}_{}", prefix, mix.name, policy);
  }

  std::vector<std::string_view> policies_of(const std::string& prefix, const DisbMix& mix) const {
    std::vector<std::string_view> wanted;
    for (const std::string_view policy : kPolicies)
      if (std::any_of(kFigures.begin(), kFigures.end(), [&](std::string_view figure) {
            return options_.wants(fmt::format("{}_{}", row_name(prefix, mix, policy), figure));
          }))
        wanted.push_back(policy);
    return wanted;
  }

  Status run_all(const std::string& prefix, bool one_domain) {
    std::set<std::string_view> policies;
    for (const DisbMix& mix : mixes_)
      for (const std::string_view policy : policies_of(prefix, mix)) policies.insert(policy);
    if (policies.empty()) return {};
    sites_.clear();
    for (const std::string_view policy : kPolicies)
      if (policies.contains(policy)) QUERN_TRY(open(prefix, policy, one_domain));
    if (models_.empty()) QUERN_TRY(calibrate());
    for (const auto& [policy, site] : sites_) QUERN_TRY(warm_up(*site));
    for (const DisbMix& mix : mixes_) QUERN_TRY(compare(prefix, mix));
    return {};
  }

  // A daemon for each policy; only one of them has work at a time.
  Status open(const std::string& prefix, std::string_view policy, bool one_domain) {
    options_.progress(fmt::format("disb: daemon of {}{}: start, deploy", prefix, policy));
    daemon::Config config;
    config.devices = {layout_.device_config()};
    config.tenants = tenants_of(ids_.size(), one_domain);
    config.state_folder = fmt::format("{}/state-{}{}", folder_, prefix, policy);
    config.binary_cache = folder_ + "/binaries";
    config.host_cores = {layout_.host};
    config.pool = 0;  // what nobody called for would only be in the way
    config.policy.dispatch = policy;
    config.classes = false;  // gates are what is compared
    QUERN_TRY(os::make_folders(config.binary_cache));
    QUERN_TRY(auto site, Site::create(std::move(config)));
    for (size_t i = 0; i < ids_.size(); ++i) {
      Grind grind;
      grind.name = ids_[i];
      grind.manifest = "chain.yaml";
      grind.priority = ids_[i].ends_with("_rt") ? kMostUrgent : kLeastUrgent;
      QUERN_TRY(Bytes tar, grind.tar());
      QUERN_TRY(site->deploy(i, grind.name, std::move(tar)));
    }
    sites_[policy] = std::move(site);
    return {};
  }

  Result<Site::Work> work_of(const Site& site, const std::string& id, CallSpec spec) const {
    const auto place = std::find(ids_.begin(), ids_.end(), id) - ids_.begin();
    Site::Work work;
    work.tenant = static_cast<size_t>(place);
    QUERN_TRY(work.function, site.find(work.tenant, id));
    work.spec = std::move(spec);
    return work;
  }

  /// What a run takes on the device, alone.
  Result<double> run_ns(CallSpec spec) {
    constexpr int kWarmUps = 2, kCalls = 9;
    Site& site = *sites_.begin()->second;
    QUERN_TRY(const Site::Work work, work_of(site, ids_[0], std::move(spec)));
    std::vector<double> taken;
    for (int i = 0; i < kWarmUps + kCalls; ++i) {
      QUERN_TRY(const auto ended, site.call(work));
      const daemon::CallTimes& times = ended.call->times;
      if (i >= kWarmUps)
        taken.push_back(static_cast<double>(std::max<int64_t>(1, (times.finished - times.started).ns)));
    }
    return middle_of(taken).median;
  }

  // First how long a group is; then, of each model, kernels of its mean length, and as many as take its time with what
  // launches cost here.
  Status calibrate() {
    options_.progress("disb: how fast is the device");
    constexpr uint32_t kGroups = 200;
    double iterations = 1000;
    for (int i = 0; i < 2; ++i) {
      QUERN_TRY(const double ns, run_ns(grind_call(kGroups, static_cast<uint32_t>(iterations), 1)));
      iterations = std::clamp(std::round(iterations * kGroupNs * kGroups / ns), 1.0, 1e9);
    }
    for (const DisbMix& mix : mixes_)
      for (const DisbClient& client : mix.clients) {
        if (models_.contains(client.model)) continue;
        QUERN_TRY(const DisbModel model, disb_model(client.model));
        const double target_ns = model.alone_ms * kScale * 1e6;
        const auto groups = static_cast<uint32_t>(std::max(1.0, std::round(target_ns / model.kernels / kGroupNs)));
        const auto call = [&](double steps) {
          return grind_call(groups, static_cast<uint32_t>(iterations), static_cast<uint32_t>(steps));
        };
        QUERN_TRY(const double first_ns, run_ns(call(model.kernels)));
        const double steps = std::clamp(std::round(model.kernels * target_ns / first_ns), 1.0, 60000.0);
        QUERN_TRY(const double cost_ns, run_ns(call(steps)));
        models_[client.model] = {call(steps), cost_ns / 1e6};
        report_.notes.push_back(
            fmt::format("{}: {:.2f} ms alone, {:.0f} kernels of {} groups; DISB's {:.2f} ms times {:g} and {} kernels",
                        client.model, cost_ns / 1e6, steps, groups, model.alone_ms, kScale, model.kernels));
      }
    return {};
  }

  // Plans are made and kernels loaded by the first call of each client.
  Status warm_up(Site& site) {
    for (const DisbMix& mix : mixes_)
      for (const DisbClient& client : mix.clients) {
        QUERN_TRY(const Site::Work work, work_of(site, client.id, models_.at(client.model).spec));
        QUERN_TRY(site.call(work));
      }
    return {};
  }

  static void call_again_and_again(Site& site, Caller& caller, Time from, Duration length) {
    DisbClock clock(*caller.client, caller.first, kScale, caller.seed);
    for (;;) {
      const Duration at = clock.next(os::now() - from);
      if (at >= length) break;
      sleep_until(from + at);
      const Duration sent = os::now() - from;
      const auto ended = site.call(caller.work);
      if (!ended.ok()) {
        caller.status = ended.error();
        break;
      }
      caller.calls.push_back({sent, os::now() - from, ended->micros / 1e3});
    }
    caller.given_up = clock.given_up();
  }

  /// All clients of a mix at once, or only those in a hurry. Those of one round send at the same times.
  Result<std::vector<Caller>> block(Site& site, const DisbMix& mix, bool is_alone, size_t round) {
    QUERN_TRY(const std::vector<Duration> first, disb_first_sends(mix, kScale));
    std::vector<Caller> callers;
    for (size_t i = 0; i < mix.clients.size(); ++i) {
      const DisbClient& client = mix.clients[i];
      if (is_alone && !client.is_urgent) continue;
      Caller& caller = callers.emplace_back();
      caller.client = &client;
      QUERN_TRY(caller.work, work_of(site, client.id, models_.at(client.model).spec));
      caller.first = first[i];
      caller.seed = round * kMostDisbClients + i;
    }
    constexpr Duration kUntilAllAreThere = Duration::millis(5);
    const Time from = os::now() + kUntilAllAreThere;
    {
      std::vector<os::Thread> threads;
      for (Caller& caller : callers)
        threads.emplace_back("bench-client", [&site, &caller, from, length = amounts_.length] {
          os::want_exact_timers();
          sleep_until(from);
          call_again_and_again(site, caller, from, length);
        });
    }
    for (Caller& caller : callers) QUERN_TRY(std::move(caller.status));
    return callers;
  }

  using Alone = std::map<std::string, double>;  ///< by id: the median of a client's calls, in ms

  Alone alone_of(const std::vector<Caller>& callers) const {
    Alone alone;
    for (const Caller& caller : callers) {
      std::vector<double> ms;
      for (const Caller::Sent& sent : caller.calls)
        if (sent.at >= amounts_.lead) ms.push_back(sent.ms);
      // Where chance sent it nothing, what it costs.
      alone[caller.client->id] = ms.empty() ? models_.at(caller.client->model).cost_ms : middle_of(ms).median;
    }
    return alone;
  }

  void add(const std::vector<Caller>& callers, const Alone& alone, Figures& to) const {
    double calls = 0, done_ms = 0;
    for (const Caller& caller : callers) {
      for (const Caller::Sent& sent : caller.calls) {
        if (sent.ended >= amounts_.lead && sent.ended < amounts_.length) {
          ++calls;
          done_ms += models_.at(caller.client->model).cost_ms;
        }
        if (!caller.client->is_urgent || sent.at < amounts_.lead) continue;
        to.ms.push_back(sent.ms);
        to.slow.push_back(sent.ms / alone.at(caller.client->id));
      }
      if (caller.client->is_urgent) to.given_up += caller.given_up;
    }
    to.rates.push_back(calls / amounts_.seconds());
    to.shares.push_back(done_ms / 1e3 / amounts_.seconds());
  }

  Status compare(const std::string& prefix, const DisbMix& mix) {
    const std::vector<std::string_view> policies = policies_of(prefix, mix);
    if (policies.empty()) return {};
    std::map<std::string_view, Figures> figures;
    Figures alone;
    for (size_t round = 0; round < amounts_.rounds; ++round) {
      options_.progress(fmt::format("disb: mix {}{}, round {} of {}", prefix, mix.name, round + 1, amounts_.rounds));
      QUERN_TRY(const auto by_themselves, block(*sites_.at(policies[0]), mix, true, round));
      const Alone medians = alone_of(by_themselves);
      add(by_themselves, medians, alone);
      for (size_t i = 0; i < policies.size(); ++i) {
        const std::string_view policy = policies[(i + round) % policies.size()];
        settle();
        QUERN_TRY(const auto callers, block(*sites_.at(policy), mix, false, round));
        add(callers, medians, figures[policy]);
      }
    }
    for (const std::string_view policy : policies)
      add_rows(row_name(prefix, mix, policy), figures[policy], alone,
               figures.contains(kPolicies[0]) ? &figures[kPolicies[0]] : nullptr);
    report_.notes.push_back(fmt::format("{}{}: alone {} urgent calls, mean {:.2f} ms, {:.0f} % of the device", prefix,
                                        mix.name, alone.ms.size(), mean_of(alone.ms),
                                        100 * middle_of(alone.shares).median));
    return {};
  }

  void add_rows(const std::string& name, const Figures& figures, const Figures& alone, const Figures* none) {
    const auto wants = [&](const char* figure) { return options_.wants(fmt::format("{}_{}", name, figure)); };
    if (wants("mean")) {
      Row mean = row_of(name + "_mean", mean_of(figures.ms), "ms", mean_of(alone.ms));
      mean.ratio = mean_of(figures.slow) / mean_of(alone.slow);
      report_.rows.push_back(std::move(mean));
    }
    if (wants("p95")) {
      Row late = row_of(name + "_p95", percentile_of(figures.ms, 0.95), "ms", percentile_of(alone.ms, 0.95));
      late.ratio = percentile_of(figures.slow, 0.95) / percentile_of(alone.slow, 0.95);
      report_.rows.push_back(std::move(late));
    }
    if (wants("throughput"))
      report_.rows.push_back(none ? Samples{figures.rates, none->rates}.row(name + "_throughput", "calls/s", "")
                                  : row_of(name + "_throughput", middle_of(figures.rates).median, "calls/s"));
    report_.notes.push_back(fmt::format("{}: {} urgent calls, {} given up; all calls are {:.0f} % of the device", name,
                                        figures.ms.size(), figures.given_up, 100 * middle_of(figures.shares).median));
  }

  // Constant after construction.
  const Options& options_;
  Report& report_;
  const Amounts amounts_;
  const Layout layout_;
  const std::string folder_;
  // Constant once they are read, and once the device is known.
  std::vector<DisbMix> mixes_;
  std::vector<std::string> ids_;  ///< of all clients; a tenant each, by place
  std::map<std::string, ModelCall> models_;
  // Of the domains there are.
  std::map<std::string_view, std::unique_ptr<Site>> sites_;  ///< by policy
};

}  // namespace

Status run_disb(const Options& options, Report& report) {
  Layout layout = Layout::here();
  report.layout = layout.text + "; all clients in one domain, apart_: in one each";
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  os::want_exact_timers();
  os::start_log(os::Level::kWarning);
  QUERN_TRY(const auto folder, Folder::create());
  report.notes.push_back(fmt::format(
      "all times are {:g} times DISB's. mean, p95: of the urgent calls; their ratios are of each call against what its "
      "client's take alone. throughput: of all clients, against none's",
      kScale));
  report.notes.push_back(
      "published, TensorRT on an RTX 3080, which knows no priorities: the mean of urgent calls against alone is A "
      "1.07, "
      "B 1.11, C 2.02, D 7.46, E 7.22");
  return Disb(options, report, std::move(layout), folder.path()).run();
}

}  // namespace quern::bench
