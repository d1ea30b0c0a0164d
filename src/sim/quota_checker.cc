// SPDX-License-Identifier: Apache-2.0
#include "sim/quota_checker.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "sched/policy/table.h"
#include "sched/text.h"

namespace quern::sim {
namespace {

// What sched/dispatch_shares.cc goes by.
constexpr Duration kLeastLeft = Duration::micros(20), kNear = Duration::micros(50);
constexpr int64_t kWrong = 10;  // so wrong are profiles, at the most

sched::Arbitration arbitration_of(const sched::Config& config) {
  const auto found = sched::make_dispatch(config.policy.dispatch);
  return found ? *found : sched::Arbitration{};
}

std::string show(sched::LauncherId id) {
  return sched::is_program(id) ? fmt::format("program {}", id.value - sched::kFirstProgram)
                               : fmt::format("lane {} of e{}", id.value & 255, id.value >> 8);
}

bool overlap(const sched::Rectangle& a, const sched::Rectangle& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

}  // namespace

QuotaChecker::QuotaChecker(const sched::Config& config)
    : Checker("quotas"),
      config_(config),
      arbitration_(arbitration_of(config)),
      shadow_(config.granularity_bytes),
      budgets_(config) {}

void QuotaChecker::on_restart(Time) {
  shadow_.restart();
  budgets_.restart();
  largest_.clear();
  closed_.clear();
  excused_.clear();
  told_.clear();
  placed_.clear();
  waits_.clear();
}

void QuotaChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                           const sched::Scheduler& core) {
  budgets_.happened(now, event, shadow_);
  if (arbitration_.closes) check_overdraft(now, event);
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) {
    shadow_.carry_out(now, action);
    const auto* grant = std::get_if<sched::Grant>(&action);
    if (grant && grant->open) closed_.erase(grant->launcher);
    if (grant && !grant->open) closed_.try_emplace(grant->launcher, now);
  }
  const auto* submit = std::get_if<sched::Submit>(&event);
  const sched::Quota before = submit ? budgets_.quota_of(submit->function) : sched::Quota{};
  budgets_.settle(now, event, actions, shadow_);
  if (submit && budgets_.quota_of(submit->function) != before) excuse(now, submit->function);
  for (const auto& [id, run] : shadow_.ended()) {
    told_.erase(id);
    placed_.erase(id);
    waits_.erase(sched::lane_of(run.executor, run.lane));
  }
  if (const auto* gone = std::get_if<sched::LauncherGone>(&event)) waits_.erase(gone->launcher);
  check_shares(now, event, actions, core);
  if (!arbitration_.closes) return;

  std::map<sched::DeviceId, Launchers> launchers;
  for (const auto& [id, run] : shadow_.runs()) launchers[run.device].push_back(look_at(now, run));
  for (const auto& [id, program] : shadow_.programs()) launchers[program.device].push_back(look_at(now, id, program));
  for (const auto& [device, those] : launchers) {
    for (const Launcher& one : those)
      if (one.has_quota) check_time(now, device, one);
    if (shadow_.find(device)->units == 1) continue;
    check_units(now, device, those);
    check_waits(now, device, those);
  }
}

// Less may be allowed than it had already.
void QuotaChecker::excuse(Time now, sched::FunctionId function) {
  for (const auto& [id, device] : shadow_.devices()) {
    const Duration left = budgets_.left(function, id, device.units, now);
    if (left.ns < 0) excused_[{function, id}] = {-left.ns};
  }
}

void QuotaChecker::check_shares(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                                const sched::Scheduler& core) {
  using Share = sched::Scheduler::Share;
  const std::vector<Share> shares = core.shares();
  for (size_t i = 0; i < shares.size(); ++i) {
    const Share& one = shares[i];
    if (!one.device) continue;
    const Shadow::Device* device = shadow_.find(*one.device);
    expect(device && device->is_up, now, "f{} is at home on d{}, which is not there", one.function.value,
           one.device->value);
    if (!device) continue;
    const uint32_t units = Budgets::units_of(one.quota, device->units);
    expect(one.at.width == one.quota.request && one.at.height == units && one.at.x + one.at.width <= 1000 &&
               one.at.y + one.at.height <= device->units.count,
           now, "f{} asks for {} by {} units of d{}, and has {} by {} from {}, {}", one.function.value,
           one.quota.request, units, one.device->value, one.at.width, one.at.height, one.at.x, one.at.y);
    for (size_t j = 0; j < i; ++j)
      expect(shares[j].device != one.device || !overlap(shares[j].at, one.at), now,
             "f{} and f{} have the same share of d{}", shares[j].function.value, one.function.value, one.device->value);
  }
  const auto share_of = [&](sched::FunctionId function) {
    const auto found =
        std::find_if(shares.begin(), shares.end(), [&](const Share& one) { return one.function == function; });
    return found == shares.end() ? nullptr : &*found;
  };
  if (const auto* submit = std::get_if<sched::Submit>(&event); submit && submit->quota.request > 0) {
    const Share* share = share_of(submit->function);
    // Where there are no levels nobody has a share.
    if (shadow_.find(submit->request) && budgets_.quota_of(submit->function) == submit->quota)
      expect(share && share->device && share->quota == submit->quota, now,
             "r{} is let in, and f{} does not have what it is to have", submit->request.value, submit->function.value);
  }
  // A run has its place from when it is announced, or sent.
  for (const sched::Action& action : actions) {
    sched::RunId id;
    sched::RequestId of;
    sched::ExecutorId executor;
    if (const auto* prepare = std::get_if<sched::Prepare>(&action))
      id = prepare->run, of = prepare->request, executor = prepare->executor;
    else if (const auto* run = std::get_if<sched::Run>(&action))
      id = run->run, of = run->request, executor = run->executor;
    else
      continue;
    if (!placed_.insert(id).second) continue;
    const Shadow::Request* request = shadow_.find(of);
    const Shadow::Executor* on = shadow_.find(executor);
    const Share* share = request && on ? share_of(request->submit->function) : nullptr;
    if (!share || !share->device || request->submit->quota == sched::Quota{}) continue;
    const Shadow::Device& home = *shadow_.find(*share->device);
    const bool is_small = shadow_.bytes_of(*request->submit) + home.context_bytes > home.memory_bytes ||
                          home.is_doubted(now, config_.room_back);
    expect(on->device == *share->device || is_small, now, "run{} of f{} is on d{}, and that is at home on d{}",
           id.value, request->submit->function.value, on->device.value, share->device->value);
  }
}

