// SPDX-License-Identifier: Apache-2.0
//
// A cold call: what has to be brought for it, each part alone and all together, and what each idea saves. The daemon is
// started anew for every cold call, over the same state folder: no executor, program or object is left of the one
// before. What it reads from disk was read before, so it comes from the page cache of the machine.
//
// Set-up is the time of a cold call less that of a warm one of the same function. Chains that are taken alone: executor
// start and program (a function without weights), each constant (one that has no other, with executor and program
// there), and the input (a warm call with it, less one without).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/row.h"
#include "bench/site.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::bench {
namespace {

constexpr int64_t kInputWords = 1 << 20;  // 4 MiB
constexpr uint64_t kLeastHead = 32 * kMiB, kMostHead = 384 * kMiB, kSmall = 4 * kMiB;

struct Amounts {
  size_t rounds, warm_calls, setups, builds;
  static Amounts of(const Options& options) { return options.quick ? Amounts{2, 3, 30, 1} : Amounts{9, 5, 300, 5}; }
};

/// Two constants. The first is that of the row `overlap`: its larger one takes longer than an executor's start.
struct Shape {
  std::string name;
  uint64_t head_bytes = 0, body_bytes = 0, content = 0;
};

class ColdCalls {
 public:
  ColdCalls(const Options& options, Report& report, std::string folder)
      : options_(options), report_(report), amounts_(Amounts::of(options)), folder_(std::move(folder)) {}

  Status run() {
    QUERN_TRY(prepare());
    if (options_.wants("overlap"))
      for (const Shape& shape : shapes_) QUERN_TRY(overlap(shape));
    if (options_.wants("cold") || options_.wants("sibling")) QUERN_TRY(ablation(false));
    if (options_.wants("in_place")) QUERN_TRY(ablation(true));
    if (options_.wants("warm_setup")) QUERN_TRY(warm_setup());
    return {};
  }

 private:
  daemon::Config config_of(const daemon::PolicyConfig& policy, uint32_t pool, bool in_place) const {
    daemon::Config config;
    config.devices = {device_of_all_cores(8 * kGiB, 0, in_place)};
    config.tenants = tenants_of(1, true);
    config.state_folder = folder_ + "/state";
    config.policy = policy;
    config.pool = pool;
    return config;
  }

  Status prepare() {
    options_.progress("cold: how fast is this machine");
    QUERN_TRY(const Rates rates, measure_rates(config_of({}, 0, false), folder_ + "/rates"));
    const auto wanted = static_cast<uint64_t>(2.5 * rates.start_us * 1e-6 * rates.fetch_bytes);
    const uint64_t head = round_up(std::clamp(wanted, kLeastHead, kMostHead), kMiB);
    shapes_ = {{"overlap", head, head / 8, 10},
               {"overlap_even", head / 2, head / 2, 20},
               {"overlap_small", kSmall, kSmall, 30}};
    options_.progress("cold: deploy");
    QUERN_TRY(auto site, Site::create(config_of({}, 0, false)));
    QUERN_TRY(site->deploy(0, {.name = "bare", .head_content = 1}));
    for (const Shape& shape : shapes_) {
      const Layers whole{.name = shape.name,
                         .head_bytes = shape.head_bytes,
                         .body_bytes = shape.body_bytes,
                         .head_content = shape.content,
                         .body_content = shape.content + 1};
      QUERN_TRY(site->deploy(0, whole));
      QUERN_TRY(site->deploy(
          0, {.name = shape.name + "_head", .head_bytes = shape.head_bytes, .head_content = shape.content}));
      QUERN_TRY(site->deploy(
          0, {.name = shape.name + "_body", .head_bytes = shape.body_bytes, .head_content = shape.content + 1}));
      if (&shape != &shapes_.front()) continue;
      Layers sibling = whole;
      sibling.name = "sibling";
      QUERN_TRY(site->deploy(0, sibling));
    }
    report_.notes.push_back(fmt::format(
        "an executor starts in {:.1f} ms, objects come from disk at {:.2f} GB/s and to the device at {:.2f} GB/s; "
        "weights of {} and {}, an input of {}",
        rates.start_us / 1e3, rates.fetch_bytes / 1e9, rates.load_bytes / 1e9, show_bytes(head), show_bytes(head / 8),
        show_bytes(kInputWords * 4)));
    return {};
  }

