// SPDX-License-Identifier: Apache-2.0
#include "sched/dispatch.h"

#include <algorithm>

#include "sched/mutant.h"
#include "sched/policy/table.h"
#include "sched/rectangles.h"

namespace quern::sched {
namespace {

// Past its predicted return, until it is taken for one that does not come soon.
constexpr Duration kLate = Duration::micros(200);
// From a call to its run: if that does not come, it went elsewhere.
constexpr Duration kOnItsWay = Duration::millis(2);
// So long after a device was shared it is known who may come back, and programs tell what they do; where it never is,
// nobody has to know.
constexpr Duration kLately = Duration::seconds(1);
constexpr size_t kMostAbsent = 64;
// A program that is alone sums up every millisecond.
constexpr Duration kSeenLately = Duration::millis(5);
// The largest slice: who fills a stable gap stops by itself, and is cut only for the case that the other is early.
constexpr Duration kLargestSlice = Duration::micros(500);

// What it takes to end a slice and to begin the next with two in flight (7 to 13 us: `./quern bench slice`, cost_…_d2),
// and how much more a moment of an urgent launcher counts than one of who fills its gaps.
constexpr Duration kSliceCost = Duration::micros(13);
constexpr int64_t kUrgency = 5;
constexpr Duration kStep = Duration::micros(10);  // of slices that are found so: a grant is not to change for less

constexpr uint8_t kNobody = 2 * kLeastUrgent + 2;
// After which a gap began that nobody told of.
constexpr uint64_t kNowhere = UINT64_MAX - 1;

}  // namespace

Time Dispatch::Pause::late() const {
  return began + (gap.is_stable ? gap.median : Duration{2 * gap.median.ns}) + kLate;
}

Grant Dispatch::free_grant(LauncherId launcher) const {
  Grant grant;
  grant.launcher = launcher;
  grant.open = true;
  grant.depth = {config_.depth.ns * (QUERN_MUTANT(46) ? 2 : 1)};
  grant.slice = {arbitration_.slices ? config_.depth.ns / 2 : 0};
  return grant;
}

Grant first_grant(const Config& config) {
  return Dispatch(config, *make_dispatch(config.policy.dispatch)).free_grant({});
}

bool Dispatch::is_open(LauncherId launcher) const {
  const auto found = launchers_.find(launcher);
  return found == launchers_.end() || found->second.grant.open;
}

void Dispatch::program_up(const Who& who, Time now) {
  const auto [it, fresh] = launchers_.try_emplace(who.launcher);
  QUERN_CHECK(fresh, "a program's number was used twice");
  Launcher& program = it->second;
  program.id = who.launcher;
  program.device = who.device;
  program.function = who.function;
  program.priority = who.priority;
  program.quota = who.quota;
  program.grant.launcher = who.launcher;  // closed
  program.after = kNowhere;
  program.state = Launcher::State::kPausing;
  program.pause.began = program.owed_at = now;
  if (program.has_quota()) {
    quotas_.hold(who.function, who.quota, now);
    quota_set(who.function, who.quota, now);
  }
  places_[who.device].launchers.insert(who.launcher);
  touch(who.device);
}

void Dispatch::gone(LauncherId id, Time) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end()) return;
  const Launcher& launcher = it->second;
  places_[launcher.device].launchers.erase(id);
  touch(launcher.device);
  if (launcher.has_quota() && (is_program(id) || launcher.run)) quotas_.release(launcher.function);
  launchers_.erase(it);
}

void Dispatch::run_began(const Who& who, RunId run, bool is_ready, Time now) {
  const auto [it, fresh] = launchers_.try_emplace(who.launcher);
  Launcher& lane = it->second;
  if (fresh) {
    lane.id = who.launcher;
    lane.device = who.device;
    lane.grant = free_grant(who.launcher);
  }
  lane.function = who.function;
  lane.priority = who.priority;
  lane.quota = who.quota;
  if (lane.has_quota()) quotas_.hold(who.function, who.quota, now);
  lane.told_used = {0};
  lane.expected = who.expected;
  lane.ends = is_ready ? end_of(lane, now) : Time{0};
  lane.ready_at = {0};
  lane.run = run;
  lane.state = is_ready ? Launcher::State::kWorking : Launcher::State::kIdle;
  lane.kernels.clear();
  lane.owed_ns = 0;
  lane.owed_at = now;
  lane.turn_until = {0};
  lane.has_units = lane.asks_units = lane.is_owed = lane.is_spent = false;
  lane.owed_since = Time::never();
  lane.first_unit = first_unit_of(who.device, who.function, who.quota);
  Place& place = places_[who.device];
  place.launchers.insert(who.launcher);
  const Time back = came_back(place, lane);
  if (is_ready) lane.ready_at = back;
  touch(who.device);
}

