// SPDX-License-Identifier: Apache-2.0
#include "daemon/story.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace quern::daemon {
namespace {

using Lines = std::vector<std::string>;

constexpr Duration kLong = Duration::millis(1);

std::string show(Duration time) { return show_time(static_cast<double>(std::max<int64_t>(0, time.ns))); }
std::string since(Time from, Time to) { return show(to - from); }

bool is_worth_telling(Duration time, Duration life) { return time.ns > 0 && (time > kLong || time.ns * 20 > life.ns); }

void tell_turn(const Story& story, Duration life, Lines& lines) {
  const Waits& waits = story.times.waits;
  if (const Duration own = waits.of(Cause::kQueue); is_worth_telling(own, life))
    lines.push_back(fmt::format("It waited {} behind earlier work of its own tenant (queue).", show(own)));
  if (const Duration others = waits.of(Cause::kFairness); is_worth_telling(others, life))
    lines.push_back(fmt::format("It waited {} while other tenants had their turn (fairness).", show(others)));
}

void tell_setup(const Story& story, Time placed, Time end, Lines& lines) {
  const Duration took = story.times.waits.of(Cause::kSetup);
  if (story.setup.empty()) {
    lines.push_back(took > kLong ? fmt::format("It took {} to get ready (setup).", show(took))
                                 : "All it needs was there: nothing had to be set up.");
    return;
  }
  const Time ready = story.times.pushed.ns != 0 ? story.times.pushed : end;
  Duration sum{0};
  const Phase* longest = nullptr;
  for (const Phase& phase : story.setup) {
    const Duration length = phase.to - phase.from;
    sum = sum + length;
    if (!longest || length > longest->to - longest->from) longest = &phase;
    lines.push_back(fmt::format("  {} took {}, from {} after its place{}{}.", phase.name, show(length),
                                since(placed, phase.from), phase.detail.empty() ? "" : ": ", phase.detail));
  }
  lines.push_back(
      fmt::format("Set-up took {} in all; one after another its parts would have taken {}. The longest was "
                  "{}.",
                  since(placed, ready), show(sum), longest->name));
}

void tell_gate(const Story& story, Duration life, Lines& lines) {
  const Waits& waits = story.times.waits;
  for (const Waits::Urgent& one : waits.urgent)
    if (is_worth_telling(one.time, life))
      lines.push_back(fmt::format(
          "Its gate was closed for {} in all: {} was more urgent.", show(one.time),
          one.function.empty() ? "another tenant's run, or a program," : fmt::format("function {}", one.function)));
  if (const Duration quota = waits.of(Cause::kQuota); is_worth_telling(quota, life))
    lines.push_back(fmt::format(
        "Its gate was closed for {} in all: its function had none of its share left, of time or of units (quota).",
        show(quota)));
  if (const auto& whole = story.times.whole; whole && is_worth_telling(whole->held, life))
    lines.push_back(fmt::format("Its kernel {} kept more urgent work waiting for {}: it cannot be cut ({}).",
                                whole->entry, show(whole->held), whole->why));
}

// What shut the function out, until when, and what helps.
void tell_quarantine(const Story& story, Time now, Lines& lines) {
  const std::optional<Quarantine>& quarantine = story.times.quarantine;
  if (!quarantine) return;
  lines.push_back(
      fmt::format("Its function was quarantined: its kernels crashed or hung {} times in a row, with no good run "
                  "between, and each time an executor process was lost.",
                  quarantine->kills));
  lines.push_back(quarantine->until > now
                      ? fmt::format("Until the quarantine ends, in {}, every call of this version is refused.",
                                    since(now, quarantine->until))
                      : fmt::format("The quarantine ended {} ago, unless the function crashed or hung again since.",
                                    since(quarantine->until, now)));
  lines.push_back(
      "Deploy a mended version, which is let in at once, or call again after that time; one further crash or hang "
      "then begins another quarantine. 'quern requests' lists the calls that failed before.");
}

std::string count(uint64_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

void tell_account(const RequestAccount& account, Lines& lines) {
  Lines parts;
  if (account.runs > 0)
    parts.push_back(fmt::format("{} of device time in {}", show(Duration{static_cast<int64_t>(account.device_time_ns)}),
                                count(account.runs, "run")));
  parts.push_back(fmt::format("{} in", show_bytes(account.bytes_in)));
  parts.push_back(fmt::format("{} out", show_bytes(account.bytes_out)));
  if (account.loads > 0)
    parts.push_back(fmt::format("{} ({})", count(account.loads, "load"), show_bytes(account.loaded_bytes)));
  if (account.evictions > 0)
    parts.push_back(fmt::format("{} to make room for it ({})", count(account.evictions, "eviction"),
                                show_bytes(account.evicted_bytes)));
  lines.push_back(fmt::format("Its account: {}.", fmt::join(parts, ", ")));
}

}  // namespace

std::vector<std::string> tell(const Story& story, Time now) {
  const RequestStatus& request = story.status;
  const CallTimes& times = story.times;
  Lines lines;
  const bool has_ended = times.answered.ns != 0;
  const Time end = has_ended ? times.answered : now;
  const Duration life = end - times.submitted;
  lines.push_back(fmt::format(
      "{} of {} {} {}.", request.id, request.function,
      has_ended ? fmt::format("ended ({}) after", request.end) : fmt::format("is {}, for", request.state), show(life)));
  tell_quarantine(story, now, lines);
  const Time placed = times.placed.ns != 0 ? times.placed : times.pushed;
  if (placed.ns == 0) {
    if (!times.quarantine)
      lines.push_back(has_ended ? "It never got a place on a device: it waited for its turn all the time."
                                : "It waits for its turn: the devices are busy with others, or it is not the next.");
    tell_turn(story, life, lines);
    tell_account(story.account, lines);
    return lines;
  }
  lines.push_back(fmt::format("It waited {} for its turn{}.", since(times.submitted, placed),
                              request.device.empty() ? "" : fmt::format(", then got a place on {}", request.device)));
  tell_turn(story, life, lines);
  if (const Duration room = times.waits.of(Cause::kMemory); is_worth_telling(room, life))
    lines.push_back(fmt::format("It waited {} for room: what was in memory had to leave first (memory).", show(room)));
  tell_setup(story, placed, end, lines);
  tell_gate(story, life, lines);
  if (times.finished.ns != 0 && times.started.ns != 0) {
    lines.push_back(fmt::format("It was on the device from {} to {} after it came, and used {} of device time.",
                                since(times.submitted, times.started), since(times.submitted, times.finished),
                                show(Duration{static_cast<int64_t>(times.device_time_ns)})));
  } else if (!has_ended) {
    lines.push_back("It has not been reported done yet.");
  }
  tell_account(story.account, lines);
  return lines;
}

}  // namespace quern::daemon
