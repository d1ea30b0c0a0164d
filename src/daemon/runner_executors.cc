// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daemon/runner.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

// Opening a vendor's context takes 20-40 ms here, seconds on a GPU.
constexpr Duration kGreetingLimit = Duration::seconds(60);
constexpr Duration kDemandWindow = Duration::seconds(10);
constexpr Duration kFillAfter = Duration::millis(500);

}  // namespace

Result<uint64_t> Runner::start_process(uint64_t device_id) {
  const uint64_t key = next_key_++;
  QUERN_TRY(auto process, ExecutorProcess::start(device(device_id).config, core_config_.all_lanes(),
                                                 grant_of(sched::first_grant(core_config_)),
                                                 fmt::format("{}/executor-{}", run_folder_, key)));
  QUERN_TRY(poller_.add(process->socket_fd(), token(key, Source::kSocket)));
  QUERN_TRY(poller_.add(process->wake_fd(), token(key, Source::kWake)));
  QUERN_TRY(poller_.add(process->pidfd(), token(key, Source::kEnd)));
  QUERN_TRY(poller_.add(process->log_fd(), token(key, Source::kLog)));
  Executor executor;
  executor.process = std::move(process);
  executor.device = device_id;
  executor.greeting_due = os::now() + kGreetingLimit;
  executor.start.from = os::now();
  executors_.emplace(key, std::move(executor));
  ++counters_.executors_started;
  ++device(device_id).executors;
  return key;
}

Status Runner::wait_for_greetings() {
  for (auto& [key, executor] : executors_) {
    const std::string& name = device(executor.device).config.name;
    while (!executor.process->greeted()) {
      const Duration left = executor.greeting_due - os::now();
      if (left.ns <= 0 || !os::wait_readable(executor.process->socket_fd(), left))
        return unavailable(fmt::format("device {}: its executor did not come up in time", name));
      const auto taken = executor.process->take_frame();
      if (taken.ok()) continue;
      executor.process->kill();
      const ExecutorEnd end = executor.process->end();
      return unavailable(fmt::format("device {}: cannot be opened: {}", name,
                                     end.last_words.empty() ? taken.error().text : end.last_words));
    }
    device(executor.device).caps = executor.process->caps();
    executor.greeting_due = Time::never();
    executor.start.to = os::now();
  }
  // Where a device has no room for blank ones, these were started only for what they tell of it.
  std::vector<uint64_t> spare;
  for (const auto& [key, executor] : executors_)
    if (most_blanks(device(executor.device)) == 0) spare.push_back(key);
  for (const uint64_t key : spare) erase_executor(key);
  return {};
}

uint64_t Runner::most_blanks(const DeviceRecord& device) const {
  const uint64_t each = device.config.context_bytes;
  return each == 0 ? config_.pool : std::min<uint64_t>(config_.pool, device.caps.memory_bytes / 8 / each);
}

// The size of the pool follows demand: one more than were needed in the last ten seconds.
void Runner::fill_pool(uint64_t device_id) {
  std::deque<Time>& binds = binds_[device_id];
  while (!binds.empty() && os::now() - binds.front() > kDemandWindow) binds.pop_front();
  const uint64_t wanted = std::min<uint64_t>(most_blanks(device(device_id)), 1 + binds.size());
  uint64_t blanks = 0;
  std::vector<uint64_t> spare;
  for (auto& [key, executor] : executors_) {
    if (executor.id || executor.device != device_id || executor.killed_by_us) continue;
    if (++blanks > wanted && executor.process->greeted()) spare.push_back(key);
  }
  for (const uint64_t key : spare) {
    executors_.at(key).killed_by_us = true;
    executors_.at(key).process->kill();
  }
  if (!binds.empty()) pools_due_ = std::min(pools_due_, binds.front() + kDemandWindow + Duration{1});
  for (; blanks < wanted; ++blanks)
    if (const auto key = start_process(device_id); !key.ok()) {
      os::log_warning("device {}: a blank executor cannot be started: {}", device(device_id).config.name,
                      key.error().text);
      return;
    }
}

// To start one takes a core for some 50 ms: what a blank one was taken for needs that while it is set up, and a cold
// call took longer with a pool than without.
void Runner::fill_pools_later() { pools_due_ = std::min(pools_due_, os::now() + kFillAfter); }