void Dispatch::run_ready(LauncherId id, Time now) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end() || it->second.state != Launcher::State::kIdle || !it->second.run) return;
  it->second.state = Launcher::State::kWorking;
  it->second.owed_at = now;
  it->second.ends = end_of(it->second, now);
  touch(it->second.device);
}

Time Dispatch::end_of(const Launcher& lane, Time now) const {
  return lane.expected.ns > 0 ? now + config_.launch_latency + lane.expected : Time{0};
}

void Dispatch::run_ended(LauncherId id, Time now) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end() || !it->second.run) return;
  Launcher& lane = it->second;
  lane.run.reset();
  lane.state = Launcher::State::kIdle;
  Place& place = places_[lane.device];
  if (lane.has_quota()) quotas_.release(lane.function);
  if (!QUERN_MUTANT(44)) place.launchers.erase(id);
  touch(lane.device);
  if (!arbitration_.fills || lane.priority == kLeastUrgent || place.absent.size() >= kMostAbsent) return;
  const bool is_shared = std::any_of(place.launchers.begin(), place.launchers.end(),
                                     [&](LauncherId other) { return launchers_.at(other).priority > lane.priority; });
  if (!is_shared && !is_lately_shared(place, now)) return;
  const bool has_other = std::any_of(place.launchers.begin(), place.launchers.end(), [&](LauncherId id) {
    const Launcher& other = launchers_.at(id);
    return other.function == lane.function && other.priority <= lane.priority;
  });
  if (has_other) return;
  place.absent[lane.function] = {
      rank_of(lane.priority, false),
      {now, gaps_.of(lane.device, lane.function, Gaps::kBetweenRuns), latency_of(lane.device, lane.function)},
      false};
  absent_on_[lane.function].insert(lane.device);
}

bool Dispatch::is_lately_shared(const Place& place, Time now) {
  return place.shared_at.ns != 0 && now - place.shared_at <= kLately;
}

void Dispatch::called(FunctionId function, Time now) {
  const auto devices = absent_on_.find(function);
  if (devices == absent_on_.end()) return;
  for (const DeviceId device : devices->second) {
    Absent& absent = places_[device].absent.at(function);
    if (absent.is_back) continue;
    learn_gap(device, function, Gaps::kBetweenRuns, now - absent.pause.began);
    absent.is_clear = is_clear(places_[device], absent.pause);
    // It may run here or elsewhere; the room is made at once, and only for a moment.
    absent.is_back = true;
    absent.pause.began = now;
    touch(device);
  }
}

Time Dispatch::came_back(Place& place, Launcher& lane) {
  const auto absent = place.absent.extract(lane.function);
  if (!absent) return {0};
  // The others that waited for it wait for nothing.
  const auto devices = absent_on_.extract(lane.function);
  for (const DeviceId other : devices.mapped()) {
    places_[other].absent.erase(lane.function);
    touch(other);
  }
  lane.was_clear = absent.mapped().is_clear;
  return absent.mapped().is_back ? absent.mapped().pause.began : Time{0};
}

void Dispatch::used(LauncherId id, Duration time, Time now) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end()) return;
  Launcher& launcher = it->second;
  launcher.seen = now;
  if (!is_program(id) && !launcher.run) return;
  launcher.told_used = launcher.told_used + time;
  if (!launcher.has_quota()) return;
  charge(launcher, time, now);
  touch(launcher.device);
}

