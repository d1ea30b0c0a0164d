// SPDX-License-Identifier: Apache-2.0
#include "sched/quotas.h"

#include <algorithm>
#include <iterator>

#include "sched/mutant.h"

namespace quern::sched {

int64_t Quotas::share_ns(uint32_t thousandths, uint32_t units) const {
  return static_cast<int64_t>(static_cast<__int128>(config_.window.ns) * units * thousandths / 1000);
}

Quotas::Function& Quotas::add(FunctionId id, const Quota& quota, Time now) {
  const auto [it, fresh] = functions_.try_emplace(id);
  if (!fresh) return it->second;
  it->second.quota = quota;
  if (functions_.size() <= kMost) return it->second;
  for (auto other = functions_.begin(); other != functions_.end();) {
    Function& function = other->second;
    bool owes = false;
    for (auto& [device, account] : function.accounts) {
      pass_windows(function, account, now);
      owes |= account.used_ns + account.debt_ns > 0;
    }
    other = other == it || function.holders > 0 || owes ? std::next(other) : functions_.erase(other);
  }
  return it->second;
}

void Quotas::set(FunctionId id, const Quota& quota, Time now) {
  Function& function = add(id, quota, now);
  function.is_gone = false;
  // What passed until now passed under the old one.
  for (auto& [device, account] : function.accounts) pass_windows(function, account, now);
  function.quota = quota;
}

void Quotas::hold(FunctionId id, const Quota& quota, Time now) { ++add(id, quota, now).holders; }

void Quotas::release(FunctionId id) {
  const auto it = functions_.find(id);
  if (it == functions_.end() || it->second.holders == 0) return;
  if (--it->second.holders == 0 && it->second.is_gone) functions_.erase(it);
}

void Quotas::forget(FunctionId id) {
  const auto it = functions_.find(id);
  if (it == functions_.end()) return;
  it->second.is_gone = true;
  if (it->second.holders == 0) functions_.erase(it);
}

Quota Quotas::of(FunctionId id) const {
  const auto it = functions_.find(id);
  return it == functions_.end() ? Quota{} : it->second.quota;
}

// What is owed is paid back by every window that passed.
void Quotas::pass_windows(const Function& function, Account& account, Time now) const {
  const int64_t window = now.ns / config_.window.ns;
  if (account.window == window) return;
  const int64_t limit = share_ns(function.quota.limit, account.units);
  const auto given = static_cast<__int128>(limit) * (window - account.window);
  const __int128 debt = static_cast<__int128>(account.debt_ns) + account.used_ns - given;
  account.debt_ns = debt > 0 && !QUERN_MUTANT(49) ? static_cast<int64_t>(debt) : 0;
  account.used_ns = 0;
  account.window = window;
}

Quotas::Account* Quotas::at(DeviceId device, FunctionId id, uint32_t units, Time now) {
  const auto it = functions_.find(id);
  if (it == functions_.end()) return nullptr;
  const auto [account, fresh] = it->second.accounts.try_emplace(device);
  if (fresh) account->second.window = now.ns / config_.window.ns;
  pass_windows(it->second, account->second, now);
  account->second.units = units;
  return &account->second;
}

void Quotas::charge(DeviceId device, FunctionId function, uint32_t units, Duration used, Time now) {
  if (Account* account = at(device, function, units, now)) account->used_ns += used.ns;
}

Duration Quotas::left(DeviceId device, FunctionId function, uint32_t units, Time now) {
  const Account* account = at(device, function, units, now);
  if (!account) return Duration::forever();
  return {share_ns(of(function).limit, units) - account->used_ns - account->debt_ns};
}

Duration Quotas::behind_request(DeviceId device, FunctionId function, uint32_t units, Time now) {
  const Account* account = at(device, function, units, now);
  if (!account) return {0};
  const auto share = static_cast<__int128>(share_ns(of(function).request, units));
  return {static_cast<int64_t>(share * (now.ns % config_.window.ns) / config_.window.ns) - account->used_ns};
}

bool Quotas::is_below_request(DeviceId device, FunctionId function, uint32_t units, Time now) {
  const Account* account = at(device, function, units, now);
  return account && account->used_ns < share_ns(of(function).request, units);
}

}  // namespace quern::sched
