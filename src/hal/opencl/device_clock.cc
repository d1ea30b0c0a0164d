// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/device_clock.h"

#include <algorithm>

namespace quern::hal::opencl {

void DeviceClock::set(Duration to_steady, Time now) {
  to_steady_ns_ = to_steady.ns;
  width_ns_ = 0;
  read_ = now;
}

void DeviceClock::saw(Time before, int64_t device_ns, Time after) {
  const int64_t width_ns = (after - before).ns;
  if (!is_stale(after) && width_ns > width_ns_) return;
  // Drift since the last bracket makes a much wider one no better.
  if (is_known() && width_ns > width_ns_ + (after - read_).ns / 1000 + kTolerance.ns) return;
  to_steady_ns_ = before.ns + width_ns / 2 - device_ns;
  width_ns_ = width_ns;
  read_ = after;
}

void DeviceClock::saw_command(Time before, Time after, Time seen, const Stamps& stamps) {
  const bool is_ordered = stamps.queued_ns <= stamps.start_ns && stamps.start_ns <= stamps.end_ns;
  const bool fits = stamps.end_ns - stamps.queued_ns <= (seen - before).ns + kTolerance.ns;
  if (stamps.queued_ns > 0 && is_ordered && fits) return saw(before, stamps.queued_ns, after);
  // The bracket of START is as wide as what the command did not take, so that a long one is no worse than a short one.
  const int64_t took_ns = std::clamp<int64_t>(stamps.end_ns - stamps.start_ns, 0, (seen - before).ns);
  saw(before, stamps.end_ns - took_ns, {seen.ns - took_ns});
}

Interval DeviceClock::place(const Stamps& stamps, Time submitted, Time seen) {
  const int64_t first_ns = std::min(std::max(submitted.ns, last_end_ns_), seen.ns);
  const int64_t start_ns = stamps.start_ns + to_steady_ns_, end_ns = stamps.end_ns + to_steady_ns_;
  // Durations are believed before positions: the device counted them with one clock.
  const int64_t took_ns = std::clamp<int64_t>(end_ns - start_ns, 0, seen.ns - first_ns);
  Interval placed;
  placed.start_ns = std::clamp(start_ns, first_ns, seen.ns - took_ns);
  placed.end_ns = placed.start_ns + took_ns;
  // The launch before may have been moved itself: only what was seen makes stamps wrong.
  const bool is_early = start_ns < submitted.ns - kTolerance.ns, is_late = end_ns > seen.ns + kTolerance.ns;
  const bool is_wrong = is_early || is_late || end_ns < start_ns;
  if (is_wrong) {
    ++corrected_;
    width_ns_ = kNever;
  }
  last_end_ns_ = placed.end_ns;
  return placed;
}

}  // namespace quern::hal::opencl