void Dispatch::work_ready(const WorkReady& ready, Time now) {
  const auto it = launchers_.find(ready.launcher);
  if (it == launchers_.end()) return;
  Launcher& launcher = it->second;
  launcher.kernels = ready.kernels;
  if (launcher.kernels.empty()) launcher.kernels.emplace_back();  // of which nothing is known
  launcher.has_told = true;
  if (launcher.state == Launcher::State::kPausing) {
    const Time since = ready.at.ns == 0 ? now : std::clamp(ready.at, launcher.pause.began, now);
    if (launcher.after != kNowhere)
      learn_gap(launcher.device, launcher.function, launcher.after, since - launcher.pause.began);
    launcher.state = Launcher::State::kWorking;
    launcher.owed_at = now;
    launcher.ready_at = since;
    launcher.was_clear = is_clear(places_[launcher.device], launcher.pause);
    expect_gap(launcher, ready.pauses, since);
  }
  touch(launcher.device);
}

void Dispatch::forget(FunctionId function) {
  gaps_.forget(function);
  bursts_.forget(function);
  quotas_.forget(function);
  returns_.erase(returns_.lower_bound({function, DeviceId{0}}), returns_.upper_bound({function, DeviceId{UINT64_MAX}}));
  const auto devices = absent_on_.extract(function);
  if (!devices) return;
  for (const DeviceId device : devices.mapped()) {
    places_[device].absent.erase(function);
    touch(device);
  }
}

std::vector<Dispatch::Change> Dispatch::decide(Time now) {
  while (!dues_.empty() && dues_.begin()->first <= now) {
    const DeviceId device = dues_.begin()->second;
    set_due(device, places_[device], Time::never());
    touch(device);
  }
  std::vector<Change> changes;
  const std::set<DeviceId> touched = std::exchange(touched_, {});
  for (const DeviceId device : touched) decide(device, places_[device], now, changes);
  return changes;
}

void Dispatch::set_due(DeviceId id, Place& place, Time due) {
  if (place.due == due) return;
  if (place.due != Time::never()) dues_.erase({place.due, id});
  place.due = due;
  if (due != Time::never()) dues_.insert({due, id});
}

void Dispatch::decide(DeviceId id, Place& place, Time now, std::vector<Change>& changes) {
  using State = Launcher::State;
  place.next_look = Time::never();
  drop_stale(id, place, now);
  rank(place, now);
  const Levels levels = levels_of(place, now);
  const bool arbitrates = arbitration_.closes && levels.is_shared;
  if (arbitrates) place.shared_at = now;
  const auto pause = arbitrates && levels.top != kNobody ? next_pause(place, levels.top, now) : std::nullopt;
  const Launcher* yielding = arbitrates && arbitration_.fills ? first_that_yields(place, levels.most_urgent) : nullptr;
  // Who gives way by itself does so to whoever else fills the gap, too, if that is more urgent.
  const uint8_t below = yielding ? yielding->rank : kNobody;
  const bool has_filler = pause && arbitration_.fills && levels.top < below;
  const Launcher* filler = has_filler ? best_fit(place, *pause, levels.top, below, now) : nullptr;
  const Launcher* relay = filler && arbitration_.varies ? relay_of(place, *filler, *pause, now) : nullptr;
  const auto ahead =
      arbitrates && arbitration_.varies && !pause && !yielding ? next_end(place, levels.top, now) : std::nullopt;
  const Launcher* next = ahead ? next_in(place, *ahead) : nullptr;
  place.next = next ? std::optional(next->id) : std::nullopt;
  place.has_parts = levels.has_parts;
  if (levels.has_parts)
    share_units(place, now);
  else
    end_shortage(place, now);
  // A program that were not asked any more between two calls of others would be taken for one that has work.
  const bool listens = arbitration_.closes && is_lately_shared(place, now);
  for (const LauncherId one : place.launchers) {
    Launcher& launcher = launchers_.at(one);
    Grant want = free_grant(one);
    if (listens && is_program(one)) {
      want.tells = true;
      place.look_at(place.shared_at + kLately + Duration{1});
    }
    if (arbitrates) {
      want.tells = true;
      if (levels.most_urgent < launcher.rank) {
        want.depth = config_.shared_depth;
        if (arbitration_.slices) want.slice = config_.slice;
      }
      const bool waits =
          launcher.rank > levels.top || (pause && launcher.state != State::kPausing && launcher.rank == levels.top);
      if (levels.has_parts) {
        // Units are what it waits for.
        want.open = launcher.has_units || launcher.state != State::kWorking;
        want.why = Grant::Why::kUnits;
        if (launcher.has_units && launcher.is_owed) want = launcher.turn;
      } else if (&launcher == yielding) {
        // Who is more urgent does not wait for it, so that it may as well go on, as if it were alone.
        want = free_grant(one);
        want.tells = true;
      } else if (&launcher == filler) {
        want = fill_grant(launcher, *pause, now);
      } else if (&launcher == relay) {
        want = fill_grant(launcher, *pause, now);
        want.from = filler->fills_until;
      } else if (&launcher == next) {
        want = grant_ahead(launcher, *ahead, now);
      } else if (waits) {
        want.open = QUERN_MUTANT(41);
      }
      if (!want.open && !levels.has_parts)
        if (const auto owed = owed_grant(launcher, now, place)) want = *owed;
    }
    if (launcher.has_quota() && arbitration_.closes) keep_quota(launcher, place, want, now);
    if (!want.open) {
      const Grant::Why why = want.why == Grant::Why::kOpen ? Grant::Why::kUrgent : want.why;
      want = Grant{.launcher = one, .tells = want.tells, .meters = want.meters, .why = why};
    } else {
      want.why = Grant::Why::kOpen;
    }
    if (want.open && !launcher.grant.open) launcher.opened_at = now;
    if (!want.open && launcher.grant.open) {
      launcher.opened_ns += (now - launcher.opened_at).ns;
      launcher.owed_at = now;
    }
    if (want == launcher.grant) continue;
    if (!want.tells) launcher.has_told = false;
    launcher.grant = want;
    changes.push_back({want, launcher.run});
  }
  set_due(id, place, place.next_look);
}

