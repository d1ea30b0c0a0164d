// SPDX-License-Identifier: Apache-2.0
//
// Whether a share of a device is what it says.
//
// Of its time: a function with a quota, request and limit alike, that always has work, by itself and beside a neighbour
// of the same priority without one. Its share is the CPU time of its executor's workers in each second, as the
// operating system has it. Seconds begin and end just before a window of quotas does: who had its share sleeps then,
// and its time is exact. What the answers tell of device time is held against the same clock.
//
// Of its units: the p95 of calls beside a neighbour that takes what it can get, against alone, where each has half of
// the units, and where both have all of them and take turns. That is on a device of all cores.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <optional>

#include "base/prng.h"
#include "base/units.h"
#include "bench/bench.h"
#include "bench/grind.h"
#include "bench/launcher.h"
#include "bench/quota_rows.h"
#include "bench/row.h"
#include "bench/site.h"
#include "bench/stage.h"
#include "bench/workers.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "os/thread.h"
#include "sched/scheduler.h"

namespace quern::bench {
namespace {

constexpr size_t kHolder = 0, kNeighbour = 1;  // tenants
constexpr double kGroupNs = 5000;
constexpr double kNeighbourUs = 5000;  // its kernel
constexpr double kCallUs = 5000;       // the least: short kernels are several to a call
constexpr size_t kCallers = 3;         // of each function: one runs, one is bound, one waits
constexpr Duration kShortestPause = Duration::millis(3), kLongestPause = Duration::millis(9);
constexpr uint64_t kDeviceMemory = 2 * kGiB;
constexpr std::string_view kTold = "told_of_used";

struct Amounts {
  size_t rounds, seconds;  ///< of a case: so many seconds in each round
  Duration lead, length;   ///< what is before the first second; and what a second is
  size_t unit_rounds, calls;

  static Amounts of(const Options& options) {
    if (options.quick) return {1, 1, Duration::millis(200), Duration::millis(500), 1, 20};
    return {2, 3, Duration::millis(200), Duration::seconds(1), 5, 60};
  }
};

/// A function that always has work: its callers call again as soon as they are answered.
class Busy {
 public:
  /// `site` outlives it.
  Busy(Site& site, const Site::Work& work) : site_(site), work_(work) {
    for (size_t i = 0; i < kCallers; ++i) threads_.emplace_back("bench-caller", [this] { call_again_and_again(); });
  }
  ~Busy() { is_over_.store(true); }

  /// Waits for what is under way.
  Status end() {
    is_over_.store(true);
    for (os::Thread& thread : threads_) thread.join();
    return status_.with([](Status& status) { return std::exchange(status, {}); });
  }
  /// Of the calls that were answered, as the answers have it.
  uint64_t device_ns() const { return device_ns_.load(); }
  uint64_t answered() const { return answered_.load(); }

 private:
  void call_again_and_again() {
    while (!is_over_.load()) {
      const auto ended = site_.call(work_);
      if (!ended.ok()) {
        status_.with([&](Status& status) { status = ended.error(); });
        return;
      }
      device_ns_.fetch_add(ended->call->times.device_time_ns);
      answered_.fetch_add(1);
    }
  }

  // Constant after construction.
  Site& site_;
  const Site::Work work_;
  // Each guards itself.
  std::atomic<bool> is_over_{false};
  std::atomic<uint64_t> device_ns_{0}, answered_{0};
  os::Guarded<Status> status_;
  std::vector<os::Thread> threads_;  // last: joined first
};

/// Half of the units each, or all of them in turns.
struct Division {
  std::string_view name, quota;
};
constexpr std::array<Division, 2> kDivisions{{{"units", "{units: 0.5}"}, {"time_sharing", ""}}};

/// Whether both are in one executor.
struct Place {
  std::string_view name;
  bool one_domain;
};
constexpr std::array<Place, 2> kPlaces{{{"", false}, {"together_", true}}};

/// Calls of one function, by the block: alone, or beside the other.
struct Calls {
  std::vector<double> ms, scaled;  ///< also against what one of its round takes alone
};

class QuotaBench {
 public:
  QuotaBench(const Options& options, Report& report, Layout layout, std::vector<int> cores, std::string folder)
      : options_(options),
        report_(report),
        amounts_(Amounts::of(options)),
        layout_(std::move(layout)),
        cores_(std::move(cores)),
        folder_(std::move(folder)) {}

