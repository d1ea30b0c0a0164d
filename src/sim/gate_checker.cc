// SPDX-License-Identifier: Apache-2.0
#include "sim/gate_checker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sched/policy/table.h"
#include "sched/text.h"

namespace quern::sim {

namespace {

// What sched/dispatch.cc goes by.
constexpr Duration kTurn = Duration::millis(1);
constexpr Duration kLongPause = Duration::millis(50);
constexpr Duration kOnItsWay = Duration::millis(2);
// How long before and after the predicted end of a run another may be let through, at the most.
constexpr Duration kAhead = Duration::micros(500);
// Shares are counted in doubles, and an alarm is rounded up.
constexpr Duration kSlack = Duration::micros(10);
constexpr Time kLongAgo{INT64_MIN / 2};

sched::Arbitration arbitration_of(const sched::Config& config) {
  const auto found = sched::make_dispatch(config.policy.dispatch);
  return found ? *found : sched::Arbitration{};
}

constexpr uint8_t rank_of(uint8_t priority) { return static_cast<uint8_t>(2 * priority + 1); }

std::string show(sched::LauncherId id) {
  return sched::is_program(id) ? fmt::format("program {}", id.value - sched::kFirstProgram)
                               : fmt::format("lane {} of e{}", id.value & 255, id.value >> 8);
}

}  // namespace

GateChecker::Place::Place() {
  paused.fill(kLongAgo);
  called.fill(kLongAgo);
}

GateChecker::GateChecker(const sched::Config& config)
    : Checker("gates"),
      config_(config),
      arbitration_(arbitration_of(config)),
      share_(config.least_share / 1000.0),
      shadow_(config.granularity_bytes),
      budgets_(config) {}

void GateChecker::on_restart(Time) {
  shadow_.restart();
  budgets_.restart();
  gates_.clear();
  places_.clear();
  levels_.clear();
}

void GateChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                          const sched::Scheduler& /*core*/) {
  budgets_.happened(now, event, shadow_);
  shadow_.happened(now, event);
  note(now, event);
  std::set<sched::LauncherId> granted;
  bool is_first = true;
  for (const sched::Action& action : actions) {
    const auto* grant = std::get_if<sched::Grant>(&action);
    if (grant) {
      expect(is_first, now, "{} is told of its gate after others were told what to do", show(grant->launcher));
      expect(granted.insert(grant->launcher).second, now, "{} is told of its gate twice", show(grant->launcher));
      check(now, *grant);
    }
    is_first &= grant != nullptr;
    shadow_.carry_out(now, action);
    if (const auto* run = std::get_if<sched::Run>(&action))
      gates_[sched::lane_of(run->executor, run->lane)] = {.counted = now};
  }
  for (const sched::LauncherId id : granted)
    expect(sched::is_program(id) || shadow_.run_in(id), now, "{} is told of its gate, and has no run", show(id));

  std::map<sched::DeviceId, Launchers> launchers;
  budgets_.settle(now, event, actions, shadow_);
  for (const auto& [id, run] : shadow_.runs()) launchers[run.device].push_back(look_at(now, id, run));
  for (const auto& [id, program] : shadow_.programs()) launchers[program.device].push_back(look_at(now, id, program));
  for (auto& [device, those] : launchers) {
    note_yields(device, those);
    check(now, device, those);
  }
}

// An executor is as urgent as its most urgent run.
void GateChecker::note_yields(sched::DeviceId device, Launchers& launchers) const {
  std::set<sched::ExecutorId> urgent;
  const bool has_classes = shadow_.find(device)->classes;
  for (const Launcher& one : launchers)
    if (one.is_run && (!has_classes || one.rank / 2U < config_.best_effort)) urgent.insert(executor_of(one.id));
  for (Launcher& one : launchers)
    one.yields = arbitration_.fills && one.is_run && !urgent.contains(executor_of(one.id));
}

// After the shadow took it in.
void GateChecker::note(Time now, const sched::Event& event) {
  for (const auto& [id, run] : shadow_.ended()) {
    gates_.erase(sched::lane_of(run.executor, run.lane));
    const uint8_t priority = sched::priority_of(run.level);
    levels_[{run.device, run.submit->function}] = priority;
    places_[run.device].paused.at(priority) = now;
  }
  if (const auto* up = std::get_if<sched::LauncherUp>(&event); up && shadow_.find(up->launcher))
    gates_.try_emplace(up->launcher, Gate{.counted = now, .was_open = false});
  if (const auto* gone = std::get_if<sched::LauncherGone>(&event)) gates_.erase(gone->launcher);
  if (const auto* submit = std::get_if<sched::Submit>(&event))
    for (auto& [device, place] : places_)
      if (const auto level = levels_.find({device, submit->function}); level != levels_.end())
        place.called.at(level->second) = now;
}