void Dispatch::drop_stale(DeviceId id, Place& place, Time now) {
  for (auto it = place.absent.begin(); it != place.absent.end();) {
    const auto absent = it++;
    const Duration most = absent->second.is_back ? kOnItsWay : kLongPause;
    if (now - absent->second.pause.began <= most) continue;
    const auto devices = absent_on_.find(absent->first);
    devices->second.erase(id);
    if (devices->second.empty()) absent_on_.erase(devices);
    place.absent.erase(absent);
  }
}

Dispatch::Levels Dispatch::levels_of(Place& place, Time now) {
  using State = Launcher::State;
  Levels levels{kNobody, kNobody, false, false};
  uint8_t least_urgent = 0;
  bool has_program = false;
  for (const LauncherId one : place.launchers) {
    Launcher& launcher = launchers_.at(one);
    if (is_program(one)) {
      has_program = true;
      // Before it tells, whether it has work shows in what it used.
      if (!launcher.has_told && launcher.seen.ns != 0) {
        const bool is_at_it = now - launcher.seen < kSeenLately;
        launcher.ready_at = launcher.ends = {0};
        if (!is_at_it && launcher.state == State::kWorking) {
          launcher.pause = {launcher.seen, {}, config_.launch_latency};
          launcher.after = kNowhere;
        }
        launcher.state = is_at_it ? State::kWorking : State::kPausing;
        if (is_at_it) place.look_at(launcher.seen + kSeenLately);
      }
    }
    least_urgent = std::max(least_urgent, launcher.rank);
    levels.has_parts |= launcher.quota.units < Rectangles::kWhole && place.units > 1;
    // Who had its share is in nobody's way.
    if (launcher.is_spent) continue;
    levels.most_urgent = std::min(levels.most_urgent, launcher.rank);
    if (launcher.state == State::kWorking) levels.top = std::min(levels.top, launcher.rank);
  }
  for (const auto& [function, absent] : place.absent) {
    if (!absent.is_back && !absent.pause.gap.is_known) continue;
    levels.most_urgent = std::min(levels.most_urgent, absent.rank);
    if (absent.is_back) levels.top = std::min(levels.top, absent.rank);
  }
  levels.is_shared = !place.launchers.empty() && (levels.most_urgent < least_urgent ||
                                                  (has_program && place.launchers.size() > 1) || levels.has_parts);
  // Who waits for a call that goes elsewhere does so for a moment only.
  for (const auto& [function, absent] : place.absent)
    if (levels.is_shared && absent.is_back) place.look_at(absent.pause.began + kOnItsWay + Duration{1});
  return levels;
}

