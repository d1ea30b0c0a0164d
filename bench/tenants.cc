// SPDX-License-Identifier: Apache-2.0
//
// Many tenants on the devices of this machine, each with four graphs of its own: ResNet-50, BERT, Jacobi and complex
// GEMM as on the V100 of KaaS, all made smaller by the same factor. What stays is what decides here: the time of a load
// against that of a run, how long a kernel is, and what a run needs beside its weights.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/graphs.h"
#include "bench/row.h"
#include "bench/site.h"
#include "bench/stage.h"
#include "os/log.h"

namespace quern::bench {
namespace {

/// On a V100: how KaaS has it, and what a worker of its own holds beside weights and context.
struct Graph {
  const char* name;
  double run_s, weight_bytes, scratch_bytes;
  double launches;
};
constexpr size_t kGraphs = 4;
std::array<Graph, kGraphs> make_graphs() {
  const auto kernels = [](const quern::Graph& graph) { return static_cast<double>(graph.kernels.size()); };
  return {{{"resnet50", 8.2e-3, 100e6, 49e6, kernels(resnet50())},
           {"bert", 99e-3, 1.3e9, 21e6, kernels(bert_base(384))},
           {"jacobi", 77e-3, 1e6, 6e6, 3000},
           {"cgemm", 39.6e-3, 2.2e9, 8e6, 4}}};
}
constexpr double kV100Bytes = 11e9;  // per second, from host to device
constexpr double kV100Context = 300e6;
constexpr std::array<size_t, 6> kTenants{1, 2, 4, 8, 16, 32};
constexpr size_t kMostTenants = 32, kFewestCallers = 8;
constexpr size_t kMostWarmUps = 8;
constexpr double kLargestScale = 1.0 / 8;

struct Amounts {
  uint64_t most_bytes;  ///< of all weights together
  size_t rounds, baseline_rounds, over_rounds;
  Duration settle, length, slow_length;

  static Amounts of(const Options& options) {
    if (options.quick)
      return {256 * kMiB, 1, 1, 1, Duration::millis(100), Duration::millis(200), Duration::millis(400)};
    return {2 * kGiB, 7, 2, 3, Duration::millis(150), Duration::millis(400), Duration::seconds(1)};
  }
};

struct Scaled {
  uint64_t weight_bytes = 0;
  double run_us = 0;
  LayersCall call;
};

class ManyTenants {
 public:
  ManyTenants(const Options& options, Report& report)
      : options_(options), report_(report), amounts_(Amounts::of(options)) {}

  Status run() {
    QUERN_TRY(prepare());
    if (options_.wants("flat") || options_.wants("quern") || options_.wants("kaas") || options_.wants("exclusive"))
      QUERN_TRY(by_tenants());
    if (options_.wants("over")) QUERN_TRY(oversubscribed());
    if (options_.wants("apart")) QUERN_TRY(apart());
    if (options_.wants("in_place")) QUERN_TRY(in_place());
    report_.rows.push_back(row_of("out_of_memory", static_cast<double>(out_of_memory_), "answers", "== 0"));
    return {};
  }

 private:
  struct Variant {
    std::string policy = "quern", eviction = {};  ///< of the policy, unless one is given
    double oversubscribed = 0;  ///< weights of all tenants against all devices; 0: each has room for all
    bool one_domain = true, in_place = false;
  };

