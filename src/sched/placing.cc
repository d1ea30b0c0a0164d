// SPDX-License-Identifier: Apache-2.0
//
// Devices are one pool, and requests wait for all of them: they are put on a device as late as can be. First, idle
// devices: whoever is next by fairness gets the one placement chooses for it, unless fairness prefers someone whom that
// device has ready. Then second runs: a device takes one more run of the executor it serves, if who is next for it is
// of the same group; else it drains and the turn passes. All of that at each level: a busy device also takes a run of a
// level that it does not serve, more urgent or less, and their gates decide who is on it. A request that runs again
// does so alone, so it waits for an idle device. Nobody as urgent as it or less begins on a busy one meanwhile, nor
// anyone at all once it waited for long, or it might wait for ever.
#include <algorithm>
#include <utility>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {
namespace {

// How many who are next are asked for a device when placement lets the first wait.
constexpr size_t kMostAsked = 16;
// Devices that are looked at for room when a request came.
constexpr int kMostBeside = 4;
// Who is to run again lets those pass that are more urgent, but no longer than this.
constexpr Duration kPatience = Duration::seconds(1);

}  // namespace

void Scheduler::Impl::place() {
  if (!host_waiting_.empty()) serve_host();
  const std::set<DeviceId> touched = std::exchange(touched_, {});
  for (const DeviceId id : touched) {
    Device& device = *devices_.find(id);
    if (device.ledger.shortage(0) > 0) make_room(device, first_waiting(device));
    advance(device);
  }
  if (!(QUERN_MUTANT(28) && touched.empty())) place_on_idle();
  for (const DeviceId id : touched) place_beside(*devices_.find(id));
  if (const auto id = std::exchange(arrived_, std::nullopt)) {
    if (const Request* request = find_request(*id); request && request->queued)
      place_arrived(request->group, request->level);
    // What came to wait may be brought somewhere meanwhile: one device at a time is asked.
    if (Device* next = devices_.next(last_ahead_)) {
      last_ahead_ = next->id;
      prefetch(*next);
    }
  }
  place_those_behind();
  for (const DeviceId id : touched) prefetch(*devices_.find(id));
  // Room on the host may have come to runs of other devices.
  while (!touched_.empty()) {
    const std::set<DeviceId> others = std::exchange(touched_, {});
    for (const DeviceId id : others) {
      Device& device = *devices_.find(id);
      if (device.ledger.shortage(0) > 0) make_room(device, first_waiting(device));
      advance(device);
    }
  }
}

void Scheduler::Impl::place_on_idle() {
  while (!devices_.idle().empty()) {
    const uint64_t largest = devices_.idle().largest();
    auto [first, device] = next_for_idle();
    if (!first) return;
    if (!device) device = placement_->choose(devices_, *first);
    if (!device) {
      QUERN_CHECK(!placement_->is_work_conserving(),
                  "placement " + config_.policy.placement + ": leaves an idle device idle");
      for (Request* other : tenants_.first_few(largest, kMostAsked)) {
        if (home_of(*other)) continue;
        device = choose_device(*other);
        if (!device) continue;
        first = other;
        break;
      }
      if (!device) return;
    }
    Device& on = *devices_.find(*device);
    assign(*choose_for(on, *first), on, *first);
  }
}

std::optional<DeviceId> Scheduler::Impl::choose_device(const Request& request) {
  const auto device = placement_->choose(devices_, request);
  if (!device || !is_out(*devices_.find(*device), request)) return device;
  if (placement_->is_work_conserving())
    for (const DeviceId id : devices_.idle().first_few(request.bytes, kMostAsked))
      if (!is_out(*devices_.find(id), request)) return id;
  (void)passes_by(*devices_.find(*device), request);
  return std::nullopt;
}

Request* Scheduler::Impl::first_for(const Device& device, LevelNo level) {
  Request* first = tenants_.first(device.usable_bytes(), level);
  if (!first || !passes_by(device, *first)) return first;
  for (Request* other : tenants_.few_of_each(device.usable_bytes(), level))
    if (!passes_by(device, *other)) return other;
  return nullptr;
}