void Runner::fill_pools() {
  pools_due_ = Time::never();
  for (const auto& device : devices_)
    if (device->is_up) fill_pool(device->id);
}

void Runner::look_at(uint64_t which) {
  if (which == token(0, Source::kMailbox)) return mailbox_.woken();
  const uint64_t key = which >> 3;
  if (which == token(key, Source::kProgram)) {
    if (const auto program = programs_.find(key); program != programs_.end()) program->second.gate->woken();
    return drain_program(key);
  }
  if (which == token(key, Source::kProgramEnd)) return lose_program(key);
  const auto it = executors_.find(key);
  if (it == executors_.end()) return;  // gone by now
  switch (static_cast<Source>(which & 7)) {
    case Source::kSocket:
      for (;;) {
        const auto taken = it->second.process->take_frame();
        if (!taken.ok()) return doom(key, taken.error());
        if (!*taken) break;
        greet(key);
        if (!executors_.contains(key)) return;
        if (it->second.workers_classed != it->second.process->workers_told()) set_class(it->second);
        tell_load_end(it->second);
        if (!executors_.contains(key)) return;
        take_flight(key);
        if (!executors_.contains(key) || it->second.is_doomed) return;
        if (const auto dropped = it->second.process->take_drop_end(); dropped && it->second.id) {
          os::log_debug("object {} on {}: has left", *dropped, device(it->second.device).config.name);
          feed(sched::Unloaded{*it->second.id, {*dropped}});
        }
        if (!executors_.contains(key)) return;
        const std::set<uint64_t> runs = it->second.runs;
        for (uint64_t run : runs) try_push(run);
      }
      break;
    case Source::kWake:
      it->second.process->woken();
      drain_events(key);
      break;
    case Source::kEnd:
      lose(key);
      break;
    case Source::kLog:
      if (!it->second.process->take_log()) poller_.remove(it->second.process->log_fd());
      break;
    case Source::kMailbox:
    case Source::kProgram:
    case Source::kProgramEnd:
      break;
  }
}

// A Hello that came: an executor that the core waits for is up.
void Runner::greet(uint64_t key) {
  Executor& executor = executors_.at(key);
  if (!executor.process->greeted() || executor.greeting_due == Time::never()) return;
  executor.greeting_due = Time::never();
  executor.start.to = os::now();
  os::log_debug("executor {} on {}: is ready, process {}", key, device(executor.device).config.name,
                executor.process->pid());
  note_start(executor);
  set_spin(executor.device);
  if (executor.id && tracer_.is_on())
    tracer_.executor_up(executor.id->value, executor.device, executor.start.from, executor.start.to, false);
  if (executor.id) feed(sched::ExecutorUp{*executor.id});
}

void Runner::check_greetings(Time now) {
  for (auto& [key, executor] : executors_)
    if (!executor.process->greeted() && now >= executor.greeting_due && !executor.killed_by_us) {
      executor.killed_by_us = true;
      os::log_warning("executor {}: did not come up in time", executor.process->pid());
      executor.process->kill();
    }
}

void Runner::drain_events(uint64_t key) {
  for (uint32_t lane = 0; lane < core_config_.all_lanes(); ++lane) {
    for (;;) {
      const auto it = executors_.find(key);
      if (it == executors_.end()) return;
      auto event = it->second.process->take_event(lane);
      if (!event.ok()) return doom(key, event.error());
      if (!*event) break;
      take(key, lane, **event);
    }
  }
}

void Runner::take(uint64_t key, uint32_t lane, const ipc::LaneEvent& event) {
  if (const auto* run = std::get_if<ipc::RunEnded>(&event)) {
    // A load is told of before the end of a run that waited for it, but elsewhere: on the socket.
    if (executors_.at(key).process->is_loading()) look_at(token(key, Source::kSocket));
    if (executors_.contains(key)) ended(key, lane, *run);
    return;
  }
  Executor& executor = executors_.at(key);
  if (!std::holds_alternative<ipc::LaneTrimmed>(event)) {
    if (executor.id) heard(sched::lane_of(*executor.id, lane), event);
    return;
  }
  os::log_debug("lane {} of executor {} on {}: has given its memory back", lane, key,
                device(executor.device).config.name);
  --executor.trims;
  if (executor.runs.empty() && executor.trims == 0) active_.erase(key);
  if (executor.id) feed(sched::Trimmed{*executor.id, lane});
}