  Status prepare() {
    QUERN_TRY(rates_folder_, folder("rates"));
    QUERN_TRY(state_folder_, folder("state"));
    options_.progress("tenants: how fast is this machine");
    daemon::Config like;
    like.devices = device_per_core(4 * kGiB, 0, false);
    devices_ = like.devices.size();
    QUERN_TRY(rates_, measure_rates(like, rates_folder_));
    double loads = 0;
    for (const Graph& graph : graphs_) loads += graph.weight_bytes / kV100Bytes;
    scale_ =
        std::min(kLargestScale, static_cast<double>(amounts_.most_bytes) / (kMostTenants * loads * rates_.load_bytes));
    // Bytes shrink once more by how much slower a load is here.
    const double bytes_scale = scale_ * rates_.load_bytes / kV100Bytes;
    context_bytes_ = round_up(static_cast<uint64_t>(kV100Context * bytes_scale), 4096);
    uint64_t largest = 0;
    for (size_t i = 0; i < kGraphs; ++i) {
      const Graph& graph = graphs_[i];
      Scaled& one = scaled_[i];
      const auto words = [&](double bytes) {
        return std::max<int64_t>(64, static_cast<int64_t>(bytes * bytes_scale / 4));
      };
      one.weight_bytes = static_cast<uint64_t>(words(graph.weight_bytes)) * 4;
      one.run_us = graph.run_s * scale_ * 1e6;
      one.call.scratch_words = words(graph.scratch_bytes);
      one.call.launches = std::max<int64_t>(1, static_cast<int64_t>(graph.launches * scale_));
      one.call.iterations = rates_.iterations_for(one.run_us, one.call.launches);
      tenant_bytes_ += round_up(one.weight_bytes, 4096);
      largest = std::max(largest, static_cast<uint64_t>(one.call.scratch_words) * 4);
    }
    lane_bytes_ = largest + kMiB;  // and the tensors of a call
    QUERN_TRY(deploy());
    return tune();
  }

  Result<std::string> folder(const std::string& name) {
    if (!folder_) {
      QUERN_TRY(Folder made, Folder::create());
      folder_ = std::make_unique<Folder>(std::move(made));
    }
    return folder_->path() + "/" + name;
  }

  daemon::Config config_of(const Variant& variant) const {
    daemon::Config config;
    const uint64_t all = kMostTenants * tenant_bytes_;
    uint64_t memory = all;
    if (variant.oversubscribed > 0)
      memory = static_cast<uint64_t>(static_cast<double>(all) / variant.oversubscribed / static_cast<double>(devices_));
    const uint64_t contexts = config.pool + (variant.one_domain ? 1 : kMostTenants);
    memory += contexts * context_bytes_ + 2 * lane_bytes_;
    config.devices = device_per_core(memory, context_bytes_, variant.in_place);
    config.tenants = tenants_of(kMostTenants, variant.one_domain);
    config.state_folder = state_folder_;
    config.policy = policy_of(variant.policy);
    if (!variant.eviction.empty()) config.policy.eviction = variant.eviction;
    config.host_bytes = 2 * all;
    return config;
  }

  Status deploy() {
    QUERN_TRY(auto site, Site::create(config_of({})));
    for (size_t tenant = 0; tenant < kMostTenants; ++tenant) {
      options_.progress(fmt::format("tenants: deploy, tenant {} of {}", tenant, kMostTenants));
      for (size_t i = 0; i < kGraphs; ++i)
        QUERN_TRY(site->deploy(
            tenant,
            {.name = graphs_[i].name, .head_bytes = scaled_[i].weight_bytes, .head_content = tenant * kGraphs + i}));
    }
    return {};
  }

  Result<Site::Work> work_of(const Site& site, size_t tenant, size_t graph) const {
    Site::Work work{tenant, nullptr, scaled_[graph].call.spec()};
    QUERN_TRY(work.function, site.find(tenant, graphs_[graph].name));
    return work;
  }

