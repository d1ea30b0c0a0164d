// SPDX-License-Identifier: Apache-2.0
//
// What slices are for, and what they cost.
//
// For: calls in a hurry beside one kernel of a second that is in none, again and again, through a daemon. `together`
// both are in one executor, whose worker finishes a kernel before it takes the next, as a GPU does; `apart` each has
// its own, and the operating system shares the core between two workers. Dispatch by `none` and `fikit` launches
// kernels whole, by `strict` and `fill` in slices. In every round the calls are also made alone, before, between and
// after; their pauses have no fixed length, so that each comes unannounced.
//
// Cost: one kernel whole against the same in slices, launched by offset into the driver's queue, all of them at once or
// two in flight at a time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>

#include "base/prng.h"
#include "bench/bench.h"
#include "bench/grind_device.h"
#include "bench/launcher.h"
#include "bench/pairs.h"
#include "bench/priority_filler.h"
#include "bench/priority_site.h"
#include "bench/row.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/thread.h"

namespace quern::bench {
namespace {

constexpr double kLongMs = 1000, kCallUs = 1000;
constexpr size_t kLongTenant = 1;
constexpr Duration kShortestPause = Duration::millis(3), kLongestPause = Duration::millis(9);
constexpr Duration kStartLimit = Duration::seconds(20);

constexpr std::array<Mode, 4> kModes{{kNone, kFikit, {"strict", "strict", false}, kFill}};

/// Who shares an executor.
struct Place {
  std::string_view name;
  bool one_domain;
};
constexpr std::array<Place, 2> kPlaces{{{"together", true}, {"apart", false}}};

struct Amounts {
  size_t rounds, calls;
  size_t primes;        ///< calls before the first round
  size_t fewest_calls;  ///< of a block whose time is over
  Duration block;       ///< where each call waits for a second
  size_t cost_rounds;   ///< of the kernel of 20 ms; twice as many of that of 5 ms

  static Amounts of(const Options& options) {
    if (options.quick) return {1, 20, 0, 2, Duration::seconds(2), 10};
    return {5, 100, 10, 3, Duration::seconds(4), 100};
  }
};

/// The same launched in so many parts.
struct Cut {
  uint64_t slices, depth;  ///< depth 0: all at once

  bool is_whole() const { return slices == 1; }
  std::string name() const { return fmt::format("x{}{}", slices, depth > 0 ? fmt::format("_d{}", depth) : ""); }
  auto operator<=>(const Cut&) const = default;
};
constexpr std::array<Cut, 7> kCuts{{{1, 0}, {4, 0}, {16, 0}, {64, 0}, {4, 2}, {16, 2}, {64, 2}}};
constexpr uint64_t kMostSlices = 64;

/// Calls one after the other, beside the long kernel or alone.
struct Block {
  std::vector<double> ms, device_ms;
  double groups = 0, window_ms = 0;  ///< of the long kernel, from the end of one call to that of the next
};

/// What became of a mode.
struct Figures {
  std::vector<double> ratios, shares;  ///< of each round
  std::vector<double> ms, scaled;      ///< of each call, also against what one of its round takes alone
};

class Slices {
 public:
  Slices(const Options& options, Report& report, Layout layout, std::string folder, GrindDevice& grind)
      : options_(options),
        report_(report),
        amounts_(Amounts::of(options)),
        layout_(std::move(layout)),
        folder_(std::move(folder)),
        grind_(grind) {}

