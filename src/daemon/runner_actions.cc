// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daemon/hidden_paths.h"
#include "daemon/runner.h"
#include "os/clock.h"
#include "os/log.h"
#include "sched/policy/table.h"

namespace quern::daemon {
namespace {

// What the executor reports, by the names of the manifest; more than the plan has is nothing.
void tell_rounds(const std::vector<uint64_t>& rounds, LiveCall& call) {
  const auto& reported = call.plan->plan.reported;
  for (size_t i = 0; i < std::min(rounds.size(), reported.size()); ++i) {
    call.rounds.emplace_back(rounds_parameter(call.function->manifest.repeats[reported[i]]), rounds[i]);
  }
}

}  // namespace

void Runner::feed(sched::Event event) {
  waiting_events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  while (!waiting_events_.empty()) {
    const sched::Event next = std::move(waiting_events_.front());
    waiting_events_.pop_front();
    const Time now = os::now();
    const std::vector<sched::Action>& actions = core_.step(now, next);
    if (recorder_) recorder_->add(now, next, actions);
    for (const sched::Action& action : actions) std::visit([this](const auto& what) { carry_out(what); }, action);
  }
  stepping_ = false;
  for (uint64_t run : over_) forget_run(run);
  over_.clear();
  const sched::Scheduler::Counts counts = core_.counts();
  counters_.queued.store(counts.queued, std::memory_order_relaxed);
  counters_.evictions.store(counts.evictions, std::memory_order_relaxed);
  counters_.exits.store(counts.exits, std::memory_order_relaxed);
  counters_.prefetches.store(counts.prefetches, std::memory_order_relaxed);
  counters_.hits.store(counts.hits, std::memory_order_relaxed);
  counters_.misses.store(counts.misses, std::memory_order_relaxed);
  counters_.steps.store(counters_.steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Runner::carry_out(const sched::StartExecutor& action) {
  // A blank one is bound to its domain once, and never goes back: one that is ready, or else one on its way.
  const uint64_t device_id = action.device.value;
  binds_[device_id].push_back(os::now());
  std::optional<uint64_t> blank;
  for (auto& [key, executor] : executors_) {
    if (executor.id || executor.device != device_id || executor.killed_by_us) continue;
    if (os::wait_readable(executor.process->pidfd(), Duration{0})) continue;  // it died, and nobody has looked yet
    const bool is_ready = executor.process->greeted();
    if (!blank || is_ready) blank = key;
    if (is_ready) break;
  }
  const bool was_blank = blank.has_value();
  if (!blank) {
    const auto key = start_process(device_id);
    if (!key.ok()) {
      os::log_error("device {}: an executor cannot be started: {}", device(device_id).config.name, key.error().text);
      waiting_events_.push_back(sched::ExecutorLost{action.executor, std::nullopt});
      return;
    }
    blank = *key;
  }
  Executor& executor = executors_.at(*blank);
  executor.id = action.executor;
  executor.was_blank = was_blank;
  executor_keys_[action.executor.value] = *blank;
  if (executor.process->greeted()) {
    executor.start = {os::now(), os::now()};
    if (tracer_.is_on())
      tracer_.executor_up(action.executor.value, device_id, executor.start.from, executor.start.to, was_blank);
    set_spin(device_id);
    waiting_events_.push_back(sched::ExecutorUp{action.executor});
  }
  fill_pools_later();
}

void Runner::carry_out(const sched::KillExecutor& action) {
  note_room_made(action.room);
  const auto it = executor_keys_.find(action.executor.value);
  if (it == executor_keys_.end()) return;
  Executor& executor = executors_.at(it->second);
  if (action.because && runs_.contains(action.because->value)) {
    LiveRun& run = runs_.at(action.because->value);
    run.report.kernel = kernel_at(executor, action.because->value);
    os::log_warning("executor {}: kernel '{}' of function {} does not end; it is killed", executor.process->pid(),
                    run.report.kernel, run.function->name);
  }
  executor.killed_by_us = true;
  if (action.because) executor.killed_because = action.because->value;
  note_end(executor);
  executor.process->kill();
}

void Runner::carry_out(const sched::Fetch& action) {
  const uint64_t number = action.object.value;
  hosted_[number] = {nullptr, {os::now(), {0}}};
  if (tracer_.is_on()) trace_load(0, number);
  host_.fetch(number, [this, number](Result<HostObjectRef> end) {
    // From a thread of the tier, which may wait for us; or at once.
    Message message = FetchedMessage{number, std::move(end)};
    while (!post(std::move(message))) std::this_thread::yield();
  });
}

void Runner::carry_out(const sched::Forget& action) {
  note_room_made(action.room);
  hosted_.erase(action.object.value);
}

// What follows takes a while. Program and segments need no memory of the device, so they go ahead of it.
void Runner::carry_out(const sched::Prepare& action) {
  LiveCall& call = *calls_.at(action.request.value);
  if (call.times.placed.ns == 0) call.times.placed = os::now();
  give_place(call);
  const auto key = executor_keys_.find(action.executor.value);
  if (key != executor_keys_.end()) claim_loads(executors_.at(key->second), call);
  if (key == executor_keys_.end() || !sched::make_setup(core_config_.policy.setup)->overlap) return;
  Executor& executor = executors_.at(key->second);
  const auto binary = call.function->binaries.find(device(executor.device).caps.build_key);
  if (binary == call.function->binaries.end()) return;
  if (const Status sent = executor.process->require_early(binary->second, {*call.blocks, call.passes}); !sent.ok())
    doom(key->second, sent.error());
}

void Runner::carry_out(const sched::Load& action) {
  const auto it = executor_keys_.find(action.executor.value);
  if (it == executor_keys_.end()) return;
  auto bytes = bytes_of(action.object.value);
  if (!bytes) {
    waiting_events_.push_back(sched::Loaded{action.executor, action.object, true, false});
    return;
  }
  ++counters_.loads;
  counters_.loaded_bytes += bytes->size_bytes;
  note_load(executors_.at(it->second), action.object.value, bytes->size_bytes);
  if (tracer_.is_on()) trace_load(action.executor.value, action.object.value);
  os::log_debug("object {} on {}: is being loaded", action.object.value,
                device(executors_.at(it->second).device).config.name);
  const Status sent = executors_.at(it->second).process->load_object(action.object.value, *std::move(bytes));
  if (sent.ok()) return;
  if (tracer_.is_on()) tracer_.load_ended(action.executor.value, action.object.value, true, os::now());
  if (sent.error().code == ErrorCode::kUnavailable) return doom(it->second, sent.error());
  load_errors_[action.object.value] = sent.error().text;
  waiting_events_.push_back(sched::Loaded{action.executor, action.object, true, false});
}

void Runner::carry_out(const sched::Unload& action) {
  note_room_made(action.room);
  const auto it = executor_keys_.find(action.executor.value);
  if (it == executor_keys_.end()) return;
  note_unload(executors_.at(it->second), action.object.value, action.room.has_value());
  if (!executors_.at(it->second).process->drop_object(action.object.value))
    waiting_events_.push_back(sched::Unloaded{action.executor, action.object});
}

void Runner::carry_out(const sched::Trim& action) {
  note_room_made(action.room);
  const auto it = executor_keys_.find(action.executor.value);
  if (it == executor_keys_.end()) return;
  Executor& executor = executors_.at(it->second);
  ++executor.trims;
  active_.insert(it->second);
  if (const Status sent = executor.process->trim(action.lane); !sent.ok()) doom(it->second, sent.error());
}

void Runner::tell_load_end(Executor& executor) {
  auto end = executor.process->take_load_end();
  if (!end || !executor.id) return;
  const bool failed = end->error.has_value(), no_room = failed && end->error->code == ErrorCode::kExhausted;
  if (failed)
    load_errors_[end->object] = std::move(end->error->text);
  else
    load_errors_.erase(end->object);
  const sched::ExecutorId id = *executor.id;
  os::log_debug("object {} on {}: {}", end->object, device(executor.device).config.name,
                failed ? "could not be loaded" : "is loaded");
  if (tracer_.is_on()) tracer_.load_ended(id.value, end->object, failed, os::now());
  feed(sched::Loaded{id, {end->object}, failed, no_room});
  if (const auto key = executor_keys_.find(id.value); key != executor_keys_.end())
    mark_started(executors_.at(key->second));
}

void Runner::carry_out(const sched::Run& action) {
  LiveCall& call = *calls_.at(action.request.value);
  LiveRun run;
  take_place(call, action.run.value, run);
  run.request = call.request;
  run.executor = executor_keys_.at(action.executor.value);
  run.lane = action.lane;
  run.level = action.level;
  run.units = action.units;
  run.first_unit = action.first_unit;
  run.lane_bytes = action.lane_bytes;
  run.function = call.function;
  run.plan = call.plan;
  run.scalars = call.scalars;
  run.blocks = call.blocks;
  run.passes = call.passes;
  run.leaves = call.leaves;
  run.passing = call.passing;
  run.profile = call.profile;
  Executor& executor = executors_.at(run.executor);
  const auto binary = call.function->binaries.find(executor.process->caps().build_key);
  if (executor.domain.empty()) executor.domain = call.tenant->domain;
  executor.runs.insert(action.run.value);
  ++device(executor.device).running;
  if (binary == call.function->binaries.end()) {
    run.report.error = unsupported(fmt::format("has no program for device {}", device(executor.device).config.name));
    runs_.emplace(action.run.value, std::move(run));
    return finish(action.run.value, true);
  }
  run.binary = &binary->second;
  runs_.emplace(action.run.value, std::move(run));
  if (!executor.process->is_open(action.lane)) note_gate(executor, action.lane, executor.gates[action.lane]);
  note_room(call, runs_.at(action.run.value));
  note_urgent(runs_.at(action.run.value), executor);
  claim_loads(executor, call);
  set_class(executor);
  try_push(action.run.value);
}

void Runner::try_push(uint64_t run_id) {
  const auto it = runs_.find(run_id);
  if (it == runs_.end() || it->second.pushed || it->second.stopped || it->second.report.error) return;
  LiveRun& run = it->second;
  Executor& executor = executors_.at(run.executor);
  if (executor.is_doomed) return;  // its loss is what the core will hear of
  const auto there = executor.process->require(
      *run.function, run.plan, *run.binary, {*run.blocks, run.passes},
      [this, &run](const Plan& plan, ipc::PlanBinding& binding) { complete(run, plan, binding); });
  if (!there.ok()) {
    if (there.error().code == ErrorCode::kUnavailable) return doom(run.executor, there.error());
    run.report.error = there.error();
    return finish(run_id, true);
  }
  if (!*there) return;  // on its way; we are called again
  run.pinned = true;
  ipc::RunCommand command;
  command.run = run_id;
  command.plan = run.plan->id;
  command.lane_bytes = run.lane_bytes;
  command.profile = run.profile;
  command.units = run.units;
  command.first_unit = run.first_unit;
  if (Status bound = bind(run, executor, command); !bound.ok()) {
    run.report.error = std::move(bound).error();
    return finish(run_id, true);
  }
  for (const Scalar& scalar : run.scalars) command.scalars.push_back(scalar.bits);
  run.pushed = true;
  run.pushed_at = os::now();
  run.waits.pushed = turns_.mark(run.waits.tenant, run.pushed_at);
  if (tracer_.is_on()) trace_run(run_id);
  active_.insert(run.executor);
  executor.pushed.push_back(run_id);
  if (const Status pushed = executor.process->push_run(run.lane, command); !pushed.ok())
    return doom(run.executor, pushed.error());
  mark_started(executor);
}

// Lanes are independent: each can launch what it has as soon as all that this needs is there. Which of them is on the
// device is asked when it matters (runner_flight.cc).
void Runner::mark_started(Executor& executor) {
  // By index: what the core does when it hears of one may change the list.
  for (size_t i = 0; i < executor.pushed.size(); ++i) {
    const uint64_t id = executor.pushed[i];
    const auto it = runs_.find(id);
    if (it == runs_.end() || it->second.is_started) continue;
    LiveRun& run = it->second;
    if (executor.process->is_loading(run.function->objects) || executor.process->is_loading(run.passing)) continue;
    run.is_started = true;
    if (os::logs(os::Level::kDebug) && calls_.contains(run.request))
      os::log_debug("request {} of {}: is on device {}", calls_.at(run.request)->id, run.function->name,
                    device(executor.device).config.name);
    feed(sched::Started{{id}});
  }
}

// The run is forgotten once the core has heard of its end and what it asked for was done: its answer needs the report.
// Its plan is free at once: the core may let the plan's objects go in the same step.
void Runner::finish(uint64_t run_id, bool failed) {
  over_.push_back(run_id);
  LiveRun& run = runs_.at(run_id);
  if (std::exchange(run.pinned, false)) executors_.at(run.executor).process->unpin(run.plan->id);
  feed(sched::Finished{{run_id},
                       failed,
                       run.no_room,
                       Duration{static_cast<int64_t>(run.device_time_ns)},
                       std::max(run.started, Time{0}),
                       run.ends_executor});
}

void Runner::forget_run(uint64_t run_id) {
  const auto it = runs_.find(run_id);
  if (it == runs_.end()) return;
  if (tracer_.is_on()) trace_run_end(run_id);
  leave_place(run_id, it->second);
  if (const auto on = executors_.find(it->second.executor); on != executors_.end()) {
    os::log_debug("run {} of {}: has left device {}", run_id, it->second.function->name,
                  device(on->second.device).config.name);
    if (it->second.pinned) on->second.process->unpin(it->second.plan->id);
    on->second.runs.erase(run_id);
    if (on->second.runs.empty() && on->second.trims == 0) active_.erase(on->first);
    --device(on->second.device).running;
  }
  runs_.erase(it);
}

void Runner::carry_out(const sched::StopRun& action) {
  const auto it = runs_.find(action.run.value);
  if (it == runs_.end() || it->second.stopped) return;
  LiveRun& run = it->second;
  run.stopped = true;
  if (!run.pushed) return finish(action.run.value, true);  // nothing of it is on the device
  Executor& executor = executors_.at(run.executor);
  run.report.kernel = kernel_at(executor, action.run.value);
  if (const Status stopped = executor.process->stop_run(run.lane, action.run.value); !stopped.ok())
    doom(run.executor, stopped.error());
}

void Runner::carry_out(const sched::Answer& action) {
  const auto it = calls_.find(action.request.value);
  QUERN_CHECK(it != calls_.end(), "a request is answered twice");
  std::unique_ptr<LiveCall> call = std::move(it->second);
  calls_.erase(it);
  release_tensors(*call);
  RunReport report;
  static const std::string kNowhere;
  const std::string* where = &kNowhere;
  if (action.run)
    if (const auto run = runs_.find(action.run->value); run != runs_.end()) {
      report = run->second.report;
      if (const auto on = executors_.find(run->second.executor); on != executors_.end())
        where = &device(on->second.device).config.name;
      call->times.pushed = run->second.pushed_at;
      call->times.read = run->second.read;
      call->times.started = run->second.started;
      call->times.finished = run->second.finished;
      call->times.reported = run->second.reported;
      call->times.device_time_ns = run->second.device_time_ns;
      call->times.whole = run->second.waits.whole;
      if (call->times.placed.ns != 0) call->setup = setup_of(*call, run->second);
      tell_rounds(run->second.rounds, *call);
      for (const auto& kernel : run->second.kernels) call->kernels.push_back({kernel.launches, kernel.time_ns});
      // Who hears of it may call at once with others, and find no room for them beside these.
      if (std::find(over_.begin(), over_.end(), action.run->value) != over_.end()) call->release_objects();
    }
  if (action.end == sched::End::kTooLarge)
    if (const auto books = core_.host_books()) report.host_bytes = books->memory_bytes;
  if (action.end == sched::End::kLost)
    for (const sched::ObjectNeed& need : call->function->objects)
      if (const auto failed = load_errors_.find(need.object.value); failed != load_errors_.end())
        report.load_error = failed->second;
  if (action.end == sched::End::kQuarantined)
    call->times.quarantine = {core_.kills_in_a_row({call->function->id}), os::now() + action.retry_after};
  if (action.end != sched::End::kDone) {
    Error error = answer_error(action.end, *call, report);
    // Where the server keeps its files is for the log: an executor names them when its disk is full.
    call->error = Error{error.code, without_paths(error.text, run_folder_)};
    if (call->error->text != error.text) os::log_warning("request {}: {}", call->id, error.text);
  }
  call->retry_after = action.retry_after;
  call->times.answered = os::now();
  call->times.waits = waits_of(*call, call->times.answered);
  count_answer(*call, action.end == sched::End::kDone, *where);
  requests_.end(*call, action.end, *where);
  os::log_debug("request {} of {}: ended: {}", call->id, call->function->name, sched::name_of(action.end));
  give_back(std::move(call));
}

void Runner::carry_out(const sched::WakeAt& action) { next_wake_ = action.time; }

}  // namespace quern::daemon
