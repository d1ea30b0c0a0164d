// SPDX-License-Identifier: Apache-2.0
//
// Quotas and units. A quota is kept by the same grant as all else: the launcher may launch until it can have had its
// limit at the earliest, says what it really used, and gets the rest, until there is none; then it is closed until the
// next window. It needs no message per kernel, and what it has more than its limit is what was in flight.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sched/dispatch.h"
#include "sched/mutant.h"
#include "sched/rectangles.h"

namespace quern::sched {
namespace {

// Less than this is not worth a launch.
constexpr Duration kLeastLeft = Duration::micros(20);
// A launcher that has to wait says what it used at once; one that does not is asked again after this.
constexpr Duration kSilent = Duration::millis(2);
// Times so near to each other are the same: a grant costs more.
constexpr Duration kNear = Duration::micros(50);

}  // namespace

uint8_t Dispatch::rank_of(uint8_t priority, bool is_below_request) {
  return static_cast<uint8_t>(2 * priority + (is_below_request ? 0 : 1));
}

uint32_t Dispatch::units_of(DeviceId device, const Quota& quota) const {
  const auto place = places_.find(device);
  return sched::units_of(quota, place == places_.end() ? Units{} : place->second.units);
}

uint32_t Dispatch::first_unit_of(DeviceId device, FunctionId function, const Quota& quota) const {
  const auto found = places_.find(device);
  if (found == places_.end() || quota.units >= Rectangles::kWhole) return 0;
  const Place& place = found->second;
  const uint32_t size = std::bit_floor(units_of(device, quota));
  std::vector<uint32_t> users(place.units / size);
  std::set<FunctionId> counted;
  for (const LauncherId id : place.launchers) {
    const Launcher& one = launchers_.at(id);
    if (is_program(id) || one.quota.units >= Rectangles::kWhole) continue;
    const uint32_t taken = std::bit_floor(units_of(device, one.quota));
    if (one.function == function && taken == size) return one.first_unit;
    if (!counted.insert(one.function).second) continue;
    for (uint32_t unit = one.first_unit; unit < one.first_unit + taken; unit += std::min(size, taken))
      if (unit / size < users.size()) ++users[unit / size];
  }
  // Where units are no power of two those at the end are in no large part: small ones begin there.
  const bool has_rest = place.units.in_halves && !std::has_single_bit(place.units.count);
  const auto from = has_rest ? std::min_element(users.rbegin(), users.rend()).base() - 1
                             : std::min_element(users.begin(), users.end());
  return size * static_cast<uint32_t>(from - users.begin());
}

void Dispatch::quota_set(FunctionId function, const Quota& quota, Time now) {
  if (quotas_.of(function) == quota) return;
  quotas_.set(function, quota, now);
  for (auto& [device, place] : places_) {
    // From now on windows give so many units of it.
    (void)quotas_.left(device, function, units_of(device, quota), now);
    if (std::any_of(place.launchers.begin(), place.launchers.end(),
                    [&](LauncherId id) { return launchers_.at(id).function == function; }))
      touch(device);
  }
}

void Dispatch::charge(const Launcher& launcher, Duration used, Time now) {
  const uint32_t units = units_of(launcher.device, quotas_.of(launcher.function));
  quotas_.charge(launcher.device, launcher.function, units, used, now);
}

Duration Dispatch::left_of(const Launcher& launcher, Time now) {
  const uint32_t units = units_of(launcher.device, quotas_.of(launcher.function));
  return quotas_.left(launcher.device, launcher.function, units, now);
}

void Dispatch::run_used(LauncherId id, Duration in_all, Time started, Time now) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end() || !it->second.run) return;
  learn_latency(it->second, std::min(started, now));
  if (!it->second.has_quota()) return;
  if (in_all > it->second.told_used && !QUERN_MUTANT(54)) charge(it->second, in_all - it->second.told_used, now);
  it->second.told_used = std::max(it->second.told_used, in_all);
}

void Dispatch::rank(Place& place, Time now) {
  for (const LauncherId id : place.launchers) {
    Launcher& one = launchers_.at(id);
    bool is_below = false;
    if (!one.has_quota()) one.is_spent = false;
    if (one.has_quota() && arbitration_.closes) {
      const Quota quota = quotas_.of(one.function);
      const bool was_spent = one.is_spent;
      one.is_spent = quota.limit < 1000 && left_of(one, now) < kLeastLeft;
      if (was_spent) one.owed_at = now;  // who had its share is owed nothing
      is_below = !one.is_spent && quotas_.is_below_request(one.device, one.function, units_of(one.device, quota), now);
      if ((one.is_spent || quota.request > 0) && !QUERN_MUTANT(57)) place.look_at(quotas_.next_window(now));
    }
    one.rank = rank_of(one.priority, is_below && !QUERN_MUTANT(51));
  }
}

void Dispatch::keep_quota(Launcher& launcher, Place& place, Grant& want, Time now) {
  want.meters = true;
  if (launcher.is_spent && !QUERN_MUTANT(52)) {
    want.open = false;
    want.why = Grant::Why::kQuota;
    return;
  }
  if (!want.open || quotas_.of(launcher.function).limit >= 1000) return;
  const uint32_t units = units_of(launcher.device, launcher.quota);  // which all its lanes share
  const Time earliest = now + Duration{std::max(left_of(launcher, now).ns / units, kLeastLeft.ns)};
  // What it says of its use it says late: what was granted stays, unless it would be too much.
  if (!launcher.grant.open || now + kNear >= launcher.spent_at || earliest + kNear < launcher.spent_at)
    launcher.spent_at = earliest;
  if (QUERN_MUTANT(56)) return;
  if (want.until == Time::never()) {
    want.until = launcher.spent_at;
    want.overdraws = true;
  } else if (launcher.spent_at <= want.until) {
    want.until = launcher.spent_at;
    want.beyond = {0};
  }
  place.look_at(launcher.spent_at + kSilent);
}