void Runner::ended(uint64_t key, uint32_t lane, const ipc::RunEnded& event) {
  const auto it = runs_.find(event.run);
  if (it == runs_.end() || it->second.executor != key || it->second.lane != lane || !it->second.pushed)
    return doom(key, invalid(fmt::format("reports run {} that it does not have", event.run)));
  LiveRun& run = it->second;
  Executor& executor = executors_.at(key);
  DeviceRecord& on = device(executor.device);
  if (event.ends_executor && !event.ok && !executor.is_lost) {
    const auto& known = executor.breakages;
    if (std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.second.run == event.run; })) return;
    executor.breakages.emplace_back(lane, event);
    executor.killed_by_us = true;
    return doom(key, unavailable("executor: a launch failed"));
  }
  if (!event.ok) run.report.error = Error{event.code, event.text};
  run.read = {event.taken_ns};
  run.started = {event.started_ns};
  run.finished = {event.ended_ns};
  run.reported = {event.reported_ns};
  // It cannot have used more than there was: what it tells decides whose turn is next.
  const int64_t elapsed_ns = (os::now() - run.pushed_at).ns;
  run.waited = {std::max<int64_t>(0, event.waited_ns)};
  run.no_room = event.no_room && !event.ok;
  run.ends_executor = event.ends_executor && !event.ok;
  run.device_time_ns = std::min(event.device_time_ns, static_cast<uint64_t>(elapsed_ns) * std::max(1U, on.caps.units));
  run.rounds = event.rounds;
  run.kernels = event.kernels;
  executor.process->learn(run.plan->id, Duration{elapsed_ns});
  ++on.runs_ended;
  charge(executor, run);
  note_held(executor, run);
  for (size_t i = 0; event.ok && i < run.made.size(); ++i)
    executor.process->add_made(*run.leaves[i].number, run.made[i]);
  if (run.stopped) executor.process->stopped(lane);
  std::erase(executor.pushed, event.run);
  mark_started(executor);
  finish(event.run, !event.ok);
}

// It talks nonsense, or not at all any more: end it. The core hears of it when the process is gone.
void Runner::doom(uint64_t key, const Error& why) {
  Executor& executor = executors_.at(key);
  if (std::exchange(executor.is_doomed, true)) return;
  poller_.remove(executor.process->socket_fd());
  active_.erase(key);
  if (why.code != ErrorCode::kUnavailable)
    os::log_warning("executor {}: {}; it is ended", executor.process->pid(), why.text);
  note_end(executor);
  executor.process->kill();
  leave_flight(key);
}

void Runner::lose(uint64_t key) {
  // What it reported before it died did happen.
  for (uint32_t lane = 0; lane < core_config_.all_lanes(); ++lane)
    for (;;) {
      auto event = executors_.at(key).process->take_event(lane);
      if (!event.ok() || !*event) break;
      const auto* end = std::get_if<ipc::RunEnded>(&**event);
      if (!end) continue;
      const auto run = runs_.find(end->run);
      if (run == runs_.end() || run->second.executor != key || run->second.lane != lane || !run->second.pushed) break;
      ended(key, lane, *end);
    }
  std::vector<sched::RunId> suspects = end_broken(key);
  leave_flight(key);
  Executor& executor = executors_.at(key);
  charge_lost(executor);
  const ExecutorEnd end = executor.process->end();
  if (executor.id || !executor.killed_by_us) ++counters_.executors_lost;  // a blank one that was let go is no loss
  if (executor.id && tracer_.is_on()) tracer_.executor_lost(executor.id->value, executor.device, os::now());
  const std::optional<uint64_t> culprit = find_culprit(executor, end, suspects);
  if (!executor.killed_by_us)
    os::log_warning("executor {} on {}: ended by {}{}{}", key, device(executor.device).config.name,
                    end.exit.signal ? fmt::format("signal {}", end.exit.signal) : fmt::format("exit {}", end.exit.code),
                    culprit ? fmt::format(", function {} is to blame", runs_.at(*culprit).function->name) : "",
                    end.last_words.empty() ? "" : "; its last words: " + end.last_words);
  // One that never comes up must not be replaced for ever.
  if (!executor.id && !executor.killed_by_us) fill_pools_later();
  const auto id = executor.id;
  const uint64_t device_id = executor.device;
  const std::set<uint64_t> runs = executor.runs;
  // The memory of its runs may be used again: the process is gone.
  if (id) {
    sched::ExecutorLost event{*id, std::nullopt, std::move(suspects)};
    if (culprit) event.culprit = sched::RunId{*culprit};
    feed(event);
  }
  for (uint64_t run : runs) forget_run(run);
  erase_executor(key);
  set_spin(device_id);
}

