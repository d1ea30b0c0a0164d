// SPDX-License-Identifier: Apache-2.0
#include "daemon/story.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace quern::daemon {
namespace {

std::string show(Duration time) { return show_time(static_cast<double>(std::max<int64_t>(0, time.ns))); }
std::string since(Time from, Time to) { return show(to - from); }

}  // namespace

std::vector<std::string> tell(const Story& story, Time now) {
  const RequestStatus& request = story.status;
  const CallTimes& times = story.times;
  std::vector<std::string> lines;
  const bool has_ended = times.answered.ns != 0;
  const Time end = has_ended ? times.answered : now;
  lines.push_back(
      fmt::format("{} of {} {} {}.", request.id, request.function,
                  has_ended ? fmt::format("ended ({}) after", request.end) : fmt::format("is {}, for", request.state),
                  since(times.submitted, end)));
  const Time placed = times.placed.ns != 0 ? times.placed : times.pushed;
  if (placed.ns == 0) {
    lines.push_back(has_ended ? "It never got a place on a device: it waited for its turn all the time."
                              : "It waits for its turn: the devices are busy with others, or it is not the next.");
    return lines;
  }
  lines.push_back(fmt::format("It waited {} for its turn{}.", since(times.submitted, placed),
                              request.device.empty() ? "" : fmt::format(", then got a place on {}", request.device)));
  if (story.setup.empty()) {
    lines.push_back("All it needs was there: nothing had to be set up.");
  } else {
    const Time ready = times.pushed.ns != 0 ? times.pushed : end;
    Duration sum{0};
    const Phase* longest = nullptr;
    for (const Phase& phase : story.setup) {
      const Duration took = phase.to - phase.from;
      sum = sum + took;
      if (!longest || took > longest->to - longest->from) longest = &phase;
      lines.push_back(fmt::format("  {} took {}, from {} after its place{}{}.", phase.name, show(took),
                                  since(placed, phase.from), phase.detail.empty() ? "" : ": ", phase.detail));
    }
    lines.push_back(
        fmt::format("Set-up took {} in all; one after another its parts would have taken {}. The longest was "
                    "{}.",
                    since(placed, ready), show(sum), longest->name));
  }
  if (times.gated.ns > 0)
    lines.push_back(fmt::format("Its gate was closed for {} in all: {} was more urgent.", show(times.gated),
                                times.gated_for.empty() ? "another run or program on the device"
                                                        : fmt::format("function {}", times.gated_for)));
  if (times.finished.ns != 0 && times.started.ns != 0) {
    lines.push_back(fmt::format("It was on the device from {} to {} after it came, and used {} of device time.",
                                since(times.submitted, times.started), since(times.submitted, times.finished),
                                show(Duration{static_cast<int64_t>(times.device_time_ns)})));
  } else if (!has_ended) {
    lines.push_back("It has not been reported done yet.");
  }
  return lines;
}

}  // namespace quern::daemon
