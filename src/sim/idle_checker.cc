// SPDX-License-Identifier: Apache-2.0
#include "sim/idle_checker.h"

#include <algorithm>
#include <optional>

namespace quern::sim {

using Progress = sched::Scheduler::Progress;

bool IdleChecker::applies_to(const sched::Policy& policy) { return policy.placement != "exclusive"; }

void IdleChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                          const sched::Scheduler& core) {
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) shadow_.carry_out(now, action);
  if (!applies_to(config_.policy) || core.counts().queued == 0) return;
  const bool none_is_free = std::none_of(shadow_.devices().begin(), shadow_.devices().end(), [](const auto& entry) {
    return entry.second.is_up && entry.second.runs == 0;
  });
  if (none_is_free) return;

  struct Least {
    uint64_t bytes = UINT64_MAX;
    sched::RequestId request;
  };
  struct Waiting {
    // By the device they wait for, and their domain: a device may not be for one that said it has no room.
    std::map<std::pair<std::optional<sched::DeviceId>, sched::DomainId>, Least> least;
    uint64_t most = 0;  // bytes
  };
  std::map<sched::TenantId, Waiting> waiting;
  std::set<sched::DomainId> placed;
  const auto homes = homes_of(core);
  std::set<sched::FunctionId> at_home;  // one that came before waits for the home of its function
  for (const auto& [id, request] : shadow_.requests()) {
    const auto progress = core.progress(id);
    if (progress == Progress::kPlaced && !shadow_.run_of(request)) placed.insert(request.submit->domain);
    if (progress != Progress::kQueued) continue;
    Waiting& those = waiting[request.submit->tenant];
    const uint64_t bytes = shadow_.bytes_of(*request.submit);
    const auto home = request.submit->quota == sched::Quota{} ? homes.end() : homes.find(request.submit->function);
    // Calls of one function differ in size. Those of one with a share go in turn, also where the next would fit
    // elsewhere.
    const bool has_home = home != homes.end() && (bytes <= home->second.second || at_home.contains(home->first));
    if (has_home) at_home.insert(home->first);
    Least& least = those.least[{has_home ? std::optional(home->second.first) : std::nullopt, request.submit->domain}];
    if (bytes < least.bytes) least = {bytes, id};
    those.most = std::max(those.most, bytes);
  }
  // A tenant waits for itself while one of its requests might be too much for its limits: its order is its own affair.
  for (const auto& standing : core.standings()) {
    const auto tenant = shadow_.tenants().find(standing.tenant);
    const sched::Limits limits = tenant == shadow_.tenants().end() ? sched::Limits{} : tenant->second.limits;
    const bool at_limit =
        (limits.in_flight > 0 && standing.in_flight >= limits.in_flight) ||
        (limits.memory_bytes > 0 && standing.in_flight_bytes + waiting[standing.tenant].most > limits.memory_bytes);
    if (at_limit) waiting.erase(standing.tenant);
  }
  for (const auto& [id, device] : shadow_.devices()) {
    if (!device.is_up || device.runs > 0) continue;
    const auto books = core.books(id);
    if (!books || !is_idle(id, device, *books, placed)) continue;
    // After it could not give what it should have had, it is taken for smaller: what the books say counts.
    const uint64_t memory = std::min(device.memory_bytes, books->memory_bytes);
    for (const auto& [tenant, those] : waiting)
      for (const auto& [where, least] : those.least)
        if ((!where.first || *where.first == id) && !device.is_claimed(where.second, now, config_.room_back))
          expect(least.bytes + device.context_bytes > memory, now,
                 "r{} of t{} waits for {} bytes, and d{} with {} and a context of {} idles", least.request.value,
                 tenant.value, least.bytes, id.value, memory, device.context_bytes);
  }
}

std::map<sched::FunctionId, std::pair<sched::DeviceId, uint64_t>> IdleChecker::homes_of(
    const sched::Scheduler& core) const {
  std::map<sched::FunctionId, std::pair<sched::DeviceId, uint64_t>> homes;
  for (const auto& share : core.shares()) {
    const auto books = share.device ? core.books(*share.device) : std::nullopt;
    if (!books) continue;
    const Shadow::Device& device = *shadow_.find(*share.device);
    const uint64_t memory = std::min(device.memory_bytes, books->memory_bytes);
    homes[share.function] = {*share.device, memory - std::min(memory, device.context_bytes)};
  }
  return homes;
}

bool IdleChecker::is_idle(sched::DeviceId id, const Shadow::Device& device, const sched::Scheduler::Books& books,
                          const std::set<sched::DomainId>& placed) const {
  // Whoever the core says has it was sent, and is not there any more.
  if (placed.empty()) return true;
  for (const auto& [executor_id, executor] : shadow_.executors())
    if (executor.device == id && !executor.is_up && placed.contains(executor.domain)) return false;
  // What needs no memory at all waits too where memory was lost, and nothing in the books shows it.
  if (device.held_bytes > device.memory_bytes) return false;
  if (books.promised_bytes > 0) return false;
  return std::none_of(books.entries.begin(), books.entries.end(), [](const auto& entry) { return entry.pins > 0; });
}

}  // namespace quern::sim
