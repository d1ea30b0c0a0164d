// SPDX-License-Identifier: Apache-2.0
#include "sim/budgets.h"

#include <algorithm>
#include <set>

#include "sched/policy/table.h"

namespace quern::sim {
namespace {

// What sched/dispatch_shares.cc goes by: less is not worth a launch.
constexpr Duration kLeastLeft = Duration::micros(20);

bool has_levels(const sched::Config& config) {
  const auto fairness = sched::make_fairness(config.policy.fairness);
  return fairness && fairness->has_levels();
}

bool is_at_the_door(sched::End end) {
  using sched::End;
  return end == End::kQueueFull || end == End::kTooLarge || end == End::kOverLimit || end == End::kWouldBeLate ||
         end == End::kNoDevice || end == End::kOverQuota || end == End::kQuarantined;
}

}  // namespace

Budgets::Budgets(const sched::Config& config) : window_(config.window), has_levels_(has_levels(config)) {}

void Budgets::restart() {
  functions_.clear();
  told_.clear();
  gone_.clear();
}

void Budgets::happened(Time now, const sched::Event& event, const Shadow& shadow) {
  if (const auto* used = std::get_if<sched::DeviceUsed>(&event)) {
    if (const Shadow::Program* program = shadow.find(used->launcher)) {
      if (has_quota(*program))
        charge(program->function, program->device, shadow.find(program->device)->units, used->device_time, now);
    } else if (const Shadow::Run* run = shadow.run_in(used->launcher); run && has_quota(*run)) {
      charge(run->submit->function, run->device, shadow.find(run->device)->units, used->device_time, now);
      Duration& told = told_[shadow.id_in(used->launcher)];
      told = told + used->device_time;
    }
  }
  if (const auto* finished = std::get_if<sched::Finished>(&event)) {
    const Shadow::Run* run = shadow.find(finished->run);
    if (run && has_quota(*run)) {
      const Duration rest = finished->device_time - told_[finished->run];
      if (rest.ns > 0) charge(run->submit->function, run->device, shadow.find(run->device)->units, rest, now);
    }
  }
}

void Budgets::settle(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                     const Shadow& shadow) {
  // Those that begin with this step begin after it.
  std::set<sched::RunId> begun;
  for (const sched::Action& action : actions)
    if (const auto* run = std::get_if<sched::Run>(&action)) begun.insert(run->run);
  const auto forget_if_unused = [&](sched::FunctionId function) {
    const bool is_used = std::any_of(shadow.runs().begin(), shadow.runs().end(), [&](const auto& entry) {
      return entry.second.submit->function == function && has_quota(entry.second) && !begun.contains(entry.first);
    });
    if (!is_used) functions_.erase(function);
  };
  for (const auto& [id, run] : shadow.ended()) {
    told_.erase(id);
    if (gone_.contains(run.submit->function)) forget_if_unused(run.submit->function);
  }
  if (const auto* gone = std::get_if<sched::FunctionGone>(&event)) {
    gone_.insert(gone->function);
    forget_if_unused(gone->function);
  }
  if (const auto* up = std::get_if<sched::LauncherUp>(&event); up && up->quota != sched::Quota{})
    if (shadow.find(up->launcher)) set(up->function, up->quota, now);
  if (const auto* submit = std::get_if<sched::Submit>(&event); submit && submit->quota != sched::Quota{}) {
    const bool is_refused = std::any_of(actions.begin(), actions.end(), [&](const sched::Action& action) {
      const auto* answer = std::get_if<sched::Answer>(&action);
      return answer && answer->request == submit->request && is_at_the_door(answer->end);
    });
    if (!is_refused && has_levels_) set(submit->function, submit->quota, now);
  }
  for (const sched::Action& action : actions) {
    const auto* sent = std::get_if<sched::Run>(&action);
    const Shadow::Run* run = sent ? shadow.find(sent->run) : nullptr;
    if (run && has_quota(*run)) functions_.try_emplace(run->submit->function, Function{run->submit->quota, {}});
  }
}

void Budgets::set(sched::FunctionId id, const sched::Quota& quota, Time now) {
  Function& function = functions_[id];
  for (auto& [device, account] : function.accounts) pass_windows(function, account, now);
  function.quota = quota;
}

sched::Quota Budgets::quota_of(sched::FunctionId id) const {
  const auto found = functions_.find(id);
  return found == functions_.end() ? sched::Quota{} : found->second.quota;
}

uint32_t Budgets::units_of(const sched::Quota& quota, sched::Units units) {
  uint32_t most = units.count;
  while (most > 1 && uint64_t{most} * 1000 > uint64_t{units.count} * quota.units) --most;
  if (most == units.count || !units.in_halves) return most;
  uint32_t part = 1;
  while (part * 2 <= most) part *= 2;
  return part;
}

int64_t Budgets::share_ns(const sched::Quota& quota, uint32_t thousandths, sched::Units units) const {
  return static_cast<int64_t>(static_cast<__int128>(window_.ns) * units_of(quota, units) * thousandths / 1000);
}

Duration Budgets::share(sched::FunctionId function, uint32_t thousandths, sched::Units units) const {
  return {share_ns(quota_of(function), thousandths, units)};
}

void Budgets::pass_windows(const Function& function, Account& account, Time now) const {
  const int64_t window = now.ns / window_.ns;
  const auto given =
      static_cast<__int128>(share_ns(function.quota, function.quota.limit, account.units)) * (window - account.window);
  if (account.window == window) return;
  const __int128 debt = static_cast<__int128>(account.debt_ns) + account.used_ns - given;
  account = {window, 0, debt > 0 ? static_cast<int64_t>(debt) : 0, account.units};
}

Budgets::Account& Budgets::at(sched::FunctionId id, sched::DeviceId device, sched::Units units, Time now) {
  Function& function = functions_[id];
  const auto [account, fresh] = function.accounts.try_emplace(device);
  if (fresh) account->second = {now.ns / window_.ns, 0, 0, units};
  pass_windows(function, account->second, now);
  return account->second;
}

void Budgets::charge(sched::FunctionId function, sched::DeviceId device, sched::Units units, Duration used, Time now) {
  at(function, device, units, now).used_ns += used.ns;
}

Duration Budgets::left(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now) {
  const Account& account = at(function, device, units, now);
  const sched::Quota quota = quota_of(function);
  return {share_ns(quota, quota.limit, units) - account.used_ns - account.debt_ns};
}

Duration Budgets::used(sched::FunctionId function, sched::DeviceId device, Time now) {
  const auto found = functions_.find(function);
  if (found == functions_.end() || !found->second.accounts.contains(device)) return {0};
  Account& account = found->second.accounts.at(device);
  pass_windows(found->second, account, now);
  return {account.used_ns};
}

bool Budgets::is_spent(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now) {
  return quota_of(function).limit < 1000 && left(function, device, units, now) < kLeastLeft;
}

bool Budgets::is_below_request(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now) {
  const sched::Quota quota = quota_of(function);
  return !is_spent(function, device, units, now) &&
         at(function, device, units, now).used_ns < share_ns(quota, quota.request, units);
}

Duration Budgets::behind_request(sched::FunctionId function, sched::DeviceId device, sched::Units units, Time now) {
  if (!is_below_request(function, device, units, now)) return {0};
  const sched::Quota quota = quota_of(function);
  const double passed = static_cast<double>(now.ns % window_.ns) / static_cast<double>(window_.ns);
  const double due_ns = passed * static_cast<double>(share_ns(quota, quota.request, units));
  const double behind_ns = due_ns - static_cast<double>(at(function, device, units, now).used_ns);
  return {std::max<int64_t>(0, static_cast<int64_t>(behind_ns / units_of(quota, units)))};
}

Time Budgets::next_window(Time now) const { return {(now.ns / window_.ns + 1) * window_.ns}; }

}  // namespace quern::sim
