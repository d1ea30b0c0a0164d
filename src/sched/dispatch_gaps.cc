// SPDX-License-Identifier: Apache-2.0
//
// What is learned of pauses: how long they are, when the next one begins, and what lies between their end and the first
// kernel after it.
#include <algorithm>

#include "sched/dispatch.h"

namespace quern::sched {
namespace {

// A launch that takes longer to reach the device was held up.
constexpr Duration kLongestLaunch = Duration::micros(300);
// Of so many gaps one is left clear at its end, so that it shows how long a launch takes.
constexpr uint32_t kClearEvery = 16;

}  // namespace

// Who fills a gap until the next kernel can begin is in its way by as much as it errs, and what is seen then counts
// that: from all gaps each would make the next longer. So some end when the other is expected, and those are learned
// from: the first, until there are enough, and one now and then.
Duration Dispatch::latency_of(DeviceId device, FunctionId function) const {
  const Gaps::Prediction seen = gaps_.of(device, function, Gaps::kLaunching);
  const auto count = returns_.find({function, device});
  const bool is_clear = count != returns_.end() && (!seen.is_known || count->second % kClearEvery == 0);
  if (is_clear) return {0};
  return seen.is_known ? std::min(seen.early, kLongestLaunch) : config_.launch_latency;
}

bool Dispatch::is_clear(const Place& place, const Pause& pause) {
  const bool is_filled = place.filler && place.filled == pause.began;
  return !is_filled || (pause.gap.is_stable && pause.latency.ns == 0);
}

void Dispatch::learn_latency(const Launcher& launcher, Time started) {
  if (started.ns == 0 || launcher.ready_at.ns == 0 || started < launcher.ready_at) return;
  ++returns_[{launcher.function, launcher.device}];
  if (launcher.was_clear) gaps_.add(launcher.device, launcher.function, Gaps::kLaunching, started - launcher.ready_at);
}

// How long it took before counts what it takes to launch, too; but what it is about to do now it knows better, if gaps
// are known by what they come after.
void Dispatch::expect_gap(Launcher& program, bool pauses, Time since) {
  const auto burst = bursts_.of(program.device, program.function, program.after);
  program.ends = burst ? since + burst->length : Time{0};
  program.then = burst ? gaps_.of(program.device, program.function, burst->after) : Gaps::Prediction{};
  const uint64_t last = pauses ? program.kernels.back().identity : 0;
  if (last == 0 || (burst && burst->after == last)) return;
  const Gaps::Prediction told = gaps_.of(program.device, program.function, last);
  if (!told.is_known) return;
  program.then = told;
  program.ends = since + latency_of(program.device, program.function);
  for (const KernelAhead& kernel : program.kernels) {
    if (kernel.time.ns == 0) {
      program.ends = {0};
      return;
    }
    program.ends = program.ends + kernel.time;
  }
}

void Dispatch::gap_begun(const GapBegun& gap, Time now) {
  const auto it = launchers_.find(gap.launcher);
  if (it == launchers_.end() || it->second.state != Launcher::State::kWorking) return;
  Launcher& launcher = it->second;
  const Time at = std::min(gap.at, now);
  learn_latency(launcher, std::min(gap.started, at));
  if (const Time since = std::exchange(launcher.ready_at, Time{0}); since.ns != 0)
    bursts_.add(launcher.device, launcher.function, launcher.after, at - since, gap.after);
  launcher.ends = {0};
  launcher.state = Launcher::State::kPausing;
  launcher.has_told = true;
  launcher.after = gap.after;
  launcher.pause = {at, gaps_.of(launcher.device, launcher.function, gap.after),
                    latency_of(launcher.device, launcher.function)};
  touch(launcher.device);
}

void Dispatch::gaps_known(const GapsKnown& known) {
  for (const Duration gap : known.gaps) learn_gap(known.device, known.function, known.after, gap);
}

// FIKIT measures once, before it serves: what it knows then it keeps.
void Dispatch::learn_gap(DeviceId device, FunctionId function, uint64_t after, Duration gap) {
  if (!arbitration_.varies && gaps_.of(device, function, after).is_known) return;
  gaps_.add(device, function, after, gap);
}

}  // namespace quern::sched
