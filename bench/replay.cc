// SPDX-License-Identifier: Apache-2.0
//
// An evening of a service that makes pictures, played back: who called which checkpoint model when, and how long it
// took, all made 600 times as fast. Live, and in the simulator over the same calls with what was measured here a moment
// before; for each eviction policy, and for each placement policy with the eviction that is ours. The trace is public
// data and not part of the project: QUERN_DATA, or shared/data beside it, has it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/data.h"
#include "bench/row.h"
#include "bench/site.h"
#include "bench/stage.h"
#include "os/file.h"
#include "os/log.h"
#include "sim/report.h"
#include "sim/trace.h"
#include "sim/world.h"

namespace quern::bench {
namespace {

constexpr std::array<std::string_view, 4> kHours{
    "2024-11-28 17:", "2024-11-28 18:", "2024-11-28 19:", "2024-11-28 20:"};
constexpr double kScale = 1.0 / 600;
constexpr uint64_t kObjectBytes = 8 * kMiB, kContextBytes = 4 * kMiB, kScratchBytes = kMiB;
constexpr uint64_t kObjectsOnDevice = 3, kObjectsOnHost = 16;
constexpr int64_t kLaunches = 9;

struct Figures {
  double hit_rate = 0, moved_mib = 0, p95_ms = 0;
  uint64_t late = 0;
};

/// What is tried. Where placement gives a device to one domain, tenants have one each.
struct Variant {
  const char* name;
  const char *eviction, *placement;
  bool in_place;
  bool has_domains() const { return placement == std::string_view("exclusive"); }
};
constexpr std::array<Variant, 6> kVariants{{{"cost", "cost", "sticky", false},
                                            {"lru", "lru", "sticky", false},
                                            {"two-lists", "two-lists", "sticky", false},
                                            {"fifo", "cost", "fifo", false},
                                            {"exclusive", "cost", "exclusive", false},
                                            {"in_place_cost", "cost", "sticky", true}}};

class Replay {
 public:
  Replay(const Options& options, Report& report, std::string folder)
      : options_(options), report_(report), folder_(std::move(folder)) {}

  Status run() {
    QUERN_TRY(read_calls());
    options_.progress("replay: how fast is this machine");
    daemon::Config like;
    like.devices = device_per_core(kGiB, 0, false);
    devices_ = static_cast<uint32_t>(like.devices.size());
    QUERN_TRY(rates_, measure_rates(like, folder_ + "/rates"));
    QUERN_TRY(deploy());
    for (const Variant& variant : kVariants) {
      if (!options_.wants(variant.name)) continue;
      options_.progress(fmt::format("replay: {}, live", variant.name));
      QUERN_TRY(const Figures live, play_live(variant));
      const Figures twin = simulate(variant);
      const auto add = [&](const char* what, double value, double baseline, const char* unit) {
        Row row = row_of(fmt::format("{}_{}", variant.name, what), value, unit);
        row.baseline = baseline;  // the simulated one
        if (baseline > 0) row.ratio = value / baseline;
        report_.rows.push_back(std::move(row));
      };
      add("hit_rate", live.hit_rate, twin.hit_rate, "%");
      add("moved", live.moved_mib, twin.moved_mib, "MiB");
      add("p95", live.p95_ms, twin.p95_ms, "ms");
      if (live.late > 0)
        report_.notes.push_back(fmt::format("{}: {} calls past their deadline", variant.name, live.late));
    }
    return {};
  }

 private:
  Status read_calls() {
    QUERN_TRY(const std::string path, find_data("traces/lora_request_trace.csv"));
    QUERN_TRY(const Bytes bytes, os::read_file(path, uint64_t{1} << 28));
    std::string text;
    std::string_view rest = as_text(bytes);
    for (bool is_heading = true; !rest.empty(); is_heading = false) {
      const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end);
      const auto hours = std::span(kHours).first(options_.quick ? 1 : kHours.size());
      const bool is_ours = std::any_of(hours.begin(), hours.end(), [&](auto hour) { return line.starts_with(hour); });
      if (is_heading || is_ours) text += line;
    }
    const sim::TraceOptions options{
        .time_scale = kScale, .object_bytes = kObjectBytes, .memory_bytes = kScratchBytes, .most_rows = 0};
    QUERN_TRY(const sim::TraceRead read, sim::add_trace(text, options, model_));
    for (sim::LoadModel& load : model_.loads)
      for (Duration& took : load.device_times) took.ns = static_cast<int64_t>(static_cast<double>(took.ns) * kScale);
    model_.length = read.last - Time{0} + Duration::seconds(1);
    double work_s = 0;
    for (const sim::LoadModel& load : model_.loads)
      for (const Duration took : load.device_times) work_s += static_cast<double>(took.ns) / 1e9;
    report_.notes.push_back(fmt::format(
        "{} calls of {} tenants and {} functions over {} models in {:.1f} s, {:.1f} s on devices; a model is {}, a "
        "device "
        "has room for {} of them, the host for {}",
        read.rows, model_.tenants.size(), model_.functions.size(), model_.objects.size(),
        static_cast<double>(read.last.ns) / 1e9, work_s, show_bytes(kObjectBytes), kObjectsOnDevice, kObjectsOnHost));
    return {};
  }