// Before the shadow takes it in, and after the budgets did.
void QuotaChecker::check_overdraft(Time now, const sched::Event& event) {
  const Shadow::Run* run = nullptr;
  Duration piece{0};
  if (const auto* used = std::get_if<sched::DeviceUsed>(&event)) {
    run = shadow_.run_in(used->launcher);
    piece = used->device_time;
    if (run) {
      Duration& told = told_[shadow_.id_in(used->launcher)];
      told = told + piece;
    }
  } else if (const auto* finished = std::get_if<sched::Finished>(&event)) {
    run = shadow_.find(finished->run);
    piece = finished->device_time - told_[finished->run];
  }
  if (!run || !budgets_.has_quota(*run)) return;
  const sched::FunctionId function = run->submit->function;
  const sched::Units units = shadow_.find(run->device)->units;
  Duration& largest = largest_[function];
  largest = std::max(largest, piece);
  const auto runs = std::count_if(shadow_.runs().begin(), shadow_.runs().end(), [&](const auto& entry) {
    return entry.second.submit->function == function && entry.second.device == run->device;
  });
  const Duration over{-budgets_.left(function, run->device, units, now).ns};
  Duration& excused = excused_[{function, run->device}];
  // What is on the device while its gate is closed was there before, and may never end.
  if (const auto closed = closed_.find(sched::lane_of(run->executor, run->lane)); closed != closed_.end())
    excused = excused + std::min(piece, Duration{(now - std::exchange(closed->second, now)).ns * units});
  if (over.ns <= 0) excused = {0};
  // One may be launched as long as less than the depth is in flight; and as much may have ended that was not told of
  // yet when the end of its window was found.
  const Duration in_flight{runs * (2 * largest.ns + kWrong * config_.depth.ns * 2 * units)};
  expect(over <= in_flight + excused || budgets_.quota_of(function).limit == 1000, now,
         "f{} had {}ns more of d{} than its limit, and {}ns may have been in flight", function.value, over.ns,
         run->device.value, in_flight.ns);
}

QuotaChecker::Launcher QuotaChecker::look_at(Time now, const Shadow::Run& run) {
  Launcher launcher{.id = sched::lane_of(run.executor, run.lane),
                    .function = run.submit->function,
                    .quota = {},
                    .is_run = true,
                    .has_quota = budgets_.has_quota(run),
                    .grant = {}};
  launcher.grant.open = true;  // as its executor starts
  if (const sched::Grant* grant = shadow_.grant_of(launcher.id)) launcher.grant = *grant;
  launcher.has_work = run.is_ready && !run.is_pausing;
  launcher.may_have = launcher.has_work || shadow_.has_all(run);
  launcher.rank = static_cast<uint8_t>(2 * sched::priority_of(run.level) + 1);
  if (launcher.has_quota) launcher.quota = run.submit->quota;
  look_at_quota(now, run.device, launcher);
  const sched::Units units = shadow_.find(run.device)->units;
  if (units.in_halves && run.units > 0)
    expect(run.first_unit % run.units == 0 && run.first_unit + run.units <= units, now,
           "a run of f{} has {} units of d{} from {} on, and there is no such part of {}", launcher.function.value,
           run.units, run.device.value, run.first_unit, units.count);
  expect(run.units == (launcher.quota.units == 1000 ? 0 : launcher.units) || (run.units == 0 && units == 1), now,
         "a run of f{} has {} units of d{}, and its quota says {}", launcher.function.value, run.units,
         run.device.value, launcher.units);
  return launcher;
}

