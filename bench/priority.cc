// SPDX-License-Identifier: Apache-2.0
//
// What an urgent task loses to less urgent work beside it, and what that work gets done.
//
// A round of a contest has each of its modes once, in turns, and the urgent task alone before, between and after them.
// The ratio of a round is the median of its tasks against the mean of its medians alone; of a row, the median of its
// rounds. What fillers got done is counted in groups of the kernel, from the order of a task to its answer, times what
// a group takes alone in that same round, as a share of that time less the urgent task's own on the device. So the
// latency of its launches counts as left over. Between tasks there is a pause of no fixed length: the first kernel of a
// task comes unannounced.
//
// The daemons of all modes live side by side, and only one of them has work at a time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "base/prng.h"
#include "bench/bench.h"
#include "bench/launcher.h"
#include "bench/priority_filler.h"
#include "bench/priority_rows.h"
#include "bench/priority_site.h"
#include "bench/row.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/thread.h"

namespace quern::bench {
namespace {

struct Amounts {
  size_t rounds, fewest_rounds;  ///< the fewest where time is short
  size_t tasks, primes;          ///< of a block; before the first round, so that gaps are known
  Duration limit;                ///< of all of it

  static Amounts of(const Options& options) {
    if (options.quick) return {2, 1, 2, 5, Duration::seconds(25)};
    if (options.full) return {7, 7, 6, 8, Duration::forever()};
    return {17, 5, 12, 8, Duration::seconds(570)};
  }
};

constexpr Duration kShortestPause = Duration::millis(3), kLongestPause = Duration::millis(9);
constexpr Duration kStartLimit = Duration::seconds(20);
constexpr double kWorthSaving = 1.4;
constexpr uint32_t kProbeGroups = 200;

/// Tasks one after the other under the same mode.
struct Block {
  std::vector<double> ms, device_ms;  ///< of each task
  double groups = 0;                  ///< that fillers did meanwhile
  double window_ms = 0, waited_ms = 0;
};

/// What became of a mode.
struct Figures {
  std::vector<double> ratios, shares;  ///< of each round
  std::vector<double> ms, scaled;      ///< of each task, also against what a task of its round takes alone
  double waited_ms = 0;                ///< at the urgent one's gate, all tasks together

  void add(const Figures& other) {
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(ratios, other.ratios), append(shares, other.shares), append(ms, other.ms), append(scaled, other.scaled);
    waited_ms += other.waited_ms;
  }
};

double p95(std::vector<double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto at = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(samples.size()))) - 1;
  std::nth_element(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(at), samples.end());
  return samples[at];
}

size_t alone_blocks(const Contest& contest) { return 1 + (contest.modes.size() + 1) / 2; }

/// About how long one task takes in all blocks of a round together: by this contests share the time there is.
double round_ms(const Contest& contest) {
  const double pause_ms = static_cast<double>((kShortestPause + kLongestPause).ns) / 2e6;
  const double task_ms = kTaskKernels * (contest.kernel_ms + 0.1) + (kTaskKernels - 1) * contest.gap_ms + pause_ms;
  double tasks = static_cast<double>(alone_blocks(contest) + contest.modes.size());
  for (const Mode& mode : contest.modes)
    if (mode == kNone) tasks += 0.5 * static_cast<double>(contest.fillers);  // they take turns
  return tasks * task_ms;
}