// Before the shadow takes it in.
void GateChecker::check(Time now, const sched::Grant& grant) {
  const sched::LauncherId id = grant.launcher;
  const bool exists = sched::is_program(id)
                          ? shadow_.find(id) != nullptr
                          : shadow_.find(sched::ExecutorId{id.value >> 8}) && (id.value & 255) < config_.all_lanes();
  expect(exists, now, "{} is told of its gate, and does not exist", show(id));
  const sched::Grant* before = shadow_.grant_of(id);
  expect(!before || *before != grant, now, "{} is told what it was told before: {}", show(id),
         sched::to_text(sched::Action(grant)));
  expect(arbitration_.closes || (grant.open && grant.until == Time::never()), now,
         "{} is closed, and nothing ever is: {}", show(id), sched::to_text(sched::Action(grant)));
  if (!grant.open) return;
  expect(grant.depth.ns > 0 && grant.launches > 0, now, "{} is open, and nothing gets through", show(id));
  expect(grant.depth <= config_.depth, now, "{} may have {}ns in flight, {}ns are allowed", show(id), grant.depth.ns,
         config_.depth.ns);
  expect(grant.until > now || grant.beyond.ns > 0, now, "{} is open until {}ns, which was", show(id), grant.until.ns);
}

GateChecker::Launcher GateChecker::look_at(Time now, sched::RunId id, const Shadow::Run& run) {
  Launcher launcher{.id = sched::lane_of(run.executor, run.lane), .is_run = true, .run = id, .grant = {}};
  launcher.grant.open = true;  // as its executor starts
  if (const sched::Grant* grant = shadow_.grant_of(launcher.id)) launcher.grant = *grant;
  launcher.has_work = run.is_ready && !run.is_pausing;
  launcher.may_have = shadow_.has_all(run);
  launcher.rank = rank_of(sched::priority_of(run.level));
  if (budgets_.has_quota(run)) {
    launcher.quota = run.submit->quota;
    look_at_quota(now, run.submit->function, run.device, launcher);
  }
  return launcher;
}

GateChecker::Launcher GateChecker::look_at(Time now, sched::LauncherId id, const Shadow::Program& program) {
  Launcher launcher{.id = id, .rank = rank_of(program.level), .quota = program.quota, .grant = {}};
  if (const sched::Grant* grant = shadow_.grant_of(id)) launcher.grant = *grant;
  launcher.has_work = program.has_work;
  launcher.may_have = true;
  if (budgets_.has_quota(program)) look_at_quota(now, program.function, program.device, launcher);
  return launcher;
}

void GateChecker::look_at_quota(Time now, sched::FunctionId function, sched::DeviceId device, Launcher& launcher) {
  const sched::Units units = shadow_.find(device)->units;
  launcher.is_spent = budgets_.is_spent(function, device, units, now);
  if (budgets_.is_below_request(function, device, units, now)) --launcher.rank;
  // What it may have of the time is as it is now; its units are as they were.
  const sched::Quota quota = budgets_.quota_of(function);
  launcher.is_paced = quota.request > share_ * 1000 && config_.window.ns * quota.request >= 2 * kTurn.ns * 1000;
  if (launcher.is_paced) launcher.behind = budgets_.behind_request(function, device, units, now);
  launcher.quota.request = quota.request;
  launcher.quota.limit = quota.limit;
}

void GateChecker::check(Time now, sched::DeviceId device, const Launchers& launchers) {
  if (!arbitration_.closes) return;
  // Who is let through, of those that have work; and who could be more urgent.
  const Launcher* through = nullptr;
  uint8_t top = UINT8_MAX;
  bool has_parts = false;
  for (const Launcher& one : launchers) has_parts |= one.quota.units < 1000 && shadow_.find(device)->units > 1;
  for (const Launcher& one : launchers) {
    note_turn(now, one, has_parts);
    if (one.is_spent) continue;
    if (one.may_have) top = std::min(top, one.rank);
    // Whose turn it is is nobody's measure.
    const bool is_through = one.is_run && one.has_work && one.lets(now) && now >= gates_[one.id].turn_until;
    if (is_through && (!through || one.rank < through->rank)) through = &one;
  }
  int yielding = 0;
  for (const Launcher& one : launchers) {
    const bool is_less = !has_parts && through && through->rank < one.rank;
    if (one.yields && is_less && one.lets(now) && now >= gates_[one.id].turn_until)
      expect(++yielding == 1, now, "{} is let through beside another that gives way by itself", show(one.id));
    else
      check_turn(now, one, has_parts ? nullptr : through);
    check_wait(now, one, has_parts ? launchers.size() : 1);
    if (has_parts || one.is_spent) continue;
    expect(!one.has_work || one.grant.open || one.behind < kTurn + kSlack, now,
           "{} has work, is {}ns behind its request, and is closed", show(one.id), one.behind.ns);
    if (one.is_run && one.has_work && one.rank == top && !may_return(now, device, one.rank))
      expect(one.grant.open && one.grant.from <= now && (one.grant.until == Time::never() || one.quota.limit < 1000),
             now, "{} has work, nobody on d{} is more urgent, and it is not let through for good", show(one.id),
             device.value);
  }
}