  uint64_t device_bytes(uint32_t pool) const {
    return kObjectsOnDevice * kObjectBytes + (pool + 1) * kContextBytes + 2 * (kScratchBytes + kMiB);
  }

  daemon::Config config_of(const Variant& variant) const {
    daemon::Config config;
    if (variant.has_domains()) config.pool = 0;  // a worker is started for its tenant
    config.devices = device_per_core(device_bytes(config.pool), kContextBytes, variant.in_place);
    config.tenants = tenants_of(model_.tenants.size(), !variant.has_domains());
    config.state_folder = folder_ + "/state";
    config.host_bytes = kObjectsOnHost * kObjectBytes;
    config.policy = policy_of("quern");
    config.policy.eviction = variant.eviction;
    config.policy.placement = variant.placement;
    return config;
  }

  static std::string name_of(const sim::FunctionModel& function) { return fmt::format("m{}", function.objects[0]); }

  Status deploy() {
    QUERN_TRY(auto site, Site::create(config_of(kVariants[0])));
    for (size_t i = 0; i < model_.functions.size(); ++i) {
      options_.progress(fmt::format("replay: deploy {} of {}", i, model_.functions.size()));
      const sim::FunctionModel& function = model_.functions[i];
      QUERN_TRY(site->deploy(
          function.tenant,
          {.name = name_of(function), .head_bytes = kObjectBytes, .head_content = uint64_t{function.objects[0]}}));
    }
    return {};
  }

  Result<Figures> play_live(const Variant& variant) {
    QUERN_TRY(auto site, Site::create(config_of(variant)));
    std::vector<Site::Work> works;
    std::vector<Arrival> arrivals;
    for (const sim::LoadModel& load : model_.loads) {
      const sim::FunctionModel& function = model_.functions[load.function];
      QUERN_TRY(const auto deployed, site->find(function.tenant, name_of(function)));
      for (size_t i = 0; i < load.times.size(); ++i) {
        LayersCall call;
        call.launches = kLaunches;
        call.scratch_words = static_cast<int64_t>(kScratchBytes / 4);
        call.iterations = rates_.iterations_for(static_cast<double>(load.device_times[i].ns) / 1e3, kLaunches);
        arrivals.push_back({load.times[i] - Time{0}, works.size()});
        works.push_back({function.tenant, deployed, call.spec()});
      }
    }
    std::stable_sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
    QUERN_TRY(const Served served, play(*site, works, arrivals));
    if (served.out_of_memory > 0)
      return internal(fmt::format("replay: {} calls were answered out of memory", served.out_of_memory));
    const daemon::Counters counters = site->counters();
    const double needed = static_cast<double>(counters.object_hits + counters.object_misses);
    return Figures{100 * static_cast<double>(counters.object_hits) / std::max(1.0, needed),
                   static_cast<double>(counters.loaded_bytes + counters.fetched_bytes) / static_cast<double>(kMiB),
                   served.percentile_ms(0.95), served.late};
  }

  Figures simulate(const Variant& variant) const {
    sim::Model model = model_;
    const daemon::Config config = config_of(variant);
    model.config.policy.eviction = variant.eviction;
    model.config.policy.placement = variant.placement;
    model.config.granularity_bytes = 4096;
    model.pool = config.pool;
    for (sim::TenantModel& tenant : model.tenants) tenant.domain = variant.has_domains() ? 0 : 1;
    const auto micros = [](double us) { return Duration{static_cast<int64_t>(us * 1e3)}; };
    sim::DeviceModel device;
    device.name = "cpu";
    device.count = devices_;
    device.memory_bytes = config.devices[0].memory_bytes;
    device.context_bytes = kContextBytes;
    device.copy_bytes_per_second = static_cast<uint64_t>(rates_.load_bytes);
    device.context = micros(rates_.start_us);
    device.launch = device.answer = micros(rates_.answer_us / 2);
    device.in_place = variant.in_place;
    model.devices = {device};
    model.host.memory_bytes = config.host_bytes;
    model.host.disk_bytes_per_second = static_cast<uint64_t>(rates_.fetch_bytes);
    sim::World world(model, 1);
    sim::Report report(model, {0});
    world.observe(report);
    const sim::Summary summary = report.summary(variant.name, world.run());
    return {100 * summary.hit_rate(),
            static_cast<double>(summary.loaded_bytes + summary.fetched_bytes) / static_cast<double>(kMiB),
            static_cast<double>(summary.all.latency.percentile(0.95).ns) / 1e6, 0};
  }

  const Options& options_;
  Report& report_;
  const std::string folder_;
  sim::Model model_;  ///< without a machine and a policy
  Rates rates_;
  uint32_t devices_ = 0;
};

}  // namespace

Status run_replay(const Options& options, Report& report) {
  report.layout = second_layout_text(false) + "; value: live, baseline: simulated; in_place_: in place";
  os::start_log(os::Level::kWarning);
  QUERN_TRY(const auto folder, Folder::create());
  return Replay(options, report, folder.path()).run();
}

}  // namespace quern::bench
