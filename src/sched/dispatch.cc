// SPDX-License-Identifier: Apache-2.0
//
// Two passes. First, idle devices: the group whose turn it is gets one, and goes behind the others, until no idle
// device fits anything that waits. Then second runs: a device takes one more run of the executor it serves, but only
// while no other group waits for a device of its size; otherwise it drains and the turn passes. A request that runs
// again does so alone, so it waits for an idle device, and those behind it wait with it, or it might wait for ever.
#include "sched/core.h"

namespace quern::sched {

void Scheduler::Impl::dispatch() {
  if (came_up_) {
    if (Executor* executor = devices_.find(*came_up_); executor && executor->state == Executor::State::kUp)
      for (const auto& [id, run] : executor->runs)
        if (!run->sent) send(*run);
    came_up_.reset();
  }
  dispatch_to_idle();
  dispatch_beside();
}

void Scheduler::Impl::dispatch_to_idle() {
  while (!devices_.idle().empty()) {
    const uint64_t largest = devices_.idle().largest();
    const auto group = queue_.first_group(largest);
    if (!group) return;
    Request& request = *queue_.first_of(*group, largest);
    const auto device = placement_->choose(devices_, request);
    QUERN_CHECK(device.has_value(), "placement " + config_.placement + ": leaves an idle device idle");
    assign(request, *device);
  }
}

void Scheduler::Impl::dispatch_beside() {
  // By value: each assignment changes the index. There are as many entries as kinds of device.
  const auto sizes = devices_.room_sizes();
  for (const auto& [size, count] : sizes) {
    while (const auto group = queue_.only_group(size)) {
      const auto room = devices_.with_room(*group).sizes().find(size);
      if (room == devices_.with_room(*group).sizes().end()) break;
      Request& request = *queue_.first_of(*group, size);
      if (request.attempt > 1) break;
      assign(request, *room->second.begin());
    }
  }
}

void Scheduler::Impl::assign(Request& request, DeviceId device) {
  queue_.remove(request);
  queue_.took_turn(request.group);

  const auto& executors = devices_.find(device)->executors;
  const auto existing = executors.find(request.group);
  Executor* executor = existing == executors.end() ? nullptr : devices_.find(existing->second);
  if (!executor) {
    executor = &devices_.start_executor(ExecutorId{next_executor_++}, device, request.group);
    act(StartExecutor{.executor = executor->id,
                      .device = device,
                      .domain = request.group.domain,
                      .own_function = request.group.own_function});
  }

  const RunId id{next_run_++};
  RunRecord& run = runs_[id];
  run.id = id;
  run.request = request.submit.request;
  run.function = request.submit.function;
  run.executor = executor->id;
  run.device_time = request.submit.device_time;
  run.alone = request.attempt > 1;
  blame_.hold(run.function);
  request.holds = id;
  timers_.arm(request.submit.request, request.timer, Time::never());
  timers_.arm(id, run.timer, request.submit.deadline);
  devices_.add_run(*executor, run);
  if (executor->state == Executor::State::kUp) send(run);
}

}  // namespace quern::sched
