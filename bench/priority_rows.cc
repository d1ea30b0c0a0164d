// SPDX-License-Identifier: Apache-2.0
#include "bench/priority_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace quern::bench {
namespace {

using Modes = std::vector<Mode>;

// Of a call of a filler, unless one kernel is longer: what a model takes.
constexpr double kFillerCallMs = 10;

Contest contest(GapSource source, double kernel_ms, double gap_ms, double filler_ms, size_t fillers, Modes modes) {
  Contest made;
  made.source = source;
  made.kernel_ms = kernel_ms;
  made.gap_ms = gap_ms;
  made.filler_ms = filler_ms;
  made.fillers = fillers;
  made.modes = std::move(modes);
  return made;
}

Contest jittery(double jitter, Modes modes) {
  Contest made = contest(GapSource::kProgram, 2.5, 1, 5, 1, std::move(modes));
  made.jitter = jitter;
  return made;
}

// 24 rows. The first contest has every mode; the others change one thing of it at a time and have the mode that is
// judged, with `none` where it says what was at stake: the shortest gap, many fillers, short kernels, a client.
std::vector<Contest> stated() {
  using enum GapSource;
  return {
      contest(kProgram, 2.5, 1, 5, 1, {kNone, kIdle, kFikit, kFill, kFillClass}),
      // Fillers whose kernels are shorter than a gap, and far longer; four of them, of which one is to fill.
      contest(kProgram, 2.5, 1, 0.2, 1, {kFill}),
      contest(kProgram, 2.5, 1, 20, 1, {kFill}),
      contest(kProgram, 2.5, 1, 1, 4, {kNone, kFill}),
      // Other gaps.
      contest(kProgram, 2.5, 0.2, 5, 1, {kNone, kFill, kFillClass}),
      contest(kProgram, 2.5, 0.5, 5, 2, {kFill}),
      contest(kProgram, 2.5, 2, 5, 1, {kFill}),
      contest(kProgram, 2.5, 5, 1, 1, {kFill}),
      jittery(0.3, {kFill}),
      jittery(0.8, {kFill}),
      // Short kernels: what one of them waits is a larger part of it.
      contest(kProgram, 0.5, 0.2, 5, 1, {kNone, kFill}),
      contest(kProgram, 0.5, 1, 5, 1, {kFill}),
      // Gaps between runs, and inside one.
      contest(kClient, 2.5, 1, 5, 1, {kNone, kFill}),
      contest(kTogether, 2.5, 1, 5, 1, {kFill}),
      contest(kUntil, 2.5, 0, 5, 1, {kFill}),
  };
}

std::vector<Contest> matrix() {
  const Modes all{kNone, kIdle, kFikit, kFill, kFillClass};
  std::vector<Contest> contests;
  const auto add = [&](GapSource source, double kernel_ms, double gap_ms, double jitter, FillerKind filler) {
    for (const size_t fillers : {1, 2, 4})
      for (const double filler_ms : {0.2, 1.0, 5.0, 20.0}) {
        Contest one = contest(source, kernel_ms, gap_ms, filler_ms, fillers, all);
        one.jitter = jitter;
        one.filler = filler;
        contests.push_back(std::move(one));
      }
  };
  for (const GapSource source : {GapSource::kProgram, GapSource::kClient, GapSource::kTogether, GapSource::kNear})
    for (const double kernel_ms : {2.5, 0.5})
      for (const double gap_ms : {0.2, 0.5, 1.0, 2.0, 5.0}) add(source, kernel_ms, gap_ms, 0, FillerKind::kFunction);
  for (const double jitter : {0.3, 0.8})
    for (const double kernel_ms : {2.5, 0.5}) add(GapSource::kProgram, kernel_ms, 1, jitter, FillerKind::kFunction);
  for (const double kernel_ms : {2.5, 0.5}) add(GapSource::kUntil, kernel_ms, 0, 0, FillerKind::kFunction);
  for (const FillerKind filler : {FillerKind::kCall, FillerKind::kProgram})
    for (const double kernel_ms : {2.5, 0.5})
      for (const double gap_ms : {0.2, 0.5, 1.0, 2.0, 5.0})
        add(GapSource::kProgram, kernel_ms, gap_ms, 0, filler);
  return contests;
}

bool is_wanted(const Options& options, const Contest& contest, const Mode& mode) {
  if (options.wants(contest.row_name(mode))) return true;
  if (mode != kFill) return false;
  return (contest.is_summed_up(1) && (options.wants("urgent_1ms") || options.wants("fill_1ms"))) ||
         (contest.is_summed_up(0.2) && options.wants("urgent_0.2ms"));
}

std::vector<Contest> wanted_of(const Options& options, std::vector<Contest> contests) {
  for (Contest& one : contests)
    std::erase_if(one.modes, [&](const Mode& mode) { return !is_wanted(options, one, mode); });
  std::erase_if(contests, [](const Contest& one) { return one.modes.empty(); });
  return contests;
}

}  // namespace

std::string Contest::name() const {
  const char* kind = filler == FillerKind::kFunction ? "filler" : filler == FillerKind::kCall ? "call" : "program";
  const std::string beside = fmt::format("{}{:g}x{}", kind, filler_ms, fillers);
  if (source == GapSource::kUntil) return fmt::format("until_{:g}ms_{}", kernel_ms, beside);
  const char* letter = source == GapSource::kProgram  ? "a"
                       : source == GapSource::kClient ? "b"
                       : source == GapSource::kNear   ? "d"
                                                      : "c";
  return fmt::format("{}_{:g}ms_gap{:g}{}_{}", letter, kernel_ms, gap_ms,
                     jitter > 0 ? fmt::format("j{:g}", 100 * jitter) : "", beside);
}

uint32_t Contest::filler_kernels() const {
  if (filler == FillerKind::kCall) return 1;
  return static_cast<uint32_t>(std::clamp(std::round(kFillerCallMs / filler_ms), 1.0, 50.0));
}

bool Contest::is_summed_up(double of_gap_ms) const {
  return source == GapSource::kProgram && filler == kStatedFiller && kernel_ms == 2.5 && jitter == 0 &&
         gap_ms == of_gap_ms;
}

Goals goals_of(const Contest& contest, const Mode& mode) {
  if (contest.jitter > 0 && mode.dispatch == kFill.dispatch) return {"<= 1.03", ">= 0.85", ""};
  if (mode == kFillClass) return {"<= 1.01", ">= 0.95", "<= 1.05"};
  if (mode == kFill) return {"<= 1.02", contest.gap_ms >= 1 ? ">= 0.88" : "", ""};
  return {};
}

std::vector<Contest> contests_of(const Options& options) {
  auto wanted = wanted_of(options, options.full ? matrix() : stated());
  // Any row of the matrix can be asked for by its name.
  if (wanted.empty()) wanted = wanted_of(options, matrix());
  return wanted;
}

}  // namespace quern::bench