// One that lost so much memory that this does not fit is no home to it.
std::optional<DeviceId> Scheduler::Impl::home_of(const Request& request) const {
  const auto home = homes_.device_of(request.level);
  if (!home || QUERN_MUTANT(59)) return std::nullopt;
  const Device* device = devices_.find(*home);
  return device && device->can_serve() && device->usable_bytes() >= request.bytes ? home : std::nullopt;
}

uint8_t Scheduler::Impl::urgency_of(const Request& request) const {
  const bool is_owed = request.attempt > 1 && now_ - request.again_since >= kPatience;
  return is_owed ? 0 : priority_of(request.level);
}

// Who has a device of its own waits for that one, and in nobody's way. Where a device is not for who is first, it may
// be for others, also of the same tenant.
Scheduler::Impl::Next Scheduler::Impl::next_for_idle(LevelNo level) {
  const uint64_t largest = devices_.idle().largest();
  Request* first = tenants_.first(largest, level);
  if (!first) return {};
  if (const auto home = home_of(*first)) {
    const bool is_free = devices_.is_idle(*home, first->bytes) && !passes_by(*devices_.find(*home), *first);
    return is_free ? Next{first, home} : Next{};
  }
  if (doubts_.empty()) return {first, std::nullopt};
  if (const auto device = choose_device(*first)) return {first, device};
  for (Request* other : tenants_.few_of_each(largest, level))
    if (const auto device = choose_device(*other)) return {other, device};
  return placement_->is_work_conserving() ? Next{} : Next{first, std::nullopt};
}

// Of those as urgent as each other, who runs again goes first: the others can go beside each other, and might leave it
// no idle device.
Scheduler::Impl::Next Scheduler::Impl::next_for_idle() {
  Next next;
  const auto order = [&](const Request& request) { return std::pair(urgency_of(request), request.attempt == 1); };
  for (auto level = tenants_.next_level(0); level; level = tenants_.next_level(static_cast<LevelNo>(*level + 1))) {
    const Next one = next_for_idle(*level);
    if (!one.first || (next.first && order(*one.first) >= order(*next.first))) continue;
    next = one;
    if (tenants_.again() == 0) break;
  }
  return next;
}

std::optional<uint8_t> Scheduler::Impl::drains_for(const Device& device) {
  if (tenants_.again() == 0) return std::nullopt;
  std::optional<uint8_t> most_urgent;
  for (auto level = tenants_.next_level(0); level; level = tenants_.next_level(static_cast<LevelNo>(*level + 1))) {
    const Request* first = first_for(device, *level);
    if (!first || first->attempt == 1) continue;
    if (const auto home = home_of(*first); home && *home != device.id) continue;
    // That does not come while the device serves more urgent ones.
    const uint8_t urgency = urgency_of(*first);
    if (priority_of(device.serving.begin()->first) < urgency) continue;
    most_urgent = std::min(most_urgent.value_or(urgency), urgency);
  }
  return most_urgent;
}

Request* Scheduler::Impl::choose_for(const Device& device, Request& first) {
  Request* instead = fairness_->instead(tenants_, devices_, device, first, config_);
  return instead && !is_out(device, *instead) ? instead : &first;
}

// A request came and no device is idle: it may go beside others of its group, or come to a device of other levels.
void Scheduler::Impl::place_arrived(const Group& group, LevelNo level) {
  const auto took = [&](DeviceId id) {
    const size_t before = runs_.size();
    place_beside(*devices_.find(id));
    return runs_.size() > before;
  };
  for (int i = 0; i < kMostBeside; ++i) {
    const auto device = devices_.with_room(group, level).first(0);
    if (!device || !took(*device)) break;
  }
  const Request* first = tenants_.first(devices_.largest_joinable(level), level);
  if (!first) return;
  if (const auto home = home_of(*first)) {
    took(*home);
    return;
  }
  // A device may take someone else instead, whom it had to let wait for it: then it is another's turn to be asked.
  const auto has_place = [&](DeviceId id) {
    place_beside(*devices_.find(id));
    return !first->queued;
  };
  const uint64_t bytes = first->bytes;
  int looked = 0;
  for (const DeviceId home : devices_.homes(first->submit.function))
    if (looked++ == kMostBeside || has_place(home)) return;
  for (const DeviceId device : devices_.joinable(level, bytes, kMostBeside))
    if (has_place(device)) return;
}

