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

uint64_t oldest_of(const Flow& flow) {
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (const auto& [size, line] : flow.lines) oldest = std::min(oldest, line.begin()->first);
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
    tenant.first_vtime = event.vtime;
    // After a restart, who was never seen starts beside the one that had least, not at the beginning of time.
    if (!has_served_ && event.vtime > 0) {
      const bool is_first = first_highest_ == 0;
      first_lowest_ = is_first ? event.vtime : std::min(first_lowest_, event.vtime);
      first_highest_ = std::max(first_highest_, event.vtime);
      for (auto& [number, level] : levels_) level.clock = first_lowest_;
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

Tenants::Level& Tenants::level(LevelNo number) {
  const auto [it, fresh] = levels_.try_emplace(number);
  if (fresh) it->second.clock = first_lowest_;
  return it->second;
}

Flow& Tenants::flow(Tenant& tenant, LevelNo level) {
  const auto [it, fresh] = tenant.flows.try_emplace(level);
  if (fresh) it->second.vtime = tenant.first_vtime;
  return it->second;
}

const Flow& Tenants::flow_of(const Request& request) const {
  return tenants_.at(request.submit.tenant).flows.at(request.level);
}

void Tenants::add_size(uint64_t bytes) {
  if (++sizes_[bytes] > 1) return;
  const auto above = sizes_.upper_bound(bytes);
  reclass(above == sizes_.end() ? kNoClass : above->first, bytes);
}

void Tenants::remove_size(uint64_t bytes) {
  const auto size = sizes_.find(bytes);
  if (--size->second > 0) return;
  sizes_.erase(size);
  reclass(bytes, bytes);
}

void Tenants::reclass(uint64_t from, uint64_t most_bytes) {
  for (auto& [id, tenant] : tenants_)
    for (auto& [level, flow] : tenant.flows) {
      const auto line = flow.lines.find(from);
      if (line == flow.lines.end()) continue;
      const Flow::Line requests = line->second;
      for (const auto& [arrival, request] : requests) {
        if (request->bytes > most_bytes) continue;
        unlink(tenant, *request);
        link(tenant, *request);
      }
    }
  // Which class is the smallest may have changed for all.
  for (auto& [id, tenant] : tenants_) relist(tenant);
}

void Tenants::link(Tenant& tenant, Request& request) {
  request.size_class = size_class(request.bytes);
  flow(tenant, request.level).lines[request.size_class].emplace(request.arrival, &request);
}

void Tenants::unlink(Tenant& tenant, Request& request) {
  Flow& flow = tenant.flows.at(request.level);
  const auto line = flow.lines.find(request.size_class);
  line->second.erase(request.arrival);
  if (line->second.empty()) flow.lines.erase(line);
}

void Tenants::add(Request& request) {
  Tenant& tenant = get(request.submit.tenant);
  link(tenant, request);
  functions_[request.submit.function].emplace(request.arrival, &request);
  if (tenant.queued++ == 0) weights_waiting_ += tenant.weight;
  tenant.queued_ns += request.estimate_ns;
  ++size_;
  if (request.attempt > 1) ++again_;
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
  if (request.attempt > 1) --again_;
  request.queued = false;
  relist(tenant);
}

void Tenants::charge(Flow& flow, int64_t vtime) {
  flow.vtime += vtime;
  largest_charge_ = std::max(largest_charge_, vtime < 0 ? -vtime : vtime);
}

void Tenants::began(RunRecord& run, int64_t estimate_ns) {
  Tenant& tenant = get(run.tenant);
  Flow& charged = flow(tenant, run.level);
  ++tenant.in_flight;
  ++charged.in_flight;
  tenant.in_flight_bytes += run.bytes;
  run.charged = in_vtime(estimate_ns, tenant.weight);
  if (!QUERN_MUTANT(6)) charge(charged, run.charged);
  has_served_ = true;
  relist(tenant);
}

void Tenants::ended(RunRecord& run, std::optional<int64_t> used_ns) {
  Tenant& tenant = get(run.tenant);
  Flow& charged = flow(tenant, run.level);
  --tenant.in_flight;
  --charged.in_flight;
  tenant.in_flight_bytes -= run.bytes;
  if (QUERN_MUTANT(7)) used_ns = 0;
  if (used_ns) charge(charged, in_vtime(*used_ns, tenant.weight) - run.charged);
  relist(tenant);
}

bool Tenants::is_below_limits(const Tenant& tenant, uint64_t more_bytes) const {
  const Limits& limits = tenant.limits;
  if (limits.in_flight > 0 && tenant.in_flight >= limits.in_flight + (QUERN_MUTANT(8) ? 1 : 0)) return false;
  if (QUERN_MUTANT(9)) return true;
  return limits.memory_bytes == 0 || tenant.in_flight_bytes + more_bytes <= limits.memory_bytes;
}

void Tenants::relist(Tenant& tenant) {
  for (auto& [level, flow] : tenant.flows) relist(tenant, level, flow);
}

void Tenants::relist(Tenant& tenant, LevelNo number, Flow& flow) {
  if (flow.lines.empty() && flow.ranks.empty()) return;
  Level& level = this->level(number);
  const uint64_t smallest = sizes_.empty() ? kNoClass : sizes_.begin()->first;
  ranks_.clear();
  bool is_next = false;
  for (const auto& [size, line] : flow.lines) {
    if (!is_below_limits(tenant, line.begin()->second->bytes)) continue;
    ranks_.emplace_back(size, 0);
    is_next |= size == smallest;
  }
  // Whoever comes to compete for the devices that all compete for starts where the others are.
  if ((is_next && !flow.is_next) || (!ranks_.empty() && flow.ranks.empty()))
    if (!QUERN_MUTANT(10)) flow.vtime = std::max(flow.vtime, level.clock);
  flow.is_next = is_next;
  for (auto& [size, rank] : ranks_) rank = fairness_.rank(flow, *flow.lines.at(size).begin()->second);
  if (ranks_ == flow.ranks) return;
  for (const auto& [size, rank] : flow.ranks) {
    const auto order = level.order.find(size);
    order->second.erase({rank, tenant.id});
    if (order->second.empty()) level.order.erase(order);
  }
  for (const auto& [size, rank] : ranks_) level.order[size].insert({rank, tenant.id});
  if (tenant.home) {
    Order& home = at_home_[*tenant.home];
    if (!flow.ranks.empty()) home.erase({flow.ranks.front().second, tenant.id});
    if (!ranks_.empty()) home.insert({ranks_.front().second, tenant.id});
  }
  flow.ranks.swap(ranks_);
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
Request* oldest_that_fits(const Flow& flow, uint64_t bytes) {
  const std::pair<const uint64_t, Request*>* oldest = nullptr;
  for (const auto& [size, rank] : flow.ranks) {
    if (size > bytes) break;
    const auto& front = *flow.lines.at(size).begin();
    if (!oldest || front.first < oldest->first) oldest = &front;
  }
  return oldest ? oldest->second : nullptr;
}

}  // namespace

Request* Tenants::first(uint64_t bytes) const {
  for (const auto& [number, level] : levels_)
    if (Request* request = first(bytes, number)) return request;
  return nullptr;
}

Request* Tenants::first(uint64_t bytes, LevelNo number) const {
  const auto level = levels_.find(number);
  if (level == levels_.end()) return nullptr;
  const std::pair<int64_t, TenantId>* first = nullptr;
  for (const auto& [size, order] : level->second.order) {
    if (size > bytes) break;
    if (!first || *order.begin() < *first) first = &*order.begin();
  }
  return first ? oldest_that_fits(tenants_.at(first->second).flows.at(number), bytes) : nullptr;
}

std::optional<LevelNo> Tenants::next_level(LevelNo from) const {
  for (auto level = levels_.lower_bound(from); level != levels_.end(); ++level)
    if (!level->second.order.empty()) return level->first;
  return std::nullopt;
}

std::vector<Request*> Tenants::first_few(uint64_t bytes, size_t most) const {
  std::vector<Request*> requests;
  for (const auto& [number, level] : levels_) {
    Order few;
    for (const auto& [size, order] : level.order) {
      if (size > bytes) break;
      size_t taken = 0;
      for (auto it = order.begin(); it != order.end() && taken < most; ++it, ++taken) few.insert(*it);
    }
    for (const auto& [rank, id] : few) {
      if (requests.size() >= most) return requests;
      Request* request = oldest_that_fits(tenants_.at(id).flows.at(number), bytes);
      if (std::find(requests.begin(), requests.end(), request) == requests.end()) requests.push_back(request);
    }
  }
  return requests;
}

std::vector<Request*> Tenants::few_of_each(uint64_t bytes, LevelNo number) const {
  constexpr size_t kMostTenants = 16, kMostOfOne = 4;
  std::vector<Request*> requests;
  const auto level = levels_.find(number);
  if (level == levels_.end()) return requests;
  Order few;
  for (const auto& [size, order] : level->second.order) {
    if (size > bytes) break;
    size_t taken = 0;
    for (auto it = order.begin(); it != order.end() && taken < kMostTenants; ++it, ++taken) few.insert(*it);
  }
  std::set<TenantId> seen;
  for (const auto& [rank, id] : few) {
    if (!seen.insert(id).second) continue;
    const Flow& flow = tenants_.at(id).flows.at(number);
    Flow::Line oldest;
    for (const auto& [size, listed] : flow.ranks) {
      if (size > bytes) break;
      const Flow::Line& line = flow.lines.at(size);
      size_t taken = 0;
      for (auto it = line.begin(); it != line.end() && taken < kMostOfOne; ++it, ++taken)
        if (is_below_limits(tenants_.at(id), it->second->bytes)) oldest.insert(*it);
    }
    for (const auto& [arrival, request] : oldest) requests.push_back(request);
  }
  return requests;
}

Request* Tenants::first_at_home(DeviceId device, uint64_t bytes) const {
  const auto home = at_home_.find(device);
  if (home == at_home_.end()) return nullptr;
  size_t tried = 0;
  for (auto it = home->second.begin(); it != home->second.end() && tried < kMostBypassed; ++it, ++tried)
    if (Request* request = oldest_that_fits(tenants_.at(it->second).flows.at(level_of(0)), bytes)) return request;
  return nullptr;
}

bool Tenants::may_go(const Request& request) const {
  const Tenant& tenant = tenants_.at(request.submit.tenant);
  if (!is_below_limits(tenant, request.bytes)) return false;
  const Flow& flow = flow_of(request);
  return flow.bypassed < kMostBypassed || request.arrival == oldest_of(flow);
}

void Tenants::give_home(Tenant& tenant, DeviceId device) {
  if (tenant.home == device) return;
  const Flow& only = flow(tenant, level_of(0));
  if (tenant.home && !only.ranks.empty()) at_home_[*tenant.home].erase({only.ranks.front().second, tenant.id});
  tenant.home = device;
  if (!only.ranks.empty()) at_home_[device].insert({only.ranks.front().second, tenant.id});
}

bool Tenants::is_aside(TenantId id) const { return !aside_.empty() && tenants_.at(id).aside_until > Time{0}; }

void Tenants::set_aside(TenantId id, Time until) {
  Tenant& tenant = get(id);
  if (tenant.aside_until >= until) return;
  aside_.erase({tenant.aside_until, id});
  tenant.aside_until = until;
  aside_.insert({until, id});
}

void Tenants::come_back(Time now) {
  while (!aside_.empty() && aside_.begin()->first <= now) {
    Tenant& tenant = tenants_.at(aside_.begin()->second);
    aside_.erase(aside_.begin());
    tenant.aside_until = {0};
    for (auto& [number, flow] : tenant.flows) flow.vtime = std::max(flow.vtime, level(number).clock);
    relist(tenant);
  }
}

void Tenants::took(const Request& request, const Request& first) {
  Flow& flow = get(request.submit.tenant).flows.at(request.level);
  flow.bypassed = request.arrival == oldest_of(flow) ? 0 : flow.bypassed + 1;
  // The turns of those who wait for a large device do not count against the others, nor the other way round.
  Level& level = this->level(request.level);
  TenantId lowest = first.submit.tenant;
  if (const Order* order = order_of_all(level)) {
    const auto it = std::find_if(order->begin(), order->end(), [&](const auto& one) { return !is_aside(one.second); });
    if (it != order->end()) lowest = it->second;
  }
  level.clock = std::max(level.clock, tenants_.at(lowest).flows.at(request.level).vtime);
}

// Of those that any device could take.
const Tenants::Order* Tenants::order_of_all(const Level& level) const {
  if (sizes_.empty()) return nullptr;
  const auto order = level.order.find(sizes_.begin()->first);
  return order == level.order.end() ? nullptr : &order->second;
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
    one.vtime = std::max(tenant.first_vtime, first_lowest_);
    for (const auto& [number, flow] : tenant.flows) {
      const auto level = levels_.find(number);
      const int64_t clock = level == levels_.end() ? first_lowest_ : level->second.clock;
      const bool is_next = flow.is_next && !is_aside(id);
      one.flows.push_back({number, flow.ranks.empty() ? std::max(flow.vtime, clock) : flow.vtime, is_next});
      one.vtime = std::max(one.vtime, one.flows.back().vtime);
    }
    standings.push_back(one);
  }
  return standings;
}

int64_t Tenants::lag() const {
  int64_t most = 0;
  for (const auto& [number, level] : levels_) {
    const Order* order = order_of_all(level);
    if (!order) continue;
    const auto waits = [&](const auto& one) { return !is_aside(one.second); };
    const auto last = std::find_if(order->begin(), order->end(), waits);
    if (last == order->end()) continue;
    const auto first = std::find_if(order->rbegin(), order->rend(), waits);
    most = std::max(
        most, tenants_.at(first->second).flows.at(number).vtime - tenants_.at(last->second).flows.at(number).vtime);
  }
  return most;
}

}  // namespace quern::sched
