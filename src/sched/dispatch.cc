// SPDX-License-Identifier: Apache-2.0
//
// Devices are one pool, and requests wait for all of them: they are put on a device as late as can be. First, idle
// devices: whoever is next by fairness gets the one placement chooses for it, unless fairness prefers someone whom that
// device has ready. Then second runs: a device takes one more run of the executor it serves, if who is next for it is
// of the same group; else it drains and the turn passes. A request that runs again does so alone, so it waits for an
// idle device, and those behind it wait with it, or it might wait for ever.
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

}  // namespace

void Scheduler::Impl::dispatch() {
  if (!host_waiting_.empty()) serve_host();
  const std::set<DeviceId> touched = std::exchange(touched_, {});
  for (const DeviceId id : touched) {
    Device& device = *devices_.find(id);
    make_room(device);
    advance(device);
  }
  if (!(QUERN_MUTANT(28) && touched.empty())) dispatch_to_idle();
  for (const DeviceId id : touched) dispatch_beside(*devices_.find(id));
  if (arrived_) {
    const Group group = *arrived_;
    arrived_.reset();
    for (int i = 0; i < kMostBeside; ++i) {
      const auto device = devices_.with_room(group).first(0);
      if (!device) break;
      const size_t before = runs_.size();
      dispatch_beside(*devices_.find(*device));
      if (runs_.size() == before) break;
    }
    // What came to wait may be brought somewhere meanwhile: one device at a time is asked.
    if (Device* next = devices_.next(last_ahead_)) {
      last_ahead_ = next->id;
      prefetch(*next);
    }
  }
  for (const DeviceId id : touched) prefetch(*devices_.find(id));
  // Room on the host may have come to runs of other devices.
  while (!touched_.empty()) {
    const std::set<DeviceId> others = std::exchange(touched_, {});
    for (const DeviceId id : others) {
      Device& device = *devices_.find(id);
      make_room(device);
      advance(device);
    }
  }
}

void Scheduler::Impl::dispatch_to_idle() {
  while (!devices_.idle().empty()) {
    const uint64_t largest = devices_.idle().largest();
    Request* first = tenants_.first(largest);
    if (!first) return;
    auto device = placement_->choose(devices_, *first);
    if (!device) {
      QUERN_CHECK(!placement_->is_work_conserving(),
                  "placement " + config_.policy.placement + ": leaves an idle device idle");
      for (Request* other : tenants_.first_few(largest, kMostAsked)) {
        device = placement_->choose(devices_, *other);
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

Request* Scheduler::Impl::choose_for(const Device& device, Request& first) {
  Request* instead = fairness_->instead(tenants_, devices_, device, first, config_);
  return instead ? instead : &first;
}

void Scheduler::Impl::dispatch_beside(Device& device) {
  while (devices_.has_room(device)) {
    Request* first = tenants_.first(device.usable_bytes());
    if (!first) return;
    Request& request = *choose_for(device, *first);
    const Group& group = devices_.find(*device.serving)->group;
    if (request.group != group || request.attempt > 1 || !fits_beside(device, request)) return;
    assign(request, device, *first);
  }
}

void Scheduler::Impl::assign(Request& request, Device& device, const Request& first) {
  tenants_.took(request, first);
  tenants_.remove(request);

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
  run.bytes = request.bytes;
  run.alone = request.attempt > 1 || setup_->share == Setup::Share::kNobody;
  request.ahead_on.reset();
  blame_.hold(run.function);
  request.holds = id;
  timers_.arm(request.submit.request, request.timer, Time::never());
  timers_.arm(id, run.timer, request.submit.deadline);
  tenants_.began(tenants_.get(run.tenant), run, estimates_.of(run.function));
  devices_.add_run(*executor, run);
  reserve(device, *executor, run);
  advance(device, *executor, run);
  // What follows may take a while: the shell can get the rest ready meanwhile.
  if (!run.sent) act(Prepare{.run = id, .request = run.request, .executor = executor->id});
}

}  // namespace quern::sched