  Status run() {
    QUERN_TRY(shares_of_time());
    for (const Place& place : kPlaces) QUERN_TRY(shares_of_units(place));
    return report_.rows.empty() ? Status(not_found(fmt::format("row {}: there is none", options_.row))) : Status();
  }

 private:
  Status shares_of_time() {
    std::vector<QuotaResult> results;
    for (const QuotaCase& one : quota_cases(options_)) results.push_back({one, {}});
    if (results.empty()) return {};
    const std::array host{layout_.host};
    QUERN_TRY(os::pin_to(host));
    QUERN_TRY(open("time", layout_.device_config(), {layout_.host}, false));
    QUERN_TRY(executors_[kHolder], bring_up(kHolder, ""));
    QUERN_TRY(calibrate(""));
    QUERN_TRY(executors_[kNeighbour], bring_up(kNeighbour, ""));
    const size_t count = amounts_.rounds * results.size();
    size_t done = 0;
    for (size_t round = 0; round < amounts_.rounds; ++round)
      for (QuotaResult& result : results) {
        options_.progress(fmt::format("quota: {}, {} of {}", result.of.name(), ++done, count));
        QUERN_TRY(measure(result.of, result.figures));
      }
    add_quota_rows(results, options_, report_);
    if (options_.wants(kTold)) {
      Row row = row_of(std::string(kTold), static_cast<double>(told_ns_) / 1e6, "ms",
                       static_cast<double>(used_ns_) / 1e6, "");
      report_.rows.push_back(std::move(row));
    }
    site_.reset();
    return {};
  }

  Status open(const std::string& name, daemon::DeviceConfig device, std::vector<int> host_cores, bool one_domain) {
    options_.progress(fmt::format("quota: daemon for shares of {}: start, deploy", name));
    daemon::Config config;
    config.devices = {std::move(device)};
    config.tenants = tenants_of(2, one_domain);
    config.state_folder = fmt::format("{}/state-{}", folder_, name);
    config.binary_cache = folder_ + "/binaries";
    config.host_cores = std::move(host_cores);
    config.pool = 0;  // what nobody called for would only be in the way
    QUERN_TRY(os::make_folders(config.binary_cache));
    QUERN_TRY(site_, Site::create(std::move(config)));
    return {};
  }

  Result<Site::Work> work_of(size_t tenant, const std::string& name, const std::string& quota, double kernel_us) {
    Grind grind;
    grind.name = name;
    grind.manifest = "chain.yaml";
    grind.quota = quota;
    QUERN_TRY(Bytes tar, grind.tar());
    Site::Work work;
    work.tenant = tenant;
    // What is there already has other settings from now on.
    QUERN_TRY(work.function, site_->deploy(tenant, name, std::move(tar)));
    const auto steps = static_cast<uint32_t>(std::max(1.0, std::round(kCallUs / kernel_us)));
    work.spec = grind_call(groups_for(kernel_us), iterations_, steps);
    return work;
  }

  static uint32_t groups_for(double us) {
    return static_cast<uint32_t>(std::max(1.0, std::round(us * 1e3 / kGroupNs)));
  }

  /// Deploys and calls it once; the executor that came up for it.
  Result<int> bring_up(size_t tenant, const std::string& quota) {
    const std::vector<int> before = executors_of_this_process();
    QUERN_TRY(const Site::Work work, work_of(tenant, "grind", quota, kNeighbourUs));
    QUERN_TRY(site_->call(work));
    std::vector<int> now = executors_of_this_process();
    std::erase_if(now, [&](int pid) { return std::find(before.begin(), before.end(), pid) != before.end(); });
    if (now.size() != 1) return internal(fmt::format("tenant {}: {} executors came up for it", tenant, now.size()));
    return now[0];
  }