// A launch that failed is to blame if it was the only one. A context that broke fails the launches of all lanes, in any
// order: then nobody knows which of them did it.
std::vector<sched::RunId> Runner::end_broken(uint64_t key) {
  Executor& executor = executors_.at(key);
  executor.is_lost = true;
  const auto breakages = std::move(executor.breakages);
  for (const auto& [lane, end] : breakages)
    os::log_warning("executor {} on {}: function {}: {}; the executor ended", key, device(executor.device).config.name,
                    runs_.at(end.run).function->name, end.text);
  if (breakages.size() == 1) ended(key, breakages[0].first, breakages[0].second);
  std::vector<sched::RunId> suspects;
  for (size_t i = 0; breakages.size() > 1 && i < breakages.size(); ++i) suspects.push_back({breakages[i].second.run});
  return suspects;
}

void Runner::erase_executor(uint64_t key) {
  const auto it = executors_.find(key);
  if (it == executors_.end()) return;
  DeviceRecord& on = device(it->second.device);
  --on.executors;
  if (it->second.id) executor_keys_.erase(it->second.id->value);
  active_.erase(key);
  executors_.erase(it);  // its descriptors close, and so leave the poller
  os::log_debug("executor {} on {}: is gone", key, on.config.name);
}

std::optional<uint64_t> Runner::find_culprit(const Executor& executor, const ExecutorEnd& end,
                                             std::vector<sched::RunId>& suspects) {
  if (executor.killed_by_us || end.signal == 0) return std::nullopt;
  std::vector<uint64_t> in_lanes;
  for (uint64_t run : executor.pushed)
    if (executor.process->running_launch(runs_.at(run).lane, run)) in_lanes.push_back(run);
  // The code that faulted names the kernel; without it, only a run that was alone can be blamed.
  std::optional<uint64_t> culprit;
  for (uint64_t run_id : in_lanes) {
    LiveRun& run = runs_.at(run_id);
    const auto program = executor.process->program_number(run.plan->id, end.program);
    if (end.program != 0 && !program) continue;
    if (end.program == 0 && in_lanes.size() > 1) {
      for (const uint64_t suspect : in_lanes) suspects.push_back({suspect});
      return std::nullopt;
    }
    const ProgramSignatures* signatures = program ? &run.binary->programs[*program].signatures : nullptr;
    if (signatures && end.entry < signatures->size())
      run.report.kernel = (*signatures)[end.entry].entry;
    else
      run.report.kernel = kernel_at(executor, run_id);
    run.report.signal = end.signal;
    run.report.address = end.address;
    if (!culprit) culprit = run_id;
  }
  return culprit;
}

std::string Runner::kernel_at(const Executor& executor, uint64_t run_id) const {
  const LiveRun& run = runs_.at(run_id);
  const auto launch = executor.process->running_launch(run.lane, run_id);
  return launch ? std::string(shown_kernel(run, *launch)) : "";
}

std::string_view Runner::shown_kernel(const LiveRun& run, uint32_t launch) {
  const auto& launches = run.plan->plan.launches;
  if (launch >= launches.size()) return "";
  return run.function->manifest.kernels[launches[launch].kernel].shown();
}

void Runner::set_spin(uint64_t device_id) {
  // Long enough for the next call of a caller that waits for each answer; nothing where a neighbour needs the core.
  constexpr uint64_t kSpinNs = 500'000;
  uint64_t on_device = 0;
  for (auto& [key, executor] : executors_)
    if (executor.device == device_id && executor.id) ++on_device;
  const bool has_own_cores = !device(device_id).config.cores.empty();
  for (auto& [key, executor] : executors_)
    if (executor.device == device_id) executor.process->allow_spin(on_device == 1 && has_own_cores ? kSpinNs : 0);
}

}  // namespace quern::daemon