double mean(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

class Priorities {
 public:
  Priorities(const Options& options, Report& report, Layout layout, std::string folder)
      : options_(options),
        report_(report),
        amounts_(Amounts::of(options)),
        layout_(std::move(layout)),
        folder_(std::move(folder)),
        deadline_(os::now() + amounts_.limit) {}

  Status run() {
    std::vector<Contest> contests = contests_of(options_);
    if (contests.empty()) return not_found(fmt::format("row {}: there is none", options_.row));
    QUERN_TRY(prepare(contests));
    double all_ms = 0;
    for (const Contest& contest : contests) all_ms += round_ms(contest);
    for (size_t i = 0; i < contests.size(); ++i) {
      // What one does not use is for all that follow.
      const double part = round_ms(contests[i]) / all_ms;
      all_ms -= round_ms(contests[i]);
      const Time now = os::now();
      const Time until = deadline_ == Time::never()
                             ? deadline_
                             : now + Duration{static_cast<int64_t>(part * static_cast<double>((deadline_ - now).ns))};
      where_ = fmt::format("priority: {} ({} of {})", contests[i].name(), i + 1, contests.size());
      QUERN_TRY(compete(contests[i], until));
    }
    sum_up();
    return {};
  }

 private:
  Status prepare(const std::vector<Contest>& contests) {
    options_.progress("priority: start a launcher, and see how fast the device is");
    QUERN_TRY(urgent_, Launcher::start(layout_, folder_ + "/launchers"));
    QUERN_TRY(pace_, urgent_->calibrate(0));
    if (std::any_of(contests.begin(), contests.end(),
                    [](const Contest& contest) { return contest.source == GapSource::kNear; })) {
      Layout near = layout_;
      near.host = near.device;
      QUERN_TRY(near_, Launcher::start(near, folder_ + "/launchers"));
      QUERN_TRY(near_->calibrate(pace_.iterations));
    }
    for (const Contest& contest : contests) {
      for (const Mode& mode : contest.modes) QUERN_TRY(open(contest, mode));
      if (!contest.is_program()) QUERN_TRY(open(contest, kNone));
      if (contest.filler != FillerKind::kProgram) continue;
      while (program_fillers_.size() < contest.fillers) {
        options_.progress(fmt::format("priority: start launcher {}", program_fillers_.size() + 2));
        QUERN_TRY(auto launcher, Launcher::start(layout_, folder_ + "/launchers"));
        QUERN_TRY(launcher->calibrate(pace_.iterations));
        program_fillers_.push_back(std::move(launcher));
      }
    }
    QUERN_TRY(compare_paces(*sites_.begin()->second));
    report_.notes.push_back(
        fmt::format("a group of {} iterations takes {:.2f} us in a launcher and {:.3f} times that in an executor, both "
                    "alone; all kernels are made of such groups. A call of a filler is a graph of so many kernels that "
                    "it takes 10 ms; rows of call… instead of filler… have calls of one kernel",
                    pace_.iterations, pace_.group_ns / 1e3, executor_pace_));
    return {};
  }

  static std::pair<std::string_view, bool> key_of(const Contest& contest, const Mode& mode) {
    return {mode.name, contest.source == GapSource::kTogether};
  }
  PrioritySite& site_of(const Contest& contest, const Mode& mode) const { return *sites_.at(key_of(contest, mode)); }

  Status open(const Contest& contest, const Mode& mode) {
    auto& site = sites_[key_of(contest, mode)];
    if (site) return {};
    options_.progress(fmt::format("priority: daemon of {}: start, deploy", mode.name));
    QUERN_TRY(site, PrioritySite::create(layout_, folder_, mode, contest.source == GapSource::kTogether));
    return {};
  }

  // The same source, compiled by others and loaded elsewhere: taken side by side, since the device's pace changes.
  Status compare_paces(PrioritySite& site) {
    options_.progress("priority: the same kernel in an executor");
    constexpr int kWarmUps = 3, kPairs = 21;
    QUERN_TRY(const auto work, site.work(1, kProbeGroups, pace_.iterations));
    std::vector<double> ratios;
    for (int i = 0; i < kWarmUps + kPairs; ++i) {
      QUERN_TRY(const auto ended, site.call(work));
      QUERN_TRY(const auto took, urgent_->run(Launcher::kNoGate, {.kernels = 1, .groups = kProbeGroups}));
      if (i >= kWarmUps) ratios.push_back(static_cast<double>(ended->times.device_time_ns) / 1e6 / took.device_ms);
    }
    executor_pace_ = middle_of(ratios).median;
    return {};
  }

  Launcher& urgent(const Contest& contest) const { return contest.source == GapSource::kNear ? *near_ : *urgent_; }

  uint32_t groups_for(double ms) const {
    return static_cast<uint32_t>(std::clamp(std::round(ms * 1e6 / pace_.group_ns), 1.0, 1.0 * Launcher::kMostGroups));
  }

  // What a filler's group takes against one of the urgent one's.
  double filler_pace(const Contest& contest) const {
    const double filler = contest.filler == FillerKind::kProgram ? 1 : executor_pace_;
    return filler / (contest.is_program() ? 1 : executor_pace_);
  }

  // Gates and what is known of gaps are a contest's own: a name that no other has.
  Status enter(const Contest& contest) {
    for (uint32_t gate = 0; gate < contest.modes.size(); ++gate) {
      PrioritySite& site = site_of(contest, contest.modes[gate]);
      const auto join = [&](Launcher& launcher, size_t tenant, const std::string& name) -> Status {
        QUERN_TRY(auto link, site.join(tenant, name));
        joined_.emplace_back(&site, link.program);
        return launcher.join(gate, std::move(link));
      };
      if (contest.is_program()) QUERN_TRY(join(urgent(contest), PrioritySite::kUrgent, contest.name()));
      if (contest.filler != FillerKind::kProgram) continue;
      for (size_t i = 0; i < contest.fillers; ++i)
        QUERN_TRY(join(*program_fillers_[i], 1 + i, fmt::format("{}_filler{}", contest.name(), i)));
    }
    return {};
  }

  Status leave(const Contest& contest) {
    for (const auto& [site, program] : joined_) site->leave(program);
    joined_.clear();
    for (uint32_t gate = 0; gate < contest.modes.size(); ++gate) {
      if (contest.is_program()) QUERN_TRY(urgent(contest).leave(gate));
      if (contest.filler != FillerKind::kProgram) continue;
      for (size_t i = 0; i < contest.fillers; ++i) QUERN_TRY(program_fillers_[i]->leave(gate));
    }
    return {};
  }

  Result<std::vector<std::unique_ptr<Filler>>> begin_fillers(const Contest& contest, uint32_t gate) {
    const Mode& mode = contest.modes[gate];
    const uint32_t groups = groups_for(contest.filler_ms);
    std::vector<std::unique_ptr<Filler>> fillers;
    for (size_t i = 0; i < contest.fillers; ++i) {
      if (contest.filler == FillerKind::kProgram) {
        QUERN_TRY(program_fillers_[i]->set_idle(mode.classes));
        QUERN_TRY(auto filler, ProgramFiller::begin(*program_fillers_[i], gate, groups));
        fillers.push_back(std::move(filler));
      } else {
        PrioritySite& site = site_of(contest, mode);
        const uint32_t kernels = contest.filler_kernels();
        QUERN_TRY(auto work, site.work(1 + i, groups, pace_.iterations, kernels));
        fillers.push_back(
            std::make_unique<FunctionFiller>(site, std::move(work), kernels * groups, kernels * contest.filler_ms));
      }
    }
    const Time limit = os::now() + kStartLimit;
    for (const auto& filler : fillers)
      while (filler->groups_done() == 0) {
        if (os::now() > limit)
          return Error{ErrorCode::kDeadline, fmt::format("{}: a filler did nothing for {}; is its gate closed?",
                                                         contest.row_name(mode), to_string(kStartLimit))};
        settle();
      }
    return fillers;
  }

  /// A task of the urgent one, at this gate and site, or alone.
  Result<Launcher::Took> task(const Contest& contest, std::optional<uint32_t> gate, uint64_t seed) {
    const uint32_t groups = groups_for(contest.kernel_ms);
    const Duration gap{static_cast<int64_t>(contest.gap_ms * 1e6)};
    if (contest.is_program())
      return urgent(contest).run(
          gate.value_or(Launcher::kNoGate),
          {.kernels = kTaskKernels, .groups = groups, .gap = gap, .jitter = contest.jitter, .seed = seed});
    PrioritySite& site = site_of(contest, gate ? contest.modes[*gate] : kNone);
    const bool is_one_run = contest.source == GapSource::kUntil;
    QUERN_TRY(const auto work,
              site.work(PrioritySite::kUrgent, groups, pace_.iterations, is_one_run ? kTaskKernels : 0));
    Launcher::Took took;
    const Time from = os::now();
    Time known = from;
    for (uint32_t i = 0; i < (is_one_run ? 1 : kTaskKernels); ++i) {
      if (i > 0) sleep_until(known + gap);
      QUERN_TRY(const auto ended, site.call(work));
      known = os::now();
      took.device_ms += static_cast<double>(ended->times.device_time_ns) / 1e6;
    }
    took.ms = micros_between(from, known) / 1e3;
    return took;
  }

  /// `count` tasks behind one that is not counted, beside fillers, or alone without a gate. Tasks of the same round
  /// have the same gaps and pauses.
  Result<Block> block(const Contest& contest, std::optional<uint32_t> gate, size_t round, size_t count) {
    std::vector<std::unique_ptr<Filler>> fillers;
    if (gate) {
      QUERN_TRY(fillers, begin_fillers(contest, *gate));
    }
    const auto groups_done = [&] {
      uint64_t groups = 0;
      for (const auto& filler : fillers) groups += filler->groups_done();
      return groups;
    };
    Block done;
    for (size_t i = 0; i <= count; ++i) {
      const uint64_t seed = 1000 * round + i;
      const double part = Prng(~seed).uniform();
      sleep_until(os::now() + kShortestPause +
                  Duration{static_cast<int64_t>(part * static_cast<double>((kLongestPause - kShortestPause).ns))});
      const uint64_t groups_before = groups_done();
      const Time from = os::now();
      QUERN_TRY(const auto took, task(contest, gate, seed));
      const Time to = os::now();
      const uint64_t groups_after = groups_done();
      if (i == 0) continue;
      done.ms.push_back(took.ms);
      done.device_ms.push_back(took.device_ms);
      done.groups += static_cast<double>(groups_after - groups_before);
      done.window_ms += micros_between(from, to) / 1e3;
      done.waited_ms += took.waited_ms;
    }
    for (const auto& filler : fillers) QUERN_TRY(filler->end());
    return done;
  }

  Status round(const Contest& contest, size_t number, std::vector<Figures>& modes, Figures& alone) {
    const size_t count = contest.modes.size();
    std::vector<Block> beside(count), by_itself;
    const auto go_alone = [&]() -> Status {
      QUERN_TRY(by_itself.emplace_back(), block(contest, std::nullopt, number, amounts_.tasks));
      return {};
    };
    QUERN_TRY(go_alone());
    for (size_t i = 0; i < count; ++i) {
      const auto gate = static_cast<uint32_t>((i + number) % count);
      QUERN_TRY(beside[gate], block(contest, gate, number, amounts_.tasks));
      if (i % 2 == 1 || i + 1 == count) QUERN_TRY(go_alone());
    }
    std::vector<double> medians, device_ms;
    for (const Block& one : by_itself) {
      medians.push_back(middle_of(one.ms).median);
      device_ms.insert(device_ms.end(), one.device_ms.begin(), one.device_ms.end());
    }
    const double alone_ms = mean(medians), own_ms = middle_of(device_ms).median;
    const double group_ms = own_ms / (kTaskKernels * groups_for(contest.kernel_ms)) * filler_pace(contest);
    const auto add = [&](const Block& one, Figures& to) {
      to.ratios.push_back(middle_of(one.ms).median / alone_ms);
      const double left_ms = one.window_ms - own_ms * static_cast<double>(one.ms.size());
      to.shares.push_back(one.groups * group_ms / left_ms);
      for (const double ms : one.ms) to.ms.push_back(ms), to.scaled.push_back(ms / alone_ms);
      to.waited_ms += one.waited_ms;
    };
    for (const Block& one : by_itself) add(one, alone);
    for (size_t gate = 0; gate < count; ++gate) add(beside[gate], modes[gate]);
    return {};
  }

  Status compete(const Contest& contest, Time until) {
    options_.progress(where_);
    QUERN_TRY(enter(contest));
    for (uint32_t gate = 0; gate < contest.modes.size(); ++gate)
      if (contest.modes[gate].dispatch != kNone.dispatch)
        QUERN_TRY(block(contest, gate, amounts_.rounds, amounts_.primes - 1));
    std::vector<Figures> modes(contest.modes.size());
    Figures alone;
    size_t rounds = 0;
    for (; rounds < amounts_.rounds && (rounds < amounts_.fewest_rounds || os::now() < until); ++rounds) {
      options_.progress(fmt::format("{}, round {} of {}", where_, rounds + 1, amounts_.rounds));
      QUERN_TRY(round(contest, rounds, modes, alone));
    }
    QUERN_TRY(leave(contest));
    if (rounds < amounts_.rounds && !options_.quick)
      report_.notes.push_back(
          fmt::format("{}: time was short: {} rounds instead of {}", contest.name(), rounds, amounts_.rounds));
    add_rows(contest, modes, alone);
    return {};
  }

  void add_rows(const Contest& contest, const std::vector<Figures>& modes, const Figures& alone) {
    const double alone_ms = middle_of(alone.ms).median;
    std::optional<double> unprotected;
    for (size_t i = 0; i < modes.size(); ++i)
      if (contest.modes[i] == kNone) unprotected = middle_of(modes[i].ratios).median;
    for (size_t i = 0; i < modes.size(); ++i) {
      const Mode& mode = contest.modes[i];
      const Figures& figures = modes[i];
      const std::string name = contest.row_name(mode);
      const Goals goals = goals_of(contest, mode);
      add_ratio(name, figures, alone_ms, goals.ratio);
      add_share(name + "_fill_share", figures, goals.share);
      Row late = row_of(name + "_p95", p95(figures.ms), "ms", p95(alone.ms), goals.p95);
      late.ratio = p95(figures.scaled) / p95(alone.scaled);
      report_.rows.push_back(std::move(late));
      if (unprotected && mode.dispatch == kFill.dispatch && *unprotected > 1) {
        const double saved = (*unprotected - middle_of(figures.ratios).median) / (*unprotected - 1);
        report_.rows.push_back(
            row_of(name + "_saved", saved, "of none's", *unprotected >= kWorthSaving ? ">= 0.95" : ""));
      }
      if (figures.waited_ms > 0)
        report_.notes.push_back(fmt::format("{}: an urgent task waits {:.2f} ms at its gate", name,
                                            figures.waited_ms / static_cast<double>(figures.ms.size())));
      if (mode != kFill) continue;
      for (const double gap_ms : {1.0, 0.2})
        if (contest.is_summed_up(gap_ms)) {
          Summary& summary = summaries_[gap_ms];
          summary.figures.add(figures);
          summary.alone.add(alone);
        }
    }
    report_.notes.push_back(fmt::format("{}: alone {:.2f} ms, rounds within {:.1f} % of their own mean", contest.name(),
                                        alone_ms, 100 * middle_of(alone.ratios).spread));
  }

  void add_ratio(const std::string& name, const Figures& figures, double alone_ms, const std::string& goal) {
    const Middle ratio = middle_of(figures.ratios);
    Row row = row_of(name, middle_of(figures.ms).median, "ms", alone_ms, goal);
    row.ratio = ratio.median;
    row.spread = ratio.spread;
    report_.rows.push_back(std::move(row));
  }

  void add_share(const std::string& name, const Figures& figures, const std::string& goal) {
    const Middle share = middle_of(figures.shares);
    Row row = row_of(name, share.median, "of what is left", goal);
    row.spread = share.spread;
    report_.rows.push_back(std::move(row));
  }

  // All rounds of all fillers, as if they were one row's.
  void sum_up() {
    const auto ratio = [&](const std::string& name, double gap_ms) {
      if (const auto found = summaries_.find(gap_ms); found != summaries_.end() && options_.wants(name))
        add_ratio(name, found->second.figures, middle_of(found->second.alone.ms).median, "<= 1.02");
    };
    ratio("urgent_1ms", 1);
    if (const auto found = summaries_.find(1); found != summaries_.end() && options_.wants("fill_1ms"))
      add_share("fill_1ms", found->second.figures, ">= 0.88");
    ratio("urgent_0.2ms", 0.2);
  }

  struct Summary {
    Figures figures, alone;
  };

  // Constant after construction.
  const Options& options_;
  Report& report_;
  const Amounts amounts_;
  const Layout layout_;
  const std::string folder_;
  const Time deadline_;
  // Constant once it is prepared.
  Launcher::Pace pace_;
  double executor_pace_ = 1;  ///< what a group takes in an executor against one in a launcher
  /// By mode, and whether all are in one executor.
  std::map<std::pair<std::string_view, bool>, std::unique_ptr<PrioritySite>> sites_;
  std::unique_ptr<Launcher> urgent_, near_;  ///< with a thread of their own on the host's core, and on the device's
  std::vector<std::unique_ptr<Launcher>> program_fillers_;
  // Of the contest.
  std::vector<std::pair<PrioritySite*, uint64_t>> joined_;
  std::string where_;
  // Of all so far.
  std::map<double, Summary> summaries_;  ///< by gap
};

}  // namespace

Status run_priority(const Options& options, Report& report) {
  Layout layout = Layout::here();
  report.layout = layout.device != layout.host
                      ? fmt::format(
                            "workers of launchers and executors, and these' launch threads, on core {}; all "
                            "else, launchers' own threads too, on core {}",
                            layout.device, layout.host)
                      : layout.text;
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  os::want_exact_timers();
  os::start_log(os::Level::kWarning);
  QUERN_TRY(const auto folder, Folder::create());
  return Priorities(options, report, std::move(layout), folder.path()).run();
}

}  // namespace quern::bench
