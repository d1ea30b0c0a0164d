// SPDX-License-Identifier: Apache-2.0
//
// How many functions share a GiB of device memory: each belongs to a tenant of its own that trusts nobody, and is
// called once a second in the mean. There are more and more of them until one call in twenty takes longer than allowed,
// which is the same for ours and for `serial`: twice what one in twenty takes where `serial` has two functions to
// serve.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/prng.h"
#include "base/units.h"
#include "bench/bench.h"
#include "bench/row.h"
#include "bench/site.h"
#include "bench/stage.h"
#include "os/log.h"
#include "sim/draws.h"

namespace quern::bench {
namespace {

constexpr uint64_t kDeviceBytes = 256 * kMiB, kContextBytes = 12 * kMiB, kWeightBytes = 8 * kMiB;
constexpr double kRunUs = 2000, kPerSecond = 1;
constexpr std::array<size_t, 10> kFunctions{4, 6, 8, 11, 16, 23, 32, 45, 64, 90};

struct Amounts {
  size_t rounds;
  Duration length;
  static Amounts of(const Options& options) {
    return options.quick ? Amounts{1, Duration::seconds(1)} : Amounts{2, Duration::seconds(4)};
  }
};

class Density {
 public:
  Density(const Options& options, Report& report, std::string folder)
      : options_(options), report_(report), amounts_(Amounts::of(options)), folder_(std::move(folder)) {}

  Status run() {
    options_.progress("density: how fast is this machine");
    daemon::Config like;
    like.devices = device_per_core(kGiB, 0, false);
    QUERN_TRY(const Rates rates, measure_rates(like, folder_ + "/rates"));
    call_.launches = 3;
    call_.iterations = rates.iterations_for(kRunUs, call_.launches);
    report_.notes.push_back(
        fmt::format("devices of {}; a function has {} of weights and runs for {:.1f} ms; a context is taken for {}; a "
                    "call a second "
                    "of each",
                    show_bytes(kDeviceBytes), show_bytes(kWeightBytes), kRunUs / 1e3, show_bytes(kContextBytes)));
    QUERN_TRY(deploy());
    if (options_.wants("density")) QUERN_TRY(compare(false));
    if (options_.wants("in_place")) QUERN_TRY(compare(true));
    return {};
  }

 private:
  daemon::Config config_of(const std::string& policy, bool in_place) const {
    daemon::Config config;
    config.devices = device_per_core(kDeviceBytes, kContextBytes, in_place);
    config.tenants = tenants_of(kFunctions.back(), false);
    config.state_folder = folder_ + "/state";
    config.policy = policy_of(policy);
    if (policy == "serial") config.pool = 0;
    return config;
  }

  Status deploy() {
    QUERN_TRY(auto site, Site::create(config_of("quern", false)));
    for (size_t i = 0; i < kFunctions.back(); ++i) {
      options_.progress(fmt::format("density: deploy {} of {}", i, kFunctions.back()));
      QUERN_TRY(site->deploy(i, {.name = "function", .head_bytes = kWeightBytes, .head_content = i}));
    }
    return {};
  }

  /// p95 in ms of so many functions; those that were late are in it with what they were allowed.
  Result<double> p95(const std::string& policy, size_t functions, bool in_place) {
    QUERN_TRY(auto site, Site::create(config_of(policy, in_place)));
    std::vector<Site::Work> works;
    for (size_t i = 0; i < functions; ++i) {
      Site::Work work{i, nullptr, call_.spec()};
      QUERN_TRY(work.function, site->find(i, "function"));
      works.push_back(std::move(work));
    }
    // One call each before it counts: what fits is there.
    std::vector<Arrival> arrivals;
    Prng prng(1);
    const auto draw = [&](Duration length) {
      arrivals.clear();
      Duration at{0};
      for (;;) {
        at = at + sim::draw_gap(prng, kPerSecond * static_cast<double>(functions));
        if (at > length) break;
        arrivals.push_back({at, prng.below(functions)});
      }
    };
    for (const Site::Work& work : works) QUERN_TRY(site->call(work));
    draw(amounts_.length);
    QUERN_TRY(const Served served, play(*site, works, arrivals));
    if (served.out_of_memory > 0)
      return internal(fmt::format("density: {} calls were answered out of memory", served.out_of_memory));
    return served.late > 0 ? 60'000 : served.percentile_ms(0.95);
  }

  Result<size_t> most(const std::string& policy, double bound_ms, bool in_place) {
    size_t served = 0;
    std::string text;
    for (const size_t functions : kFunctions) {
      options_.progress(fmt::format("density: {}, {} functions", policy, functions));
      QUERN_TRY(const double ms, p95(policy, functions, in_place));
      text += fmt::format(" {}: {:.0f} ms", functions, ms);
      if (ms > bound_ms) break;
      served = functions;
    }
    report_.notes.push_back(fmt::format("{}{}, p95 by functions:{}", in_place ? "in place, " : "", policy, text));
    return served;
  }

  Status compare(bool in_place) {
    options_.progress("density: the bound");
    QUERN_TRY(const double alone_ms, p95("serial", 2, in_place));
    const double bound_ms = 2 * alone_ms;
    const double gib =
        static_cast<double>(device_per_core(kDeviceBytes, 0, false).size() * kDeviceBytes) / static_cast<double>(kGiB);
    std::vector<double> ours, theirs, ratios;
    for (size_t round = 0; round < (in_place ? 1 : amounts_.rounds); ++round) {
      QUERN_TRY(const size_t quern, most("quern", bound_ms, in_place));
      QUERN_TRY(const size_t serial, most("serial", bound_ms, in_place));
      ours.push_back(static_cast<double>(quern) / gib);
      theirs.push_back(static_cast<double>(serial) / gib);
      ratios.push_back(ours.back() / std::max(theirs.back(), 1e-9));
    }
    report_.notes.push_back(
        fmt::format("{}served is whose p95 is at most {:.0f} ms", in_place ? "in place: " : "", bound_ms));
    Row row = row_of(in_place ? "in_place_density" : "density", middle_of(ours).median, "functions/GiB",
                     middle_of(theirs).median, in_place ? "" : ">= 1.5");
    row.ratio = middle_of(ratios).median;
    row.spread = middle_of(ratios).spread;
    report_.rows.push_back(std::move(row));
    return {};
  }

  const Options& options_;
  Report& report_;
  const Amounts amounts_;
  const std::string folder_;
  LayersCall call_;
};

}  // namespace

Status run_density(const Options& options, Report& report) {
  report.layout = second_layout_text(false) + "; in place as a second table";
  os::start_log(os::Level::kWarning);
  QUERN_TRY(const auto folder, Folder::create());
  return Density(options, report, folder.path()).run();
}

}  // namespace quern::bench
