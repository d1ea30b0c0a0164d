// SPDX-License-Identifier: Apache-2.0
#include "sched/tenants.h"

#include <algorithm>
#include <limits>

#include "sched/mutant.h"

namespace quern::sched {
namespace {

// Of what fits no device that is known: such a request waits for one to come back.
constexpr uint64_t kNoClass = std::numeric_limits<uint64_t>::max();

int64_t in_vtime(int64_t ns, uint32_t weight) {
  if (QUERN_MUTANT(5)) weight = 1;
  const int64_t half = weight / 2;
  return ns >= 0 ? (ns + half) / weight : -((-ns + half) / weight);
}

uint64_t oldest_of(const Tenant& tenant) {
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (const auto& [size, line] : tenant.lines) oldest = std::min(oldest, line.begin()->first);
  return oldest;
}

}  // namespace

void Tenants::set(const TenantSet& event) {
  const auto [it, fresh] = tenants_.try_emplace(event.tenant);
  Tenant& tenant = it->second;
  tenant.id = event.tenant;
  const uint32_t weight = std::max(1U, event.weight);
  if (tenant.queued > 0) weights_waiting_ = weights_waiting_ + weight - tenant.weight;
  tenant.weight = weight;
  tenant.limits = event.limits;
  if (fresh) {
    tenant.vtime = event.vtime;
    // After a restart, who was never seen starts beside the one that had least, not at the beginning of time.
    if (!has_served_ && event.vtime > 0) {
      const bool is_first = first_highest_ == 0;
      first_lowest_ = clock_ = is_first ? event.vtime : std::min(first_lowest_, event.vtime);
      first_highest_ = std::max(first_highest_, event.vtime);
    }
  }
  relist(tenant);
}

Tenant& Tenants::get(TenantId id) {
  Tenant& tenant = tenants_[id];
  tenant.id = id;
  return tenant;
}

const Tenant* Tenants::find(TenantId id) const {
  const auto found = tenants_.find(id);
  return found == tenants_.end() ? nullptr : &found->second;
}

uint64_t Tenants::size_class(uint64_t bytes) const {
  const auto size = sizes_.lower_bound(bytes);
  return size == sizes_.end() ? kNoClass : size->first;
}

void Tenants::add_size(uint64_t bytes) {
  if (++sizes_[bytes] > 1) return;
  const auto above = sizes_.upper_bound(bytes);
  const uint64_t from = above == sizes_.end() ? kNoClass : above->first;
  for (auto& [id, tenant] : tenants_) {
    const auto line = tenant.lines.find(from);
    if (line == tenant.lines.end()) continue;
    const Tenant::Line requests = line->second;
    for (const auto& [arrival, request] : requests) {
      if (request->bytes > bytes) continue;
      unlink(tenant, *request);
      link(tenant, *request);
    }
  }
  // Which class is the smallest may have changed for all.
  for (auto& [id, tenant] : tenants_) relist(tenant);
}

void Tenants::remove_size(uint64_t bytes) {
  const auto size = sizes_.find(bytes);
  if (--size->second > 0) return;
  sizes_.erase(size);
  for (auto& [id, tenant] : tenants_) {
    const auto line = tenant.lines.find(bytes);
    if (line == tenant.lines.end()) continue;
    const Tenant::Line requests = line->second;
    for (const auto& [arrival, request] : requests) {
      unlink(tenant, *request);
      link(tenant, *request);
    }
  }
  for (auto& [id, tenant] : tenants_) relist(tenant);
}

void Tenants::link(Tenant& tenant, Request& request) {
  request.size_class = size_class(request.bytes);
  tenant.lines[request.size_class].emplace(request.arrival, &request);
}

void Tenants::unlink(Tenant& tenant, Request& request) {
  const auto line = tenant.lines.find(request.size_class);
  line->second.erase(request.arrival);
  if (line->second.empty()) tenant.lines.erase(line);
}

void Tenants::add(Request& request) {
  Tenant& tenant = get(request.submit.tenant);
  link(tenant, request);
  functions_[request.submit.function].emplace(request.arrival, &request);
  if (tenant.queued++ == 0) weights_waiting_ += tenant.weight;
  tenant.queued_ns += request.estimate_ns;
  ++size_;
  request.queued = true;
  relist(tenant);
}

void Tenants::remove(Request& request) {
  Tenant& tenant = get(request.submit.tenant);
  unlink(tenant, request);
  const auto function = functions_.find(request.submit.function);
  function->second.erase(request.arrival);
  if (function->second.empty()) functions_.erase(function);
  if (--tenant.queued == 0) weights_waiting_ -= tenant.weight;
  tenant.queued_ns -= request.estimate_ns;
  --size_;
  request.queued = false;
  relist(tenant);
}

void Tenants::charge(Tenant& tenant, int64_t vtime) {
  tenant.vtime += vtime;
  largest_charge_ = std::max(largest_charge_, vtime < 0 ? -vtime : vtime);
}

void Tenants::began(Tenant& tenant, RunRecord& run, int64_t estimate_ns) {
  ++tenant.in_flight;
  tenant.in_flight_bytes += run.bytes;
  run.charged = in_vtime(estimate_ns, tenant.weight);
  if (!QUERN_MUTANT(6)) charge(tenant, run.charged);
  has_served_ = true;
  relist(tenant);
}

void Tenants::ended(RunRecord& run, std::optional<int64_t> used_ns) {
  Tenant& tenant = get(run.tenant);
  --tenant.in_flight;
  tenant.in_flight_bytes -= run.bytes;
  if (QUERN_MUTANT(7)) used_ns = 0;
  if (used_ns) charge(tenant, in_vtime(*used_ns, tenant.weight) - run.charged);
  relist(tenant);
}

bool Tenants::is_below_limits(const Tenant& tenant, uint64_t more_bytes) const {
  const Limits& limits = tenant.limits;
  if (limits.in_flight > 0 && tenant.in_flight >= limits.in_flight + (QUERN_MUTANT(8) ? 1 : 0)) return false;
  if (QUERN_MUTANT(9)) return true;
  return limits.memory_bytes == 0 || tenant.in_flight_bytes + more_bytes <= limits.memory_bytes;
}

void Tenants::relist(Tenant& tenant) {
  const uint64_t smallest = sizes_.empty() ? kNoClass : sizes_.begin()->first;
  ranks_.clear();
  bool is_next = false;
  for (const auto& [size, line] : tenant.lines) {
    if (!is_below_limits(tenant, line.begin()->second->bytes)) continue;
    ranks_.emplace_back(size, 0);
    is_next |= size == smallest;
  }
  // Whoever comes to compete for the devices that all compete for starts where the others are.
  if ((is_next && !tenant.is_next) || (!ranks_.empty() && tenant.ranks.empty()))
    if (!QUERN_MUTANT(10)) tenant.vtime = std::max(tenant.vtime, clock_);
  tenant.is_next = is_next;
  for (auto& [size, rank] : ranks_) rank = fairness_.rank(tenant, *tenant.lines.at(size).begin()->second);
  if (ranks_ == tenant.ranks) return;
  for (const auto& [size, rank] : tenant.ranks) {
    const auto order = order_.find(size);
    order->second.erase({rank, tenant.id});
    if (order->second.empty()) order_.erase(order);
  }
  for (const auto& [size, rank] : ranks_) order_[size].insert({rank, tenant.id});
  if (tenant.home) {
    Order& home = at_home_[*tenant.home];
    if (!tenant.ranks.empty()) home.erase({tenant.ranks.front().second, tenant.id});
    if (!ranks_.empty()) home.insert({ranks_.front().second, tenant.id});
  }
  tenant.ranks.swap(ranks_);
}

uint64_t Tenants::size_of(FunctionId function) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? 0 : found->second.size();
}

