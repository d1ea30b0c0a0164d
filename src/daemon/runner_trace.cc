// SPDX-License-Identifier: Apache-2.0
//
// A trace: from when someone asks for it the strand notes what it does and hears, and launchers are asked when their
// launches were on the device. Who looks has no right to others' names.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/runner.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

// A lane tells its spans a hundred at a time. The grants without the flag make it tell the rest, when its next launch
// ends; nobody waits longer than this for it.
constexpr Duration kLastSpans = Duration::millis(50);

}  // namespace

void Runner::begin_trace(TraceMessage& message) {
  if (stop_at_) return message.done(unavailable("the server is stopping"));
  if (tracing_)
    return message.done(exhausted("trace: one is under way, and there is one at a time; retry when it has ended"));
  const Time now = os::now();
  std::vector<Trace::Device> devices;
  for (const auto& device : devices_) devices.push_back({device->id, device->config.name});
  os::log_debug("trace {}: begins", message.id);
  tracer_.begin(message.tenant->name, std::move(devices), now);
  tracing_ = Tracing{message.tenant, std::move(message.id), now + message.length, false, std::move(message.done)};
  // Of all lanes: one that has its run later may have got its grant before.
  for (const auto& [key, executor] : executors_)
    for (uint32_t lane = 0; executor.id && lane < core_config_.all_lanes(); ++lane)
      tracer_.stood(sched::lane_of(*executor.id, lane), executor.device, executor.process->is_open(lane));
  for (const auto& [id, run] : runs_)
    if (run.pushed) trace_run(id);
  for (const auto& [number, program] : programs_) {
    tracer_.program_up(sched::program_of(number), program.device, program.name, program.tenant, program.level);
    tracer_.stood(sched::program_of(number), program.device, program.gate->granted().open);
  }
  grant_again();
}

void Runner::end_trace(const EndTraceMessage& message) {
  if (message.tenant) {
    if (!tracing_ || tracing_->tenant != message.tenant)
      return message.done(not_found("trace: none of yours is under way; it has ended, or not begun"));
    if (!tracing_->is_ending) tracing_->due = os::now();
    return message.done({});
  }
  // Whoever asked has gone: it gets what there is, and drops it elsewhere than on the strand.
  if (tracing_ && tracing_->id == message.id) finish_trace(os::now());
}

void Runner::look_at_trace(Time now) {
  if (!tracing_ || now < tracing_->due) return;
  if (tracing_->is_ending) return finish_trace(now);
  tracing_->is_ending = true;
  tracing_->due = now + kLastSpans;
  tracer_.pause(now);
  grant_again();
}

void Runner::finish_trace(Time now) {
  const auto done = std::move(tracing_->done);
  const bool is_marked = !tracing_->is_ending;
  os::log_debug("trace {}: is over", tracing_->id);
  tracing_.reset();
  Trace trace = tracer_.end(now);
  if (is_marked) grant_again();
  done(std::move(trace));
}

// Every grant as it stands, with or without the flag that asks for spans.
void Runner::grant_again() {
  for (auto& [key, executor] : executors_)
    for (uint32_t lane = 0; lane < core_config_.all_lanes(); ++lane)
      executor.process->grant(lane, tracer_.marked(executor.process->granted(lane)));
  for (auto& [number, program] : programs_) program.gate->grant(tracer_.marked(program.gate->granted()));
}

void Runner::trace_grant(const sched::Grant& action) {
  uint64_t on = 0;
  if (!sched::is_program(action.launcher)) {
    const auto key = executor_keys_.find(action.launcher.value >> 8);
    if (key == executor_keys_.end()) return;
    on = executors_.at(key->second).device;
  }
  tracer_.granted(action.launcher, on, action, os::now());
}

void Runner::trace_heard(sched::LauncherId launcher, const ipc::LaneEvent& event) {
  const Time now = os::now();
  // As long ago as the core takes it to be, and never in the future.
  const auto lately = [&](int64_t ns) { return Time{std::clamp(ns, now.ns - Duration::millis(1).ns, now.ns)}; };
  if (const auto* ready = std::get_if<ipc::WorkReady>(&event)) {
    tracer_.work_ready(launcher, lately(ready->at_ns));
  } else if (const auto* gap = std::get_if<ipc::GapBegun>(&event)) {
    tracer_.gap_begun(launcher, lately(gap->at_ns));
  } else if (const auto* used = std::get_if<ipc::DeviceUsed>(&event)) {
    tracer_.used(launcher, used->time_ns, now);
  } else if (const auto* traced = std::get_if<ipc::Traced>(&event)) {
    if (sched::is_program(launcher)) return tracer_.launched(launcher, *traced, now);
    // A stranger names the run: it must be one that this lane has.
    const auto it = runs_.find(traced->run);
    if (it == runs_.end() || !it->second.pushed || it->second.lane != (launcher.value & 255)) return;
    const auto key = executor_keys_.find(launcher.value >> 8);
    if (key == executor_keys_.end() || key->second != it->second.executor) return;
    tracer_.launched(traced->run, *traced, now, [&](uint32_t launch) { return shown_kernel(it->second, launch); });
  }
}

void Runner::trace_run(uint64_t run_id) {
  const LiveRun& run = runs_.at(run_id);
  const Executor& executor = executors_.at(run.executor);
  const auto call = calls_.find(run.request);  // it may be answered already
  Tracer::Ran ran;
  ran.run = run_id;
  ran.function = run.function->id;
  ran.name = run.function->name;
  ran.tenant = run.function->tenant;
  if (call != calls_.end()) ran.request = call->second->id;
  ran.level = run.level;
  ran.at = run.pushed_at;
  tracer_.run_began(sched::lane_of(*executor.id, run.lane), executor.device, ran);
}

void Runner::trace_run_end(uint64_t run_id) {
  const LiveRun& run = runs_.at(run_id);
  const Time now = os::now();
  tracer_.run_ended(run_id, run.reported.ns == 0 ? now : std::clamp(run.reported, run.pushed_at, now));
}

// `executor` 0: to the host. Whose object it is follows from who needed it last, as for `memory`.
void Runner::trace_load(uint64_t executor, uint64_t object) {
  const Time now = os::now();
  uint64_t on = 0;
  if (executor != 0) {
    const auto key = executor_keys_.find(executor);
    if (key == executor_keys_.end()) return;
    on = executors_.at(key->second).device;
  }
  const auto books = on == 0 ? core_.host_books() : core_.books({on});
  if (!books) return;
  for (const sched::Scheduler::Entry& entry : books->entries) {
    if (entry.kind != sched::Scheduler::Entry::Kind::kObject || entry.object.value != object) continue;
    if (on != 0 && entry.executor.value != executor) continue;
    const MemoryItem item = item_of(entry, now);
    return tracer_.load_began(executor, on, object, item.name, item.tenant, entry.bytes, now);
  }
}

}  // namespace quern::daemon