  // So that a group takes 5 us, on one unit.
  Status calibrate(const std::string& quota) {
    constexpr int kTries = 2, kWarmUps = 2, kCalls = 9;
    constexpr double kCallNs = 1e6;
    for (int i = 0; i < kTries; ++i) {
      QUERN_TRY(Site::Work work, work_of(kHolder, "grind", quota, kNeighbourUs));
      work.spec = grind_call(groups_for(kCallNs / 1e3), iterations_, 1);
      std::vector<double> taken;
      for (int call = 0; call < kWarmUps + kCalls; ++call) {
        QUERN_TRY(const auto ended, site_->call(work));
        const daemon::CallTimes& times = ended.call->times;
        if (call >= kWarmUps)
          taken.push_back(static_cast<double>(std::max<int64_t>(1, (times.finished - times.started).ns)));
      }
      iterations_ =
          static_cast<uint32_t>(std::clamp(std::round(iterations_ * kCallNs / middle_of(taken).median), 1.0, 1e9));
    }
    return {};
  }

  /// Just before a window ends, after `earliest`.
  static Time before_window(Time earliest) {
    constexpr Duration kBefore = Duration::millis(1);
    const Duration window = sched::Config().window;
    return Time{((earliest + kBefore).ns / window.ns + 1) * window.ns - kBefore.ns};
  }

  struct Clocks {
    Time at;
    std::array<Duration, 2> used;  ///< by tenant
  };
  Result<Clocks> read_clocks() const {
    Clocks clocks;
    clocks.at = os::now();
    for (const size_t tenant : {kHolder, kNeighbour}) {
      QUERN_TRY(clocks.used[tenant], worker_time_of(executors_[tenant]));
    }
    return clocks;
  }

  Status measure(const QuotaCase& of, QuotaFigures& figures) {
    const double share = of.percent / 100.0;
    QUERN_TRY(const auto own,
              work_of(kHolder, "grind", fmt::format("{{time: {{request: {0}, limit: {0}}}}}", share), of.kernel_us));
    QUERN_TRY(const auto other, work_of(kNeighbour, "grind", "", kNeighbourUs));
    QUERN_TRY(const Clocks quiet, read_clocks());
    std::optional<Busy> holder, neighbour;
    holder.emplace(*site_, own);
    if (of.is_beside) neighbour.emplace(*site_, other);
    Time next = before_window(os::now() + amounts_.lead);
    sleep_until(next);
    QUERN_TRY(Clocks from, read_clocks());
    for (size_t i = 0; i < amounts_.seconds; ++i) {
      next = next + amounts_.length;
      sleep_until(next);
      QUERN_TRY(const Clocks to, read_clocks());
      const auto percent = [&](size_t tenant) {
        return 100 * static_cast<double>((to.used[tenant] - from.used[tenant]).ns) /
               static_cast<double>((to.at - from.at).ns);
      };
      figures.shares.push_back(percent(kHolder));
      if (of.is_beside) figures.neighbour.push_back(percent(kNeighbour));
      from = to;
    }
    QUERN_TRY(holder->end());
    if (neighbour) QUERN_TRY(neighbour->end());
    QUERN_TRY(const Clocks over, read_clocks());
    told_ns_ += holder->device_ns() + (neighbour ? neighbour->device_ns() : 0);
    for (const size_t tenant : {kHolder, kNeighbour})
      used_ns_ += static_cast<uint64_t>((over.used[tenant] - quiet.used[tenant]).ns);
    return {};
  }

  static std::string row_name(const Place& place, const Division& division, const char* figure) {
    return fmt::format("{}{}_{}", place.name, division.name, figure);
  }

  Status shares_of_units(const Place& place) {
    std::vector<Division> divisions(kDivisions.begin(), kDivisions.end());
    std::erase_if(divisions, [&](const Division& one) {
      return !options_.wants(row_name(place, one, "p50")) && !options_.wants(row_name(place, one, "p95"));
    });
    if (divisions.empty()) return {};
    if (cores_.size() < 2) {
      report_.notes.push_back("a device of one core has no units to divide");
      return {};
    }
    QUERN_TRY(os::pin_to(cores_));
    QUERN_TRY(open(fmt::format("units-{}", place.one_domain), device_of_all_cores(kDeviceMemory, 0, true), {},
                   place.one_domain));
    if (iterations_ == kFirstIterations) QUERN_TRY(calibrate(std::string(kDivisions[0].quota)));
    std::vector<Calls> alone(divisions.size()), beside(divisions.size());
    for (size_t round = 0; round < amounts_.unit_rounds; ++round)
      for (size_t i = 0; i < divisions.size(); ++i) {
        options_.progress(fmt::format("quota: {}, round {} of {}", row_name(place, divisions[i], "p95"), round + 1,
                                      amounts_.unit_rounds));
        QUERN_TRY(this->round(divisions[i], round, alone[i], beside[i]));
      }
    for (size_t i = 0; i < divisions.size(); ++i) add_rows(place, divisions[i], alone[i], beside[i]);
    site_.reset();
    return {};
  }