// Of those more urgent than who has work, the one that is expected first.
std::optional<Dispatch::Pause> Dispatch::next_pause(Place& place, uint8_t top, Time now) {
  std::optional<Pause> next;
  const auto take = [&](const Pause& pause) {
    if (now - pause.began > kLongPause || pause.gap.median > kLongPause) return;
    place.look_at(pause.began + kLongPause + Duration{1});
    if (!next || pause.back() < next->back()) next = pause;
  };
  for (const auto& [function, absent] : place.absent)
    if (!absent.is_back && absent.rank < top && absent.pause.gap.is_known) take(absent.pause);
  for (const LauncherId one : place.launchers) {
    const Launcher& launcher = launchers_.at(one);
    const bool may_return = launcher.state == Launcher::State::kPausing && (!launcher.is_spent || QUERN_MUTANT(58));
    if (may_return && launcher.rank < top) take(launcher.pause);
  }
  return next;
}

// One kernel is all that FIKIT looks at.
std::optional<int64_t> Dispatch::fit(const Launcher& launcher, int64_t left_ns) const {
  if (launcher.kernels.empty()) return arbitration_.slices ? INT64_MAX : 0;
  std::optional<int64_t> sum;
  for (const KernelAhead& kernel : launcher.kernels) {
    if (kernel.sliceable && arbitration_.slices) return INT64_MAX;
    if (kernel.time.ns > left_ns - sum.value_or(0)) break;
    sum = sum.value_or(0) + kernel.time.ns;
    if (!arbitration_.varies) break;
  }
  return sum;
}

// BestPrioFit: the most urgent level that has one that fits; of those the one whose next kernels fill most of the gap.
// What can be cut always fits: of such the one that had least goes first. Who began to fill a pause goes on.
Dispatch::Launcher* Dispatch::best_fit(Place& place, const Pause& pause, uint8_t top, uint8_t below, Time now) {
  // One that is late may be back at any time or never: then it is as if nothing were known.
  const bool is_expected = pause.gap.is_known && now <= pause.late();
  const int64_t left_ns = is_expected ? (pause.back() - now).ns : INT64_MAX;
  if (is_expected) place.look_at(pause.late() + Duration{1});
  // The longer it has been away, the longer it may be: then slices can be longer, too.
  const Duration first{config_.probe_slice.ns * config_.probe_slice.ns / kSliceCost.ns * kUrgency};
  if (!is_expected && arbitration_.varies)
    place.look_at(pause.began + std::max(first, Duration{2 * (now - pause.began).ns}));
  if (place.filler && place.filled == pause.began && place.launchers.contains(*place.filler)) {
    Launcher& same = launchers_.at(*place.filler);
    if (same.state == Launcher::State::kWorking && !same.is_spent && same.rank == top) return &same;
  }
  if (const auto told = std::exchange(place.next, std::nullopt); told && place.launchers.contains(*told)) {
    Launcher& next = launchers_.at(*told);
    if (next.state == Launcher::State::kWorking && !next.is_spent && next.rank == top) {
      if (place.filled != pause.began) begin_to_fill(next, now);
      place.filler = next.id;
      place.filled = pause.began;
      return &next;
    }
  }
  Launcher* best = nullptr;
  int64_t longest = 0;
  for (const LauncherId id : place.launchers) {
    Launcher& one = launchers_.at(id);
    if (one.state != Launcher::State::kWorking || one.is_spent || one.rank >= below) continue;
    if (best && best->rank < one.rank) continue;
    const auto length = fit(one, left_ns);
    if (!length) continue;
    if (best && one.rank == best->rank &&
        (*length < longest || (*length == longest && one.opened_ns >= best->opened_ns)))
      continue;
    best = &one;
    longest = *length;
  }
  if (best) begin_to_fill(*best, now);
  place.filler = best ? std::optional(best->id) : std::nullopt;
  place.filled = pause.began;
  return best;
}

Dispatch::Launcher* Dispatch::first_that_yields(Place& place, uint8_t top) {
  if (top >= rank_of(static_cast<uint8_t>(place.best_effort), true)) return nullptr;
  // The workers of an executor are of the class of its most urgent run.
  std::set<uint64_t> urgent;
  for (const LauncherId id : place.launchers)
    if (!is_program(id) && launchers_.at(id).priority < place.best_effort) urgent.insert(executor_of(id).value);
  Launcher* first = nullptr;
  for (const LauncherId id : place.launchers) {
    Launcher& one = launchers_.at(id);
    if (is_program(id) || one.is_spent || one.priority < place.best_effort || one.state != Launcher::State::kWorking ||
        urgent.contains(executor_of(id).value))
      continue;
    if (id == place.yielding) return &one;
    if (!first || one.rank < first->rank || (one.rank == first->rank && one.opened_ns < first->opened_ns)) first = &one;
  }
  place.yielding = first ? std::optional(first->id) : std::nullopt;
  return first;
}