std::vector<Request*> Tenants::of_function(FunctionId function) const {
  std::vector<Request*> requests;
  if (const auto found = functions_.find(function); found != functions_.end())
    for (const auto& [arrival, request] : found->second) requests.push_back(request);
  return requests;
}

Request* Tenants::first_of(FunctionId function) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? nullptr : found->second.begin()->second;
}

namespace {

// The oldest of a tenant's requests that fit, of those classes in which it may go.
Request* oldest_that_fits(const Tenant& tenant, uint64_t bytes) {
  const std::pair<const uint64_t, Request*>* oldest = nullptr;
  for (const auto& [size, rank] : tenant.ranks) {
    if (size > bytes) break;
    const auto& front = *tenant.lines.at(size).begin();
    if (!oldest || front.first < oldest->first) oldest = &front;
  }
  return oldest ? oldest->second : nullptr;
}

}  // namespace

Request* Tenants::first(uint64_t bytes) const {
  const std::pair<int64_t, TenantId>* first = nullptr;
  for (const auto& [size, order] : order_) {
    if (size > bytes) break;
    if (!first || *order.begin() < *first) first = &*order.begin();
  }
  return first ? oldest_that_fits(tenants_.at(first->second), bytes) : nullptr;
}

std::vector<Request*> Tenants::first_few(uint64_t bytes, size_t most) const {
  Order few;
  for (const auto& [size, order] : order_) {
    if (size > bytes) break;
    size_t taken = 0;
    for (auto it = order.begin(); it != order.end() && taken < most; ++it, ++taken) few.insert(*it);
  }
  std::vector<Request*> requests;
  for (const auto& [rank, id] : few) {
    Request* request = oldest_that_fits(tenants_.at(id), bytes);
    if (requests.size() < most && std::find(requests.begin(), requests.end(), request) == requests.end())
      requests.push_back(request);
  }
  return requests;
}