// Who waited behind one that does not wait any more was asked for no device that nothing happened on.
void Scheduler::Impl::place_those_behind() {
  for (int i = 0; i < kMostBeside && !left_.empty() && !QUERN_MUTANT(75); ++i) {
    const auto level = tenants_.next_level(left_.extract(left_.begin()).value());
    if (level) place_arrived(tenants_.first(UINT64_MAX, *level)->group, *level);
  }
  left_.clear();
}

void Scheduler::Impl::dequeue(Request& request) {
  tenants_.remove(request);
  left_.insert(request.level);
}

// The most urgent first. One that waits for the device to have room is not overtaken by less urgent ones, or it might
// wait for ever.
void Scheduler::Impl::place_beside(Device& device) {
  if (device.is_idle()) return;
  std::optional<uint8_t> drains = drains_for(device);
  for (auto level = tenants_.next_level(0); level; level = tenants_.next_level(static_cast<LevelNo>(*level + 1))) {
    if (drains && *drains <= priority_of(*level)) return;
    const size_t before = runs_.size();
    if (!place_beside(device, *level)) return;
    // Whoever was behind those that went may be one that runs again.
    if (runs_.size() != before) drains = drains_for(device);
  }
}

bool Scheduler::Impl::place_beside(Device& device, LevelNo level) {
  for (;;) {
    const bool is_served = device.serving.contains(level);
    Request* first = first_for(device, level);
    if (!first) return true;
    if (const auto home = home_of(*first); home && *home != device.id) return true;
    Request& request = *choose_for(device, *first);
    if (request.attempt > 1) return true;  // it waits for the device to be idle
    if (is_served) {
      if (!devices_.has_room(device, level) || request.group != devices_.find(device.serving.at(level))->group)
        return true;
    } else if (placement_->wants_device_alone() || !devices_.can_join(device, level, request.group)) {
      return is_own(level);  // it waits in nobody's way
    }
    if (!fits_beside(device, request)) return false;
    assign(request, device, *first);
  }
}

void Scheduler::Impl::assign(Request& request, Device& device, const Request& first) {
  tenants_.took(request, first);
  dequeue(request);

  if (placement_->wants_device_alone()) {
    const auto others = device.executors;
    for (const auto& [group, id] : others)
      if (group != request.group) kill(*devices_.find(id), std::nullopt);
  }
  const auto existing = device.executors.find(request.group);
  Executor* executor = existing == device.executors.end() ? nullptr : devices_.find(existing->second);
  if (!executor) executor = &devices_.plan_executor(ExecutorId{next_executor_++}, device.id, request.group);

  const RunId id{next_run_++};
  RunRecord& run = runs_[id];
  run.id = id;
  run.request = request.submit.request;
  run.function = request.submit.function;
  run.tenant = request.submit.tenant;
  run.executor = executor->id;
  run.device = device.id;
  run.device_time = request.submit.device_time;
  run.memory_bytes = request.submit.memory_bytes;
  run.objects = request.submit.objects;
  run.makes = request.submit.makes;
  run.bytes = request.bytes;
  run.level = request.level;
  run.quota = is_own(run.level) ? request.submit.quota : Quota{};
  if (is_own(run.level)) homes_.hold(run.function);
  run.alone = request.attempt > 1 || setup_->share == Setup::Share::kNobody;
  request.ahead_on.reset();
  blame_.hold(run.function);
  request.holds = id;
  timers_.arm(request.submit.request, request.timer, Time::never());
  timers_.arm(id, run.timer, request.submit.deadline);
  tenants_.began(run, estimates_.of(run.function));
  devices_.add_run(*executor, run);
  reserve(device, *executor, run);
  advance(device, *executor, run);
  // What follows may take a while: the shell can get the rest ready meanwhile.
  if (!run.sent) act(Prepare{.run = id, .request = run.request, .executor = executor->id});
}

}  // namespace quern::sched
