// SPDX-License-Identifier: Apache-2.0
#include "daemon/accounts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/suggest.h"

namespace quern::daemon {

void Account::add(const Account& other) {
  requests += other.requests;
  failed += other.failed;
  runs += other.runs;
  device_time_ns += other.device_time_ns;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  loads += other.loads;
  loaded_bytes += other.loaded_bytes;
  evictions += other.evictions;
  for (size_t i = 0; i < kCauses; ++i) waited_ns[i] += other.waited_ns[i];
}

void Account::add(const Waits& waits) {
  for (size_t i = 0; i < kCauses; ++i) waited_ns[i] += static_cast<uint64_t>(std::max<int64_t>(0, waits.time[i].ns));
}

std::string_view name_of(AccountBy by) {
  switch (by) {
    case AccountBy::kTenant:
      return "tenant";
    case AccountBy::kFunction:
      return "function";
    case AccountBy::kDevice:
      break;
  }
  return "device";
}

Result<AccountBy> parse_account_by(std::string_view text) {
  const std::vector<std::string> known = {"tenant", "function", "device"};
  const auto at = std::find(known.begin(), known.end(), text);
  if (at == known.end())
    return invalid(fmt::format("accounts by '{}': there are none{}; write tenant, function or device",
                               text.substr(0, 32), did_you_mean(text, known)));
  return static_cast<AccountBy>(at - known.begin());
}

Account& Accounts::of(std::string_view tenant, std::string_view function, std::string_view device) {
  auto whose = tenants_.find(tenant);
  if (whose == tenants_.end()) whose = tenants_.emplace(tenant, Rows()).first;
  Rows& rows = whose->second;
  const std::pair<std::string_view, std::string_view> key(function, device);
  if (const auto known = rows.find(key); known != rows.end()) return known->second;
  // Devices are few, and so are the rows that come on top.
  if (rows.size() >= most_of_each_ && function != kOthers) return of(tenant, kOthers, device);
  return rows.emplace(Key(function, device), Account()).first->second;
}

AccountTable Accounts::table(std::string_view tenant, AccountBy by, Time now) const {
  AccountTable table;
  table.by = by;
  table.age = now - since_;
  std::map<std::string, Account> sums;
  if (const auto whose = tenants_.find(tenant); whose != tenants_.end())
    for (const auto& [key, account] : whose->second) {
      const std::string_view device = key.second.empty() ? "-" : std::string_view(key.second);
      const std::string_view name = by == AccountBy::kTenant     ? tenant
                                    : by == AccountBy::kFunction ? std::string_view(key.first)
                                                                 : device;
      sums[std::string(name)].add(account);
      table.total.add(account);
    }
  for (auto& [name, account] : sums) {
    AccountTable::Row& row = table.rows.emplace_back();
    row.tenant = tenant;
    if (by == AccountBy::kFunction) row.function = name;
    if (by == AccountBy::kDevice) row.device = name;
    row.account = account;
  }
  return table;
}

void Turns::Held::change(int64_t by, Time now) {
  sum_ns = until(now);
  since = now;
  places += by;
}

void Turns::begin(uint64_t tenant, Time now) {
  tenants_[tenant].change(1, now);
  all_.change(1, now);
}

void Turns::end(uint64_t tenant, Time now) {
  tenants_[tenant].change(-1, now);
  all_.change(-1, now);
}

Turns::Mark Turns::mark(uint64_t tenant, Time now) const { return {now, tenants_[tenant].until(now), all_.until(now)}; }

bool Turns::divide(uint64_t tenant, const Mark& since, Time now, Duration waited, bool holds_place, Waits& into) const {
  const Mark at = mark(tenant, now);
  int64_t own = at.own_ns - since.own_ns, others = at.all_ns - since.all_ns - own;
  if (holds_place) own -= (now - since.at).ns;
  own = std::max<int64_t>(0, own);
  others = std::max<int64_t>(0, others);
  if (waited.ns <= 0 || own + others == 0) return false;
  const double share = static_cast<double>(others) / (static_cast<double>(own) + static_cast<double>(others));
  const Duration fairness{static_cast<int64_t>(share * static_cast<double>(waited.ns))};
  into.add(Cause::kFairness, fairness);
  into.add(Cause::kQueue, waited - fairness);
  return true;
}

Waits RunWaits::at_gate(Time now) const {
  Waits sum = gate;
  if (!is_closed() || pushed.at.ns == 0) return sum;
  const Duration more = now - std::max(closed_at, pushed.at);
  if (closed_by == Cause::kUrgent)
    sum.add_urgent(closed_for, more);
  else
    sum.add(closed_by, more);
  return sum;
}

Duration RunWaits::open_between(Time from, Time to, Time now) const {
  auto closed = spans;
  if (is_closed()) closed.emplace_back(std::max(closed_at, pushed.at), now);
  return uncovered(from, to, std::move(closed));
}

void RunWaits::settle(Time now) {
  gate = at_gate(now);
  if (!is_closed() || pushed.at.ns == 0 || spans.size() >= kMostSpans) return;
  spans.emplace_back(std::max(closed_at, pushed.at), now);
}

Duration uncovered(Time from, Time to, std::vector<std::pair<Time, Time>> spans) {
  std::sort(spans.begin(), spans.end());
  Duration bare{0};
  for (const auto& [begin, end] : spans) {
    if (from >= to) break;
    if (begin > from) bare = bare + (std::min(begin, to) - from);
    from = std::max(from, end);
  }
  if (from < to) bare = bare + (to - from);
  return bare;
}

}  // namespace quern::daemon