Duration Dispatch::slice_in(Duration gap) const {
  return std::max(config_.slice, std::min(Duration{gap.ns / 2}, kLargestSlice));
}

// Who comes back waits for about a slice, once in so long; who fills pays for each slice all that time. In the sum of
// both, the square of the best slice is what one costs times how long the other is away.
Duration Dispatch::slice_for(Duration away, Duration least) const {
  const int64_t square = kSliceCost.ns * std::clamp(away, Duration{0}, kLongPause).ns / kUrgency;
  int64_t low = least.ns, high = std::max(least, config_.slice).ns;
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    if (middle * middle <= square)
      low = middle;
    else
      high = middle - 1;
  }
  return std::max(least, Duration{low / kStep.ns * kStep.ns});
}

Grant Dispatch::fill_grant(const Launcher& launcher, const Pause& pause, Time now) const {
  Grant grant = free_grant(launcher.id);
  grant.tells = true;
  grant.depth = config_.shared_depth;
  grant.slice = {arbitration_.slices ? config_.slice.ns : 0};
  const auto probing = [&] {
    grant.slice = {arbitration_.slices ? slice_for(now - pause.began, config_.probe_slice).ns : 0};
    grant.depth = config_.slice;
    grant.launches = 2;
    return grant;
  };
  if (!arbitration_.varies) {
    grant.launches = 1;
    grant.until = pause.began + pause.gap.median;
    grant.open = pause.gap.is_known && grant.until > now;
    return grant;
  }
  if (!pause.gap.is_known) return probing();
  if (now > pause.late()) return probing();
  grant.until = pause.back() + pause.latency;
  grant.slice = slice_in(pause.gap.median);
  grant.open = pause.gap.median >= config_.shortest_gap;
  if (pause.gap.is_stable)
    grant.open = grant.open && grant.until > now;
  else
    grant.beyond = slice_for(pause.gap.median, config_.soft_slice);
  return grant;
}

std::optional<Grant> Dispatch::owed_grant(Launcher& launcher, Time now, Place& place) {
  // Who has less than it is to have in any case is owed that; anyone a little.
  const bool is_below = launcher.rank < rank_of(launcher.priority, false);
  const uint32_t request = is_below ? quotas_.of(launcher.function).request : 0;
  const bool is_paced = is_below && !place.has_parts && is_worth_turns(request);
  const uint32_t thousandths = std::max(config_.least_share, is_paced ? 0 : request);
  if (launcher.state != Launcher::State::kWorking || launcher.is_spent || QUERN_MUTANT(42)) return std::nullopt;
  if (now < launcher.turn_until) {
    place.look_at(launcher.turn_until);
    return launcher.turn;
  }
  if (is_paced)
    if (const auto owed = owed_request(launcher, now, place)) return owed;
  if (launcher.grant.open) launcher.owed_at = now;  // it had a turn, or more
  const double share = thousandths / 1000.0;
  launcher.owed_ns += std::exchange(launcher.owed_share, share) * static_cast<double>((now - launcher.owed_at).ns);
  launcher.owed_at = now;
  if (thousandths == 0) return std::nullopt;
  const auto missing = static_cast<double>(kTurn.ns) - launcher.owed_ns;
  if (missing > 0) {
    place.look_at(now + Duration{static_cast<int64_t>(missing / share) + 1});
    return std::nullopt;
  }
  Grant grant = free_grant(launcher.id);
  grant.tells = true;
  grant.depth = config_.shared_depth;
  grant.slice = {arbitration_.slices ? config_.slice.ns : 0};
  launcher.turn_until = now + Duration{static_cast<int64_t>(std::exchange(launcher.owed_ns, 0))};
  // One that cannot be cut begins what it has, however long it is: else it would never have a turn.
  if (launcher.sliceable() && arbitration_.slices) grant.until = launcher.turn_until;
  place.look_at(launcher.turn_until);
  launcher.turn = grant;
  return grant;
}

}  // namespace quern::sched