  // Reading the weights takes a part of a run too, which no probe knows: what is too much is taken off the kernels.
  Status tune() {
    QUERN_TRY(auto site, Site::create(config_of({})));
    for (size_t i = 0; i < kGraphs; ++i) {
      Scaled& one = scaled_[i];
      double run_us = 0;
      // First calls of some tenants; the first of all starts an executor too, and is not the one in the middle.
      std::vector<double> loads;
      for (size_t tenant = 1; tenant <= 7; ++tenant) {
        QUERN_TRY(const Site::Work work, work_of(*site, tenant, i));
        QUERN_TRY(const auto ended, site->call(work));
        for (const daemon::Phase& phase : ended.call->setup)
          if (phase.name == "load") loads.push_back(micros_between(phase.from, phase.to));
      }
      const double load_us = middle_of(loads).median;
      for (int round = 0; round < 3; ++round) {
        QUERN_TRY(const Site::Work work, work_of(*site, 0, i));
        std::vector<double> runs;
        for (int call = 0; call < 7; ++call) {
          QUERN_TRY(const auto ended, site->call(work));
          if (call > 1) runs.push_back(micros_between(ended.call->times.started, ended.call->times.finished));
        }
        run_us = middle_of(runs).median;
        if (round == 2) break;
        const double each_ns = (one.run_us - run_us) * 1e3 / static_cast<double>(one.call.launches + 1);
        one.call.iterations =
            std::max<int64_t>(1, one.call.iterations + static_cast<int64_t>(each_ns / rates_.iteration_ns));
      }
      const Graph& graph = graphs_[i];
      report_.notes.push_back(
          fmt::format("{}: {} of weights, {} of scratch, {} kernels; load {:.2f} ms, run {:.2f} ms: load / run is "
                      "{:.3f}, on the V100 "
                      "{:.3f}",
                      graph.name, show_bytes(one.weight_bytes),
                      show_bytes(static_cast<uint64_t>(one.call.scratch_words) * 4), one.call.launches + 1,
                      load_us / 1e3, run_us / 1e3, load_us / run_us, graph.weight_bytes / kV100Bytes / graph.run_s));
    }
    report_.notes.push_back(fmt::format(
        "scale: times are {:.4f} of the V100's, bytes {:.5f} (a load goes at {:.2f} GB/s here, {:.0f} there); a "
        "context is taken for {}",
        scale_, scale_ * rates_.load_bytes / kV100Bytes, rates_.load_bytes / 1e9, kV100Bytes / 1e9,
        show_bytes(context_bytes_)));
    return {};
  }

  /// Who calls: each its tenant's four graphs in turn.
  Result<std::vector<std::vector<Site::Work>>> callers_of(const Site& site, size_t tenants) const {
    std::vector<std::vector<Site::Work>> callers(std::max(tenants, kFewestCallers));
    for (size_t i = 0; i < callers.size(); ++i)
      for (size_t graph = 0; graph < kGraphs; ++graph) {
        QUERN_TRY(auto work, work_of(site, i % tenants, graph));
        callers[i].push_back(std::move(work));
      }
    return callers;
  }

  Result<Served> measure(Site& site, size_t tenants, Duration length, bool has_room) {
    QUERN_TRY(const auto callers, callers_of(site, tenants));
    // What left while others called comes back first, where there is room for it.
    for (size_t i = 0; i < (has_room ? kMostWarmUps : 1); ++i) {
      const uint64_t before = site.counters().loads;
      QUERN_TRY(const Served settled, call_in_turn(site, callers, amounts_.settle));
      out_of_memory_ += settled.out_of_memory;
      if (site.counters().loads == before) break;
    }
    QUERN_TRY(Served served, call_in_turn(site, callers, length));
    out_of_memory_ += served.out_of_memory;
    return served;
  }

  // Everything once, and then until nothing comes any more where there is room for all: each device wants its own.
  Status warm_up(Site& site, bool has_room) {
    for (size_t tenant = 0; tenant < kMostTenants; ++tenant)
      for (size_t graph = 0; graph < kGraphs; ++graph) {
        QUERN_TRY(const Site::Work work, work_of(site, tenant, graph));
        QUERN_TRY(site.call(work));
      }
    QUERN_TRY(const auto callers, callers_of(site, kMostTenants));
    for (size_t i = 0; i < (has_room ? kMostWarmUps : 2); ++i) {
      const uint64_t before = site.counters().loads;
      QUERN_TRY(const Served served, call_in_turn(site, callers, amounts_.slow_length));
      out_of_memory_ += served.out_of_memory;
      if (site.counters().loads == before) break;
    }
    return {};
  }

  struct Figures {
    std::vector<double> rates, p50, p95;
    void add(const Served& served) {
      rates.push_back(served.per_second());
      p50.push_back(served.percentile_ms(0.5));
      p95.push_back(served.percentile_ms(0.95));
    }
    double rate() const { return middle_of(rates).median; }
  };