// In its turns it shares the device with those more urgent, which stay open: what it really had is what counts, and it
// has turns until that is its request. Launches of lanes of one executor alternate: it needs some as long as theirs.
std::optional<Grant> Dispatch::owed_request(Launcher& launcher, Time now, Place& place) {
  const Quota quota = quotas_.of(launcher.function);
  const uint32_t units = units_of(launcher.device, quota);
  const Duration behind{quotas_.behind_request(launcher.device, launcher.function, units, now).ns / units};
  if (behind >= kTurn) {
    if (QUERN_MUTANT(60)) return std::nullopt;
    launcher.owed_at = now;
    launcher.owed_ns = 0;
    // Turn after turn, as if it were one: whether there is another is known when it is over.
    launcher.turn_until = now + kTurn;
    place.look_at(launcher.turn_until);
    launcher.turn = free_grant(launcher.id);
    launcher.turn.tells = true;
    return launcher.turn;
  }
  const double missing = static_cast<double>((kTurn - behind).ns) * 1000 / quota.request;
  place.look_at(now + Duration{static_cast<int64_t>(missing) + 1});
  return std::nullopt;
}

// Nobody waits for what others have: what they had is forgotten.
void Dispatch::end_shortage(Place& place, Time now) {
  ++place.shortage;
  place.turn_began = Time::never();
  place.turn_ends = now;
}

// Units are a function's: its lanes share them. Those that use all units are one asker at their rank: they take turns
// on the device anyway.
void Dispatch::share_units(Place& place, Time now) {
  std::vector<Launcher*> order;
  std::map<uint8_t, int64_t> least;  // by rank: what those that asked before had
  for (const LauncherId id : place.launchers) {
    Launcher& one = launchers_.at(id);
    if (std::exchange(one.shortage, place.shortage) != place.shortage) one.units_ns = 0;
    if (one.has_units && place.turn_began != Time::never()) one.units_ns += (now - place.turn_began).ns;
    // Who waits behind others has its little turn before them: they are closed for it where there is no room for both.
    one.is_owed = (!one.grant.open || one.is_owed) && owed_grant(one, now, place).has_value();
    if (one.state == Launcher::State::kWorking && !one.is_spent) {
      order.push_back(&one);
      // What it had while it was more or less urgent does not count.
      if (std::exchange(one.units_rank, one.rank) != one.rank) one.units_ns = 0, one.asks_units = false;
      if (!one.asks_units) continue;
      const auto [it, fresh] = least.try_emplace(one.rank, one.units_ns);
      it->second = std::min(it->second, one.units_ns);
    } else {
      one.has_units = one.asks_units = false;
    }
  }
  // Who comes anew has nothing to catch up on, and nobody more than a turn: where units are left over that are too few
  // for one, others may have them for long.
  for (Launcher* one : order) {
    const bool is_new = !std::exchange(one->asks_units, true);
    if (const auto it = least.find(one->rank); it != least.end() && !QUERN_MUTANT(55))
      one->units_ns =
          is_new ? std::max(one->units_ns, it->second) : std::min(one->units_ns, it->second + config_.unit_turn.ns);
  }
  place.turn_began = now;
  const bool is_over = now >= place.turn_ends;
  const auto key = [&](const Launcher* one) {
    return std::tuple(!one->is_owed, one->is_owed ? one->owed_since : Time{0}, one->rank, is_over || !one->has_units,
                      one->units_ns, one->id);
  };
  std::sort(order.begin(), order.end(), [&](const Launcher* a, const Launcher* b) { return key(a) < key(b); });
  uint32_t free = place.units;
  std::optional<uint8_t> whole;  // the rank of those that have all units
  std::map<FunctionId, uint32_t> parts;
  bool is_short = false;
  for (Launcher* one : order) {
    const uint32_t units = units_of(one->device, one->quota);
    const bool is_whole = units == place.units;
    const uint32_t shared = is_whole ? (whole == one->rank ? units : 0) : std::min(units, parts[one->function]);
    one->has_units = units - shared <= free || QUERN_MUTANT(53);
    if (!one->has_units) {
      is_short = true;
      continue;
    }
    free -= std::min(units - shared, free);
    if (is_whole)
      whole = one->rank;
    else
      parts[one->function] = std::max(units, parts[one->function]);
  }
  // A turn that could not be had is still owed, and comes before those of others.
  for (Launcher* one : order) {
    if (!one->is_owed || one->has_units) {
      one->owed_since = Time::never();
      continue;
    }
    one->owed_ns += static_cast<double>((one->turn_until - now).ns);
    one->owed_since = std::min(one->owed_since, now);
    one->turn_until = {0};
    one->is_owed = false;
  }
  if (!is_short) return end_shortage(place, now);
  if (is_over) place.turn_ends = now + config_.unit_turn;
  place.look_at(place.turn_ends);
}

}  // namespace quern::sched