Request* Tenants::first_at_home(DeviceId device, uint64_t bytes) const {
  const auto home = at_home_.find(device);
  if (home == at_home_.end()) return nullptr;
  size_t tried = 0;
  for (auto it = home->second.begin(); it != home->second.end() && tried < kMostBypassed; ++it, ++tried)
    if (Request* request = oldest_that_fits(tenants_.at(it->second), bytes)) return request;
  return nullptr;
}

bool Tenants::may_go(const Request& request) const {
  const Tenant& tenant = tenants_.at(request.submit.tenant);
  if (!is_below_limits(tenant, request.bytes)) return false;
  return tenant.bypassed < kMostBypassed || request.arrival == oldest_of(tenant);
}

void Tenants::give_home(Tenant& tenant, DeviceId device) {
  if (tenant.home == device) return;
  if (tenant.home && !tenant.ranks.empty()) at_home_[*tenant.home].erase({tenant.ranks.front().second, tenant.id});
  tenant.home = device;
  if (!tenant.ranks.empty()) at_home_[device].insert({tenant.ranks.front().second, tenant.id});
}

void Tenants::took(const Request& request, const Request& first) {
  Tenant& tenant = get(request.submit.tenant);
  tenant.bypassed = request.arrival == oldest_of(tenant) ? 0 : tenant.bypassed + 1;
  // The turns of those who wait for a large device do not count against the others, nor the other way round.
  const auto order = sizes_.empty() ? order_.end() : order_.find(sizes_.begin()->first);
  const TenantId lowest = order == order_.end() ? first.submit.tenant : order->second.begin()->second;
  clock_ = std::max(clock_, tenants_.at(lowest).vtime);
}

int64_t Tenants::expected_wait_ns(const Tenant& tenant, uint64_t devices) const {
  if (tenant.queued_ns <= 0 || devices == 0) return 0;
  const auto wait = static_cast<__int128>(tenant.queued_ns) * weights_waiting_ / tenant.weight / devices;
  return static_cast<int64_t>(std::min<__int128>(wait, std::numeric_limits<int64_t>::max()));
}

std::vector<Scheduler::Standing> Tenants::standings() const {
  std::vector<Scheduler::Standing> standings;
  for (const auto& [id, tenant] : tenants_) {
    Scheduler::Standing one;
    one.tenant = id;
    one.weight = tenant.weight;
    one.queued = tenant.queued;
    one.in_flight = tenant.in_flight;
    one.in_flight_bytes = tenant.in_flight_bytes;
    one.vtime = tenant.ranks.empty() ? std::max(tenant.vtime, clock_) : tenant.vtime;
    one.is_next = tenant.is_next;
    standings.push_back(one);
  }
  return standings;
}

int64_t Tenants::lag() const {
  const auto order = sizes_.empty() ? order_.end() : order_.find(sizes_.begin()->first);
  if (order == order_.end()) return 0;
  return tenants_.at(order->second.rbegin()->second).vtime - tenants_.at(order->second.begin()->second).vtime;
}

}  // namespace quern::sched