  Status by_tenants() {
    std::map<std::string, std::map<size_t, Figures>> all;
    for (const char* policy : {"quern", "kaas", "exclusive"}) {
      const bool is_exclusive = policy == std::string_view("exclusive");
      Variant variant;
      variant.policy = policy;
      variant.one_domain = !is_exclusive;
      options_.progress(fmt::format("tenants: {}, warm up", policy));
      daemon::Config config = config_of(variant);
      if (is_exclusive) config.pool = 0;  // a worker that is started for its tenant
      QUERN_TRY(auto site, Site::create(std::move(config)));
      if (!is_exclusive) QUERN_TRY(warm_up(*site, variant.oversubscribed == 0));
      const size_t rounds = policy == std::string_view("quern") ? amounts_.rounds : amounts_.baseline_rounds;
      for (size_t round = 0; round < rounds; ++round)
        for (const size_t tenants : kTenants) {
          options_.progress(fmt::format("tenants: {}, round {} of {}, {} tenants", policy, round, rounds, tenants));
          QUERN_TRY(const Served served,
                    measure(*site, tenants, is_exclusive ? amounts_.slow_length : amounts_.length, !is_exclusive));
          all[policy][tenants].add(served);
        }
    }
    report_.notes.push_back("in_place: false; calls per second, p50 and p95 in ms, by tenants");
    add_table(all, report_);
    for (const auto& [policy, by_count] : all)
      for (const auto& [tenants, figures] : by_count) {
        const double against = policy == "exclusive" ? std::nan("") : all["exclusive"][tenants].rate();
        report_.rows.push_back(row_of(fmt::format("{}_{}", policy, tenants), figures.rate(), "calls/s", against));
      }
    // Of each round by itself: both sides are of the same minute.
    const Figures &many = all["quern"][32], &few = all["quern"][2];
    report_.rows.push_back(ratio_row("flat", many.rates, few.rates, ">= 0.9", false));
    fits_ = many;
    return {};
  }

  static Row ratio_row(std::string name, const std::vector<double>& ours, const std::vector<double>& theirs,
                       std::string goal, bool is_loss) {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
      ratios.push_back(is_loss ? theirs[i] / std::max(ours[i], 1e-9) : ours[i] / theirs[i]);
    Row row = row_of(std::move(name), middle_of(ours).median, "calls/s", std::move(goal));
    row.baseline = middle_of(theirs).median;
    row.ratio = middle_of(ratios).median;
    row.spread = middle_of(ratios).spread;
    return row;
  }

  static void add_table(const std::map<std::string, std::map<size_t, Figures>>& all, Report& report) {
    std::string head = "| policy |", rule = "|---|";
    for (const size_t tenants : kTenants) {
      head += fmt::format(" {} |", tenants);
      rule += "---|";
    }
    report.notes.insert(report.notes.end(), {head, rule});
    for (const auto& [policy, by_count] : all) {
      std::string line = fmt::format("| {} |", policy);
      for (const auto& [tenants, figures] : by_count)
        line += fmt::format(" {:.1f} ({:.1f}, {:.1f}) |", figures.rate(), middle_of(figures.p50).median,
                            middle_of(figures.p95).median);
      report.notes.push_back(std::move(line));
    }
  }

  Result<Served> one(const Variant& variant, Figures& figures) {
    QUERN_TRY(auto site, Site::create(config_of(variant)));
    QUERN_TRY(warm_up(*site, variant.oversubscribed == 0));
    const daemon::Counters before = site->counters();
    QUERN_TRY(Served served, measure(*site, kMostTenants, amounts_.slow_length, variant.oversubscribed == 0));
    figures.add(served);
    const daemon::Counters after = site->counters();
    const uint64_t hits = after.object_hits - before.object_hits, misses = after.object_misses - before.object_misses;
    report_.notes.push_back(fmt::format(
        "{}{}, {}: {:.1f} calls/s, p50 {:.1f} ms, p95 {:.1f} ms, {:.0f} % of weights found, {} loaded, {} fetched",
        variant.in_place ? "in place, " : "",
        variant.oversubscribed > 0 ? fmt::format("weights {} x memory", variant.oversubscribed) : "room for all",
        variant.eviction.empty() ? "cost" : variant.eviction, served.per_second(), served.percentile_ms(0.5),
        served.percentile_ms(0.95),
        100.0 * static_cast<double>(hits) / static_cast<double>(std::max<uint64_t>(1, hits + misses)),
        show_bytes(after.loaded_bytes - before.loaded_bytes), show_bytes(after.fetched_bytes - before.fetched_bytes)));
    return served;
  }

