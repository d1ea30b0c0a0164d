// SPDX-License-Identifier: Apache-2.0
//
// Windows that are told before they begin: of a gap that is expected, and of a run that is about to end.
#include <algorithm>

#include "sched/dispatch.h"

namespace quern::sched {
namespace {

// How long before a gap begins what is to fill it may be launched: in one process launches are executed in their order,
// and take so long to reach the device. In another one it would overlap with a kernel that is not over: so long after
// it. And how long before the window is published, and how long it holds if nobody tells of the gap.
constexpr Duration kAhead = Duration::micros(80), kApart = Duration::micros(10);
constexpr Duration kPublished = Duration::micros(50), kOverdue = Duration::micros(150);

}  // namespace

void Dispatch::begin_to_fill(Launcher& launcher, Time now) {
  const Time begins = launcher.grant.open ? std::max(now, launcher.grant.from) : now + config_.launch_latency;
  const bool is_known = launcher.run && launcher.expected.ns > 0;
  launcher.fills_until = is_known ? begins + std::max(launcher.expected - launcher.told_used, Duration{0}) : Time{0};
}

// One run is as long as it is, and the next one is another lane's: to hear of the end and to open that takes longer
// than some runs do. It has its window from the time at which the other is expected to have ended: whatever it launches
// sooner waits behind the other, which is of the same process.
Dispatch::Launcher* Dispatch::relay_of(Place& place, const Launcher& filler, const Pause& pause, Time now) {
  if (is_program(filler.id) || filler.fills_until.ns == 0 || !pause.gap.is_known || now > pause.late() ||
      filler.fills_until + config_.shortest_gap > pause.back())
    return nullptr;
  Launcher* best = nullptr;
  for (const LauncherId id : place.launchers) {
    Launcher& one = launchers_.at(id);
    if (is_program(id) || id == filler.id || executor_of(id) != executor_of(filler.id) || one.rank != filler.rank ||
        one.is_spent || !one.sliceable() || one.state != Launcher::State::kWorking)
      continue;
    if (!best || one.opened_ns < best->opened_ns) best = &one;
  }
  return best;
}

// Only where one launcher is all that is more urgent: what several leave when they pause is not known.
std::optional<Dispatch::Ahead> Dispatch::next_end(Place& place, uint8_t top, Time now) {
  const Launcher* urgent = nullptr;
  for (const LauncherId id : place.launchers) {
    const Launcher& one = launchers_.at(id);
    if (one.rank > top || one.is_spent || one.state == Launcher::State::kIdle) continue;
    if (urgent || one.state == Launcher::State::kPausing || one.ends.ns == 0) return std::nullopt;
    urgent = &one;
  }
  if (!urgent) return std::nullopt;
  for (const auto& [function, absent] : place.absent)
    if (absent.rank <= top && (absent.is_back || absent.pause.gap.is_known)) return std::nullopt;
  const bool is_run = !is_program(urgent->id);
  const Gaps::Prediction gap = is_run ? gaps_.of(urgent->device, urgent->function, Gaps::kBetweenRuns) : urgent->then;
  if (!gap.is_known || gap.median < config_.shortest_gap || gap.median > kLongPause) return std::nullopt;
  const Ahead ahead{urgent->id, urgent->rank, {urgent->ends, gap, latency_of(urgent->device, urgent->function)}};
  if (now > urgent->ends + kOverdue || !next_in(place, ahead)) return std::nullopt;
  const Time published = {urgent->ends.ns - kAhead.ns - kPublished.ns};
  place.look_at(now < published ? published : urgent->ends + kOverdue + Duration{1});
  return now < published ? std::nullopt : std::optional(ahead);
}

Dispatch::Launcher* Dispatch::next_in(Place& place, const Ahead& ahead) {
  Launcher* best = nullptr;
  for (const LauncherId id : place.launchers) {
    Launcher& one = launchers_.at(id);
    // When a run of another process ends is not known well enough: its kernels began some time after it did.
    if (is_program(id) || one.rank <= ahead.rank || one.is_spent || !one.sliceable() ||
        one.state != Launcher::State::kWorking ||
        (!is_program(ahead.launcher) && executor_of(ahead.launcher) != executor_of(id)))
      continue;
    if (!best || one.rank < best->rank || (one.rank == best->rank && one.opened_ns < best->opened_ns)) best = &one;
  }
  return best;
}

Grant Dispatch::grant_ahead(const Launcher& launcher, const Ahead& ahead, Time now) const {
  Grant grant = fill_grant(launcher, ahead.pause, now);
  const bool is_beside = !is_program(ahead.launcher);
  grant.from = is_beside ? Time{ahead.pause.began.ns - kAhead.ns} : ahead.pause.began + kApart;
  return grant;
}

}  // namespace quern::sched