  Status run() {
    QUERN_TRY(cost("cost_20ms", 20'000, amounts_.cost_rounds));
    QUERN_TRY(cost("cost_5ms", 5'000, 2 * amounts_.cost_rounds));
    for (const Place& place : kPlaces) QUERN_TRY(beside(place));
    return report_.rows.empty() ? Status(not_found(fmt::format("row {}: there is none", options_.row))) : Status();
  }

 private:
  Status cost(const std::string& name, double us, size_t rounds) {
    std::vector<Cut> cuts(kCuts.begin(), kCuts.end());
    std::erase_if(cuts, [&](const Cut& cut) { return !cut.is_whole() && !options_.wants(name + "_" + cut.name()); });
    if (cuts.size() == 1) return {};
    // So that slices are alike.
    const uint64_t groups = std::max<uint64_t>(1, grind_.groups_for(us) / kMostSlices) * kMostSlices;
    std::unique_ptr<hal::Queue> queue;
    std::unique_ptr<hal::Kernel> kernel;
    QUERN_TRY(queue, grind_.device().create_queue());
    QUERN_TRY(kernel, grind_.program().create_kernel("grind"));
    constexpr size_t kWarmUps = 3;
    std::map<Cut, std::vector<double>> took;
    for (size_t round = 0; round < kWarmUps + rounds; ++round) {
      if (round % 10 == 0) options_.progress(fmt::format("slice: {}, round {} of {}", name, round, rounds));
      for (size_t turn = 0; turn < cuts.size(); ++turn) {
        const Cut& cut = cuts[(round + turn) % cuts.size()];
        double micros = 0;
        settle();
        grind_.clear_marks();
        QUERN_TRY(grind_.on_launch_thread([&] { return launch(*queue, *kernel, groups, cut, micros); }));
        QUERN_TRY(grind_.check_marks(groups));
        if (round >= kWarmUps) took[cut].push_back(micros);
      }
    }
    std::string each;
    for (const Cut& cut : cuts) {
      if (cut.is_whole()) continue;
      const Samples samples{took[cut], took[kCuts[0]]};
      report_.rows.push_back(samples.row(name + "_" + cut.name(), "us", ""));
      std::vector<double> more;
      for (size_t i = 0; i < samples.ours.size(); ++i)
        more.push_back((samples.ours[i] - samples.theirs[i]) / static_cast<double>(cut.slices - 1));
      each += fmt::format("{}{} {:.1f}", each.empty() ? "" : ", ", cut.name(), middle_of(more).median);
    }
    report_.notes.push_back(fmt::format("{}: us more for each slice after the first: {}", name, each));
    return {};
  }

  Status launch(hal::Queue& queue, hal::Kernel& kernel, uint64_t groups, const Cut& cut, double& micros) const {
    const uint64_t each = groups / cut.slices;
    uint64_t point = 0;
    const Time from = os::now();
    for (uint64_t i = 0; i < cut.slices; ++i) {
      if (cut.depth > 0 && i >= cut.depth) QUERN_TRY(queue.timeline().wait(point + 1 - cut.depth, Duration::forever()));
      QUERN_TRY(point, grind_.launch(queue, kernel, i * each, each));
    }
    QUERN_TRY(queue.timeline().wait(point, Duration::forever()));
    micros = micros_between(from, os::now());
    return {};
  }

  static std::string row_name(const Place& place, const Mode& mode) {
    return fmt::format("{}_{}", place.name, mode.name);
  }

  bool is_wanted(const std::string& name) const {
    return options_.wants(name + "_p50") || options_.wants(name + "_p95") || options_.wants(name + "_long_share");
  }

  Status beside(const Place& place) {
    std::vector<Mode> modes(kModes.begin(), kModes.end());
    std::erase_if(modes, [&](const Mode& mode) { return !is_wanted(row_name(place, mode)); });
    if (modes.empty()) return {};
    sites_.clear();  // of another place: their executors are not to be in the way
    for (const Mode& mode : modes) QUERN_TRY(open(place, mode));
    std::vector<Figures> figures(modes.size());
    Figures alone;
    for (size_t round = 0; round < amounts_.rounds; ++round) {
      options_.progress(fmt::format("slice: {}, round {} of {}", place.name, round + 1, amounts_.rounds));
      QUERN_TRY(this->round(modes, round, figures, alone));
    }
    for (size_t i = 0; i < modes.size(); ++i) add_rows(row_name(place, modes[i]), figures[i], alone);
    report_.notes.push_back(fmt::format("{}: a call alone {:.2f} ms, rounds within {:.1f} % of their own mean",
                                        place.name, middle_of(alone.ms).median, 100 * middle_of(alone.ratios).spread));
    return {};
  }

  struct Open {
    std::unique_ptr<PrioritySite> site;
    double group_ms = 0;  ///< of the long kernel, alone
  };

  Status open(const Place& place, const Mode& mode) {
    options_.progress(fmt::format("slice: daemon of {}: start, deploy", row_name(place, mode)));
    Open& opened = sites_[mode.name];
    QUERN_TRY(opened.site,
              PrioritySite::create(layout_, fmt::format("{}/{}", folder_, place.name), mode, place.one_domain));
    QUERN_TRY(const auto work, long_work(*opened.site));
    QUERN_TRY(const auto ended, opened.site->call(work));
    opened.group_ms = static_cast<double>(ended->times.device_time_ns) / 1e6 / kLongGroups;
    // So that gaps are known.
    if (mode.dispatch != kNone.dispatch && amounts_.primes > 0)
      QUERN_TRY(block(opened, true, amounts_.rounds, amounts_.primes));
    return {};
  }

  Result<PrioritySite::Work> long_work(const PrioritySite& site) const {
    const double group_ms = kLongMs / kLongGroups;
    return site.work(kLongTenant, kLongGroups,
                     static_cast<uint32_t>(grind_.iterations() * group_ms * 1e6 / grind_.group_ns()));
  }

  /// `count` calls behind one that is not counted. Those of the same round have the same pauses.
  Result<Block> block(Open& on, bool is_beside, size_t round, size_t count) {
    std::optional<FunctionFiller> beside;
    if (is_beside) {
      QUERN_TRY(auto work, long_work(*on.site));
      beside.emplace(*on.site, std::move(work), kLongGroups, kLongMs, 1);
      const Time limit = os::now() + kStartLimit;
      while (beside->groups_done() == 0) {
        if (os::now() > limit) {
          QUERN_TRY(beside->end());
          return Error{ErrorCode::kDeadline,
                       fmt::format("the long kernel did nothing for {}; is its gate closed?", to_string(kStartLimit))};
        }
        settle();
      }
    }
    QUERN_TRY(const auto work, on.site->work(PrioritySite::kUrgent, static_cast<uint32_t>(grind_.groups_for(kCallUs)),
                                             grind_.iterations()));
    Block done;
    const Time until = os::now() + amounts_.block;
    for (size_t i = 0; i <= count && (i <= amounts_.fewest_calls || os::now() < until); ++i) {
      const double part = Prng(1000 * round + i).uniform();
      const uint64_t groups_before = beside ? beside->groups_done() : 0;
      const Time began = os::now();
      sleep_until(began + kShortestPause +
                  Duration{static_cast<int64_t>(part * static_cast<double>((kLongestPause - kShortestPause).ns))});
      const Time from = os::now();
      QUERN_TRY(const auto ended, on.site->call(work));
      const Time to = os::now();
      const uint64_t groups_after = beside ? beside->groups_done() : 0;
      if (i == 0) continue;
      done.ms.push_back(micros_between(from, to) / 1e3);
      done.device_ms.push_back(static_cast<double>(ended->times.device_time_ns) / 1e6);
      done.groups += static_cast<double>(groups_after - groups_before);
      done.window_ms += micros_between(began, to) / 1e3;
    }
    if (beside) QUERN_TRY(beside->end());
    return done;
  }

  Status round(const std::vector<Mode>& modes, size_t number, std::vector<Figures>& figures, Figures& alone) {
    std::vector<Block> beside(modes.size()), by_itself;
    const auto go_alone = [&]() -> Status {
      QUERN_TRY(by_itself.emplace_back(), block(sites_.begin()->second, false, number, amounts_.calls));
      return {};
    };
    QUERN_TRY(go_alone());
    for (size_t i = 0; i < modes.size(); ++i) {
      const size_t turn = (i + number) % modes.size();
      QUERN_TRY(beside[turn], block(sites_.at(modes[turn].name), true, number, amounts_.calls));
      if (i % 2 == 1 || i + 1 == modes.size()) QUERN_TRY(go_alone());
    }
    std::vector<double> medians, device_ms;
    for (const Block& one : by_itself) {
      medians.push_back(middle_of(one.ms).median);
      device_ms.insert(device_ms.end(), one.device_ms.begin(), one.device_ms.end());
    }
    const double alone_ms = std::accumulate(medians.begin(), medians.end(), 0.0) / static_cast<double>(medians.size());
    const double own_ms = middle_of(device_ms).median;
    const auto add = [&](const Block& one, double group_ms, Figures& to) {
      to.ratios.push_back(middle_of(one.ms).median / alone_ms);
      const double left_ms = one.window_ms - own_ms * static_cast<double>(one.ms.size());
      to.shares.push_back(one.groups * group_ms / left_ms);
      for (const double ms : one.ms) to.ms.push_back(ms), to.scaled.push_back(ms / alone_ms);
    };
    for (const Block& one : by_itself) add(one, 0, alone);
    for (size_t i = 0; i < modes.size(); ++i) add(beside[i], sites_.at(modes[i].name).group_ms, figures[i]);
    return {};
  }

  void add_rows(const std::string& name, const Figures& figures, const Figures& alone) {
    const Middle ratio = middle_of(figures.ratios);
    Row middle = row_of(name + "_p50", middle_of(figures.ms).median, "ms", middle_of(alone.ms).median);
    middle.ratio = ratio.median;
    middle.spread = ratio.spread;
    report_.rows.push_back(std::move(middle));
    Row late = row_of(name + "_p95", percentile_of(figures.ms, 0.95), "ms", percentile_of(alone.ms, 0.95));
    late.ratio = percentile_of(figures.scaled, 0.95) / percentile_of(alone.scaled, 0.95);
    report_.rows.push_back(std::move(late));
    const Middle share = middle_of(figures.shares);
    Row left = row_of(name + "_long_share", share.median, "of what is left");
    left.spread = share.spread;
    report_.rows.push_back(std::move(left));
    report_.notes.push_back(
        fmt::format("{}: {} calls, the slowest {:.1f} ms", name, figures.ms.size(), percentile_of(figures.ms, 1)));
  }

  static constexpr uint32_t kLongGroups = GrindDevice::kMostGroups;

  // Constant after construction.
  const Options& options_;
  Report& report_;
  const Amounts amounts_;
  const Layout layout_;
  const std::string folder_;
  GrindDevice& grind_;
  // Of the place.
  std::map<std::string_view, Open> sites_;  ///< by mode
};

}  // namespace

Status run_slice(const Options& options, Report& report) {
  Layout layout = Layout::here();
  report.layout = layout.text;
  QUERN_TRY(const auto folder, Folder::create());
  options.progress("slice: open the device, build, see how fast it is");
  QUERN_TRY(auto grind, GrindDevice::open(layout, folder.path() + "/code"));  // first: it sets variables
  os::want_exact_timers();
  os::start_log(os::Level::kWarning);
  report.notes.push_back(fmt::format(
      "a call is one kernel of {:g} ms and priority 0, the long one of {:g} s and priority 9; none and fikit launch "
      "it whole, strict and fill in slices",
      kCallUs / 1e3, kLongMs / 1e3));
  return Slices(options, report, std::move(layout), folder.path(), *grind).run();
}

}  // namespace quern::bench