  Status round(const Division& division, size_t number, Calls& alone, Calls& beside) {
    const std::string name = fmt::format("grind-{}", division.name);
    const std::string quota(division.quota);
    QUERN_TRY(const auto own, work_of(kHolder, name + "-own", quota, kCallUs));
    QUERN_TRY(const auto other, work_of(kNeighbour, name + "-other", quota, kNeighbourUs));
    QUERN_TRY(site_->call(own));
    QUERN_TRY(site_->call(other));
    QUERN_TRY(const std::vector<double> by_itself, block(own, number));
    std::optional<Busy> neighbour(std::in_place, *site_, other);
    QUERN_TRY(const std::vector<double> among_two, block(own, number));
    QUERN_TRY(neighbour->end());
    const double usual = middle_of(by_itself).median;
    for (const double ms : by_itself) alone.ms.push_back(ms), alone.scaled.push_back(ms / usual);
    for (const double ms : among_two) beside.ms.push_back(ms), beside.scaled.push_back(ms / usual);
    return {};
  }

  /// Each comes unannounced; those of one round have the same pauses. The first is not counted.
  Result<std::vector<double>> block(const Site::Work& work, size_t round) {
    std::vector<double> ms;
    for (size_t i = 0; i <= amounts_.calls; ++i) {
      const double part = Prng(1000 * round + i).uniform();
      sleep_until(os::now() + kShortestPause +
                  Duration{static_cast<int64_t>(part * static_cast<double>((kLongestPause - kShortestPause).ns))});
      QUERN_TRY(const auto ended, site_->call(work));
      if (i > 0) ms.push_back(ended.micros / 1e3);
    }
    return ms;
  }

  void add_rows(const Place& place, const Division& division, const Calls& alone, const Calls& beside) {
    const auto add = [&](const char* figure, double part) {
      const std::string name = row_name(place, division, figure);
      if (!options_.wants(name)) return;
      Row row = row_of(name, percentile_of(beside.ms, part), "ms", percentile_of(alone.ms, part));
      row.ratio = percentile_of(beside.scaled, part) / percentile_of(alone.scaled, part);
      report_.rows.push_back(std::move(row));
    };
    add("p50", 0.5);
    add("p95", 0.95);
  }

  static constexpr uint32_t kFirstIterations = 2500;

  // Constant after construction.
  const Options& options_;
  Report& report_;
  const Amounts amounts_;
  const Layout layout_;
  const std::vector<int> cores_;  ///< that we may use
  const std::string folder_;
  // Constant once it is calibrated.
  uint32_t iterations_ = kFirstIterations;
  // Of the part.
  std::unique_ptr<Site> site_;
  std::array<int, 2> executors_{};  ///< by tenant
  // Of all cases so far.
  uint64_t told_ns_ = 0, used_ns_ = 0;
};

}  // namespace

Status run_quota(const Options& options, Report& report) {
  std::vector<int> cores = os::allowed_cores();
  Layout layout = Layout::here();
  report.layout = fmt::format("{}; units: a device of {} cores, which daemon and callers share", layout.text,
                              std::min<size_t>(cores.size(), 4));
  os::want_exact_timers();
  os::start_log(os::Level::kWarning);
  QUERN_TRY(const auto folder, Folder::create());
  report.notes.push_back(fmt::format(
      "shares: of a function with request and limit alike, beside a neighbour with kernels of {:g} ms and no quota; "
      "{}: device time as the answers have it against the CPU time of the workers",
      kNeighbourUs / 1e3, kTold));
  report.notes.push_back(
      "units, time_sharing: calls beside a neighbour that takes what it can get, against alone, with half of the units "
      "each and with all of them; together_: both in one executor");
  return QuotaBench(options, report, std::move(layout), std::move(cores), folder.path()).run();
}

}  // namespace quern::bench