  Result<Site::Work> work_of(const Site& site, const std::string& name, int64_t input_words) const {
    Site::Work work{0, nullptr, LayersCall{.input_words = input_words}.spec()};
    QUERN_TRY(work.function, site.find(0, name));
    return work;
  }

  /// The first call of it, less what later ones take.
  struct Setup {
    double us = 0, cold_us = 0, warm_us = 0;
    std::unique_ptr<daemon::Call> call;
  };
  Result<double> warm(Site& site, const Site::Work& work) const {
    std::vector<double> micros;
    for (size_t i = 0; i < amounts_.warm_calls; ++i) {
      QUERN_TRY(const auto ended, site.call(work));
      micros.push_back(ended.micros);
    }
    return middle_of(micros).median;
  }
  Result<Setup> first(Site& site, const std::string& name, int64_t input_words) const {
    QUERN_TRY(const Site::Work work, work_of(site, name, input_words));
    QUERN_TRY(auto cold, site.call(work));
    Setup setup;
    QUERN_TRY(setup.warm_us, warm(site, work));
    setup.cold_us = cold.micros;
    setup.us = std::max(0.0, cold.micros - setup.warm_us);
    setup.call = std::move(cold.call);
    return setup;
  }

  // Everything from nothing: no blank executor waits either, or its start would not be a part of it.
  Status overlap(const Shape& shape) {
    std::map<std::string, std::vector<double>> chains;
    std::map<std::string, std::vector<double>> begins, ends;
    std::vector<double> together;
    for (size_t round = 0; round < amounts_.rounds; ++round) {
      options_.progress(fmt::format("cold: {}, round {} of {}", shape.name, round, amounts_.rounds));
      for (size_t turn = 0; turn < 2; ++turn) {
        QUERN_TRY(auto site, Site::create(config_of(policy_of("quern"), 0, false)));
        if ((round + turn) % 2 == 0) {
          QUERN_TRY(const Setup whole, first(*site, shape.name, kInputWords));
          together.push_back(whole.us);
          for (const daemon::Phase& phase : whole.call->setup) {
            begins[phase.name].push_back(micros_between(whole.call->times.submitted, phase.from));
            ends[phase.name].push_back(micros_between(whole.call->times.submitted, phase.to));
          }
          continue;
        }
        QUERN_TRY(const Setup bare, first(*site, "bare", 1024));
        QUERN_TRY(const Setup head, first(*site, shape.name + "_head", 1024));
        QUERN_TRY(const Setup body, first(*site, shape.name + "_body", 1024));
        QUERN_TRY(const Site::Work large, work_of(*site, "bare", kInputWords));
        QUERN_TRY(const double with_input, warm(*site, large));
        chains["executor and program"].push_back(bare.us);
        chains["larger constant"].push_back(head.us);
        chains["smaller constant"].push_back(body.us);
        chains["input"].push_back(std::max(0.0, with_input - bare.warm_us));
      }
    }
    double longest = 0, sum = 0;
    std::string text = fmt::format("{}: alone", shape.name);
    for (const auto& [name, micros] : chains) {
      const double middle = middle_of(micros).median;
      longest = std::max(longest, middle);
      sum += middle;
      text += fmt::format(", {} {:.1f} ms", name, middle / 1e3);
    }
    text +=
        fmt::format("; one after another {:.1f} ms; together {:.1f} ms:", sum / 1e3, middle_of(together).median / 1e3);
    for (const auto& [name, micros] : begins)
      text +=
          fmt::format(" {} {:.1f}-{:.1f} ms", name, middle_of(micros).median / 1e3, middle_of(ends[name]).median / 1e3);
    report_.notes.push_back(text);
    const Middle all = middle_of(together);
    Row row = row_of(shape.name, all.median / 1e3, "ms", longest / 1e3, shape.name == "overlap" ? "<= 1.1" : "");
    row.spread = all.spread;
    report_.rows.push_back(std::move(row));
    return {};
  }

  /// What the builder takes for a program that nobody built before.
  Result<double> build() {
    QUERN_TRY(auto site, Site::create(config_of(policy_of("quern"), 0, false)));
    std::vector<double> micros;
    for (size_t i = 0; i < amounts_.builds; ++i) {
      const auto deploy = [&](const Layers& layers) -> Result<double> {
        const Time from = os::now();
        QUERN_TRY(site->deploy(0, layers));
        return micros_between(from, os::now());
      };
      const uint64_t variant = ++variants_;
      QUERN_TRY(const double built, deploy({.name = fmt::format("built{}", variant), .variant = variant}));
      QUERN_TRY(const double known, deploy({.name = fmt::format("known{}", variant), .variant = variant}));
      micros.push_back(built - known);
    }
    return middle_of(micros).median;
  }