// Where units are short it is owed its request whatever it had of it; else what it is behind it.
void GateChecker::note_turn(Time now, const Launcher& launcher, bool has_parts) {
  Gate& gate = gates_[launcher.id];
  const bool is_paced = launcher.is_paced && !has_parts;
  const double share = is_paced ? share_ : std::max(share_, launcher.quota.request / 1000.0);
  // It may have been owed more before its quota changed.
  const double most_share = std::max(share, std::exchange(gate.share, share));
  if (!gate.was_open) gate.owed_ns += most_share * static_cast<double>((now - gate.counted).ns);
  gate.counted = now;
  const bool is_owed = gate.owed_ns + static_cast<double>(kSlack.ns) >= static_cast<double>(kTurn.ns);
  gate.is_new = launcher.grant.open && !gate.was_open && is_owed;
  gate.was_open = launcher.grant.open;
  const double most_ns = static_cast<double>(kTurn.ns) + share * static_cast<double>(kLongPause.ns);
  if (gate.is_new) gate.turn_until = now + Duration{static_cast<int64_t>(std::min(gate.owed_ns, most_ns))} + kSlack;
  if (is_paced && launcher.grant.open && launcher.behind + kSlack >= kTurn)
    gate.turn_until = std::max(gate.turn_until, now + launcher.behind + kSlack);
}

// Where nobody else is let through, nobody can tell a turn from what it gets for other reasons: it may have been one,
// and may be still to come.
void GateChecker::check_turn(Time now, const Launcher& launcher, const Launcher* through) {
  const bool is_conflict = through && through->rank < launcher.rank;
  Gate& gate = gates_[launcher.id];
  const bool is_beside =
      is_conflict && !sched::is_program(launcher.id) && executor_of(launcher.id) == executor_of(through->id);
  if (gate.is_new && is_conflict && launcher.grant.from.ns == 0) {
    // A little less than a turn may have been none, and then it is owed still; so is it to one that is let through
    // because it gives way by itself, which has all that it would have alone.
    const bool is_yielding = launcher.yields && launcher.grant.depth == config_.depth;
    if (gate.owed_ns >= static_cast<double>(kTurn.ns) && !is_yielding) gate.owed_ns = 0;
    const bool has_limit = launcher.quota.limit < 1000;
    expect(launcher.grant.until == Time::never() || launcher.grant.until <= gate.turn_until || has_limit, now,
           "{} has a turn until {}ns, and was owed {}ns", show(launcher.id), launcher.grant.until.ns,
           (gate.turn_until - now).ns);
  }
  if (!is_conflict || !launcher.lets(now)) return;
  const bool is_turn = now < gate.turn_until, has_end = launcher.grant.until != Time::never();
  if (!is_turn && is_beside && arbitration_.varies && has_end && gate.ahead_of != through->run) {
    gate.ahead_of = through->run;
    gate.ahead_until = now + kAhead;
  }
  const bool is_ahead = is_beside && has_end && now < gate.ahead_until;
  expect(is_turn || is_ahead, now, "{} of priority {} is let through beside a run that is more urgent, in {}",
         show(launcher.id), launcher.rank / 2, show(through->id));
}

// Where units are short, those that are owed a turn may have to wait for each other.
void GateChecker::check_wait(Time now, const Launcher& launcher, size_t launchers) {
  Gate& gate = gates_[launcher.id];
  if (gate.waits_since != Time::never() && share_ > 0) {
    const Duration most{static_cast<int64_t>(static_cast<double>(kTurn.ns) / share_)};
    expect(now - gate.waits_since <= most + kLongPause + Duration{kTurn.ns * static_cast<int64_t>(launchers)}, now,
           "{} has work, and was closed for {}ns", show(launcher.id), (now - gate.waits_since).ns);
  }
  const bool waits = launcher.has_work && !launcher.grant.open && !launcher.is_spent;
  if (!waits)
    gate.waits_since = Time::never();
  else if (gate.waits_since == Time::never())
    gate.waits_since = now;
}

bool GateChecker::may_return(Time now, sched::DeviceId device, uint8_t rank) const {
  const auto place = places_.find(device);
  if (place == places_.end() || !arbitration_.fills) return false;
  for (uint8_t other = 0; other <= sched::kLeastUrgent && rank_of(other) < rank; ++other)
    if (now - place->second.paused.at(other) <= kLongPause || now - place->second.called.at(other) <= kOnItsWay)
      return true;
  return false;
}

}  // namespace quern::sim