QuotaChecker::Launcher QuotaChecker::look_at(Time now, sched::LauncherId id, const Shadow::Program& program) {
  Launcher launcher{.id = id,
                    .function = program.function,
                    .quota = program.quota,
                    .has_quota = budgets_.has_quota(program),
                    .has_work = program.has_work,
                    .may_have = true,
                    .rank = static_cast<uint8_t>(2 * program.level + 1),
                    .grant = {}};
  if (const sched::Grant* grant = shadow_.grant_of(id)) launcher.grant = *grant;
  look_at_quota(now, program.device, launcher);
  return launcher;
}

void QuotaChecker::look_at_quota(Time now, sched::DeviceId device, Launcher& launcher) {
  const sched::Units units = shadow_.find(device)->units;
  launcher.units = Budgets::units_of(launcher.quota, units);
  if (!launcher.has_quota) return;
  launcher.is_spent = budgets_.is_spent(launcher.function, device, units, now);
  if (budgets_.is_below_request(launcher.function, device, units, now)) --launcher.rank;
}

void QuotaChecker::check_time(Time now, sched::DeviceId device, const Launcher& launcher) {
  const sched::Grant& grant = launcher.grant;
  const Duration left = budgets_.left(launcher.function, device, shadow_.find(device)->units, now);
  expect(grant.meters, now, "{} has a quota, and is not asked what it used", show(launcher.id));
  expect(!launcher.is_spent || !grant.open, now, "{} had its limit of d{} and {}ns more, and is open",
         show(launcher.id), device.value, -left.ns);
  if (!grant.open && grant.why == sched::Grant::Why::kQuota) {
    expect(launcher.is_spent, now, "{} is closed for its quota, and has {}ns left", show(launcher.id), left.ns);
    expect(shadow_.wake() <= budgets_.next_window(now), now, "nobody wakes the core for the next window of {}",
           show(launcher.id));
  }
  if (!grant.open || budgets_.quota_of(launcher.function).limit == 1000) return;
  const Time latest = now + std::max(Duration{left.ns / launcher.units}, kLeastLeft) + kNear;
  expect(grant.until <= latest, now, "{} has {}ns of d{} left on {} units, and is open until {}ns", show(launcher.id),
         left.ns, device.value, launcher.units, grant.until.ns);
}

void QuotaChecker::check_units(Time now, sched::DeviceId device, const Launchers& launchers) {
  const uint32_t all = shadow_.find(device)->units;
  const bool has_parts =
      std::any_of(launchers.begin(), launchers.end(), [](const Launcher& one) { return one.quota.units < 1000; });
  if (!has_parts) return;
  std::map<sched::FunctionId, uint32_t> certain, possible;  // of those that use a part, which their lanes share
  std::set<uint8_t> whole, may_be_whole;
  for (const Launcher& one : launchers) {
    if (!one.grant.open) continue;
    if (one.units == all) {
      if (one.has_work) whole.insert(one.rank);
      if (one.may_have) may_be_whole.insert(one.rank);
    } else {
      const auto take = [&](auto& parts) { parts[one.function] = std::max(parts[one.function], one.units); };
      if (one.has_work) take(certain);
      if (one.may_have) take(possible);
    }
  }
  const auto sum = [](const auto& parts) {
    return std::accumulate(parts.begin(), parts.end(), uint64_t{0},
                           [](uint64_t units, const auto& part) { return units + part.second; });
  };
  const uint64_t used = sum(certain) + whole.size() * all;
  expect(used <= all, now, "{} units of d{} are given away, which has {}", used, device.value, all);
  const uint64_t taken = sum(possible) + may_be_whole.size() * all;
  for (const Launcher& one : launchers) {
    if (one.grant.open || one.grant.why != sched::Grant::Why::kUnits || !one.has_work) continue;
    const bool shares_all = one.units == all && whole.contains(one.rank);
    const auto part = certain.find(one.function);
    const bool shares_part = one.units < all && part != certain.end() && part->second >= one.units;
    expect(!shares_all && !shares_part && taken + one.units > all, now,
           "{} waits for {} units of d{}, and {} of {} are taken", show(one.id), one.units, device.value, taken, all);
  }
}

void QuotaChecker::check_waits(Time now, sched::DeviceId device, const Launchers& launchers) {
  for (const Launcher& one : launchers) {
    const bool waits = !one.grant.open && one.grant.why == sched::Grant::Why::kUnits && one.has_work;
    // Who has work, as far as anybody can tell.
    const bool is_first = std::none_of(launchers.begin(), launchers.end(), [&](const Launcher& other) {
      return other.rank < one.rank && !other.is_spent && other.may_have;
    });
    if (!waits || !is_first) {
      waits_.erase(one.id);
      continue;
    }
    Wait& wait = waits_.try_emplace(one.id, Wait{now, 0}).first->second;
    wait.most_launchers = std::max(wait.most_launchers, launchers.size());
    const Duration most{config_.unit_turn.ns * static_cast<int64_t>(2 * wait.most_launchers)};
    expect(now - wait.since <= most, now, "{} waits for {} units of d{} for {}ns, beside {} others", show(one.id),
           one.units, device.value, (now - wait.since).ns, wait.most_launchers - 1);
  }
}

}  // namespace quern::sim