  struct Variant {
    const char* name;
    daemon::PolicyConfig policy;
    uint32_t pool;
    bool builds;  ///< its program is compiled at the first call
  };
  static std::vector<Variant> variants() {
    const auto with = [](const char* setup) {
      daemon::PolicyConfig policy = policy_of("quern");
      policy.setup = setup;
      return policy;
    };
    const uint32_t pool = daemon::Config().pool;
    return {{"ours", policy_of("quern"), pool, false},     {"no_binary_cache", policy_of("quern"), pool, true},
            {"no_sharing", with("unshared"), pool, false}, {"no_overlap", with("in-turn"), pool, false},
            {"no_pool", policy_of("quern"), 0, false},     {"serial", policy_of("serial"), 0, true}};
  }

  // First call of a function; and of a second one with the same weights, while the first is warm.
  Status ablation(bool in_place) {
    const std::string prefix = in_place ? "in_place_" : "";
    options_.progress("cold: build");
    QUERN_TRY(const double build_us, build());
    struct Figures {
      std::vector<double> cold, sibling;
    };
    std::map<std::string, Figures> all;
    double run_us = 0;  // of a warm call of ours: `serial` has none of its own
    for (size_t round = 0; round < amounts_.rounds; ++round)
      for (const Variant& variant : variants()) {
        options_.progress(fmt::format("cold: {}{}, round {} of {}", prefix, variant.name, round, amounts_.rounds));
        QUERN_TRY(auto site, Site::create(config_of(variant.policy, variant.pool, in_place)));
        QUERN_TRY(const Setup whole, first(*site, "overlap", kInputWords));
        QUERN_TRY(const Setup sibling, first(*site, "sibling", kInputWords));
        if (variant.name == std::string_view("ours")) run_us = whole.warm_us;
        const double more_us = variant.builds ? build_us : 0;
        all[variant.name].cold.push_back(std::max(0.0, whole.cold_us - run_us) + more_us);
        all[variant.name].sibling.push_back(std::max(0.0, sibling.cold_us - run_us) + more_us);
      }
    report_.notes.push_back(fmt::format("{}the builder takes {:.1f} ms for the program; a warm call {:.2f} ms",
                                        in_place ? "in place: " : "", build_us / 1e3, run_us / 1e3));
    for (const char* what : {"cold", "sibling"})
      for (const Variant& variant : variants()) {
        const auto of = [&](const std::string& name) {
          return middle_of(what == std::string_view("cold") ? all[name].cold : all[name].sibling);
        };
        const Middle middle = of(variant.name);
        Row row = row_of(fmt::format("{}{}_{}", prefix, what, variant.name), middle.median / 1e3, "ms",
                         std::max(1.0, of("ours").median) / 1e3);
        row.spread = middle.spread;
        report_.rows.push_back(std::move(row));
      }
    return {};
  }

  // From the caller's thread to the first kernel, with everything there.
  Status warm_setup() {
    options_.progress("cold: warm calls");
    QUERN_TRY(auto site, Site::create(config_of(policy_of("quern"), daemon::Config().pool, false)));
    QUERN_TRY(const Site::Work work, work_of(*site, "overlap", 1024));
    for (size_t i = 0; i < amounts_.warm_calls; ++i) QUERN_TRY(site->call(work));
    std::vector<double> ms;
    for (size_t i = 0; i < amounts_.setups; ++i) {
      QUERN_TRY(const auto ended, site->call(work));
      ms.push_back(micros_between(ended.call->times.submitted, ended.call->times.started) / 1e3);
    }
    const Middle middle = middle_of(ms);
    Row row = row_of("warm_setup", middle.median, "ms", "< 1");
    row.spread = middle.spread;
    report_.rows.push_back(std::move(row));
    return {};
  }

  const Options& options_;
  Report& report_;
  const Amounts amounts_;
  const std::string folder_;
  std::vector<Shape> shapes_;
  uint64_t variants_ = 0;
};

}  // namespace

Status run_cold(const Options& options, Report& report) {
  report.layout =
      "one device over all cores, in_place: false; daemon and callers share them; a daemon for each cold call";
  os::start_log(os::Level::kWarning);
  QUERN_TRY(const auto folder, Folder::create());
  return ColdCalls(options, report, folder.path()).run();
}

}  // namespace quern::bench