  Status oversubscribed() {
    constexpr std::array kOver{1.0, 1.3, 3.0};
    std::map<double, Figures> cost;
    Figures fits;
    for (size_t round = 0; round < amounts_.over_rounds; ++round) {
      options_.progress(
          fmt::format("tenants: oversubscribed, round {} of {}, room for all", round, amounts_.over_rounds));
      QUERN_TRY(one({}, fits));
      for (const double over : kOver) {
        options_.progress(
            fmt::format("tenants: oversubscribed, round {} of {}, {} x", round, amounts_.over_rounds, over));
        Variant variant;
        variant.oversubscribed = over;
        QUERN_TRY(one(variant, cost[over]));
      }
    }
    const std::map<double, std::string> goals{{1.0, ""}, {1.3, "<= 2"}, {3.0, "<= 4"}};
    for (const auto& [over, goal] : goals)
      report_.rows.push_back(ratio_row(fmt::format("over_{}", over), cost[over].rates, fits.rates, goal, true));
    for (const char* eviction : {"lru", "two-lists"})
      for (const double over : {1.3, 3.0}) {
        options_.progress(fmt::format("tenants: oversubscribed, {}, {} x", eviction, over));
        Variant variant;
        variant.eviction = eviction;
        variant.oversubscribed = over;
        Figures figures;
        QUERN_TRY(one(variant, figures));
        report_.rows.push_back(
            ratio_row(fmt::format("over_{}_{}", over, eviction), figures.rates, fits.rates, "", true));
      }
    return {};
  }

  // Tenants that do not trust each other: an executor each on every device.
  Status apart() {
    options_.progress("tenants: a domain each");
    Variant variant;
    variant.one_domain = false;
    Figures figures;
    QUERN_TRY(one(variant, figures));
    report_.rows.push_back(
        row_of("apart_32", figures.rate(), "calls/s", fits_.rates.empty() ? std::nan("") : fits_.rate()));
    return {};
  }

  Status in_place() {
    Variant variant;
    variant.in_place = true;
    std::map<std::string, std::map<size_t, Figures>> all;
    {
      options_.progress("tenants: in place, warm up");
      QUERN_TRY(auto site, Site::create(config_of(variant)));
      QUERN_TRY(warm_up(*site, variant.oversubscribed == 0));
      for (size_t round = 0; round < amounts_.baseline_rounds; ++round)
        for (const size_t tenants : kTenants) {
          options_.progress(fmt::format("tenants: in place, round {}, {} tenants", round, tenants));
          QUERN_TRY(const Served served, measure(*site, tenants, amounts_.length, true));
          all["quern"][tenants].add(served);
        }
    }
    report_.notes.push_back("in place: the same");
    add_table(all, report_);
    report_.rows.push_back(ratio_row("in_place_flat", all["quern"][32].rates, all["quern"][2].rates, "", false));
    Figures fits, over;
    QUERN_TRY(one(variant, fits));
    variant.oversubscribed = 1.3;
    QUERN_TRY(one(variant, over));
    report_.rows.push_back(ratio_row("in_place_over_1.3", over.rates, fits.rates, "", true));
    return {};
  }

  const Options& options_;
  Report& report_;
  const Amounts amounts_;
  const std::array<Graph, kGraphs> graphs_ = make_graphs();
  std::unique_ptr<Folder> folder_;
  std::string rates_folder_, state_folder_;
  Rates rates_;
  double scale_ = 0;
  size_t devices_ = 0;
  uint64_t context_bytes_ = 0, tenant_bytes_ = 0, lane_bytes_ = 0;
  std::array<Scaled, kGraphs> scaled_;
  Figures fits_;
  uint64_t out_of_memory_ = 0;
};

}  // namespace

Status run_tenants(const Options& options, Report& report) {
  report.layout = second_layout_text(false) + "; in place as a second table";
  os::start_log(os::Level::kWarning);
  return ManyTenants(options, report).run();
}

}  // namespace quern::bench
