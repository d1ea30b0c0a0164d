// SPDX-License-Identifier: Apache-2.0
//
// Who used what, and who waited for what. A request waits for its turn (queue, fairness), then at its place for room
// and for what it needs (memory, setup), then in the ring for the device (queue, fairness again) and at its gate
// (urgent, quota); each of these is noted where it begins or ends, and summed up when the request is answered.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "daemon/runner.h"
#include "os/clock.h"
#include "os/file.h"

namespace quern::daemon {

void Runner::queue_up(LiveCall& call, Time since) {
  call.waits.queued_at = since;
  call.waits.queued = turns_.mark(call.tenant->id, os::now());
  call.waits.placed_at = {0};
  call.waits.run = 0;
}

void Runner::give_place(LiveCall& call) {
  const Time now = os::now();
  // Also what an attempt that is being given up waited for.
  call.waits.before = waits_of(call, now);
  call.waits.queued_at = {0};
  call.waits.placed_at = now;
  call.waits.run = 0;
  if (!std::exchange(call.waits.holds_turn, true)) turns_.begin(call.tenant->id, now);
}

void Runner::take_place(LiveCall& call, uint64_t run_id, LiveRun& run) {
  // Nothing had to be prepared, or it runs again at once.
  if (call.waits.queued_at.ns != 0 || call.waits.run != 0) give_place(call);
  run.waits.tenant = call.tenant->id;
  run.waits.placed_at = call.waits.placed_at;
  call.waits.run = run_id;
  if (!std::exchange(call.waits.holds_turn, false)) turns_.begin(call.tenant->id, os::now());
}

// Of all that a run needs, what has room is asked for at once: while nothing of it was on its way, it waited for room.
void Runner::note_room(const LiveCall& call, LiveRun& run) {
  if (call.times.placed.ns == 0) return;
  std::vector<std::pair<Time, Time>> spans;
  for (const Phase& phase : setup_of(call, run)) spans.emplace_back(phase.from, phase.to);
  run.waits.room = uncovered(run.waits.placed_at, os::now(), std::move(spans));
}

void Runner::leave_place(uint64_t run_id, LiveRun& run) {
  const Time now = os::now();
  if (const auto call = calls_.find(run.request); call != calls_.end() && call->second->waits.run == run_id) {
    call->second->waits.before = waits_of(*call->second, now);
    queue_up(*call->second, now);
  }
  turns_.end(run.waits.tenant, now);
}

void Runner::note_gate(Executor& executor, uint32_t lane, sched::Grant::Why why) {
  using Why = sched::Grant::Why;
  executor.gates[lane] = why;
  // The newest: one that is over may still be remembered.
  const auto it = std::find_if(executor.runs.rbegin(), executor.runs.rend(),
                               [&](uint64_t run) { return runs_.at(run).lane == lane; });
  if (it == executor.runs.rend()) return;
  LiveRun& run = runs_.at(*it);
  const Time now = os::now();
  run.waits.settle(now);
  run.waits.closed_at = why == Why::kOpen ? Time{0} : now;
  if (why == Why::kOpen) return;
  run.waits.closed_by = why == Why::kUrgent ? Cause::kUrgent : Cause::kQuota;
  run.waits.closed_for.clear();
  if (why != Why::kUrgent) return;
  const LiveRun* most_urgent = nullptr;
  for (const auto& [id, other] : runs_) {
    const auto on = executors_.find(other.executor);
    if (on == executors_.end() || on->second.device != executor.device || other.level >= run.level) continue;
    if (!most_urgent || other.level < most_urgent->level) most_urgent = &other;
  }
  // If there is none it is about to come: `Run` follows. Or it is a program.
  if (most_urgent && most_urgent->function->tenant == run.function->tenant)
    run.waits.closed_for = most_urgent->function->name;
  const auto launch = executor.process->running_launch(lane, *it);
  const auto& launches = run.plan->plan.launches;
  const Time since = std::exchange(run.waits.whole_since, Time{0});
  if (!run.binary || !launch || *launch >= launches.size()) return;
  const uint32_t kernel = launches[*launch].kernel;
  if (kernel >= run.binary->unsliceable.size() || run.binary->unsliceable[kernel].empty()) return;
  const bool is_same = since.ns != 0 && run.waits.whole_launch == *launch;
  run.waits.whole_since = is_same ? since : now;
  run.waits.whole_launch = *launch;
  if (!run.waits.whole)
    run.waits.whole =
        WholeKernel{std::string(shown_kernel(run, *launch)), run.binary->unsliceable[kernel], Duration{0}};
}

// Gates were closed for it before it came.
void Runner::note_urgent(const LiveRun& comes, const Executor& executor) {
  for (auto& [id, other] : runs_) {
    if (!other.waits.is_closed() || other.waits.closed_by != Cause::kUrgent || other.level <= comes.level) continue;
    if (executors_.at(other.executor).device != executor.device) continue;
    other.waits.closed_for = other.function->tenant == comes.function->tenant ? comes.function->name : "";
  }
}

// How long someone more urgent waited for a kernel that could not be cut: until that ended, or the other began. Turns
// that the kernel's run had meanwhile change nothing: it was on the device before and after.
void Runner::note_held(const Executor& executor, LiveRun& ended) {
  const Time now = os::now();
  const auto hold = [&](LiveRun& run, Time from, Time to) {
    if (run.waits.whole_since.ns == 0 || !run.waits.whole) return;
    const Duration held = std::min(to, now) - std::max(from, run.waits.whole_since);
    run.waits.whole->held = std::max(run.waits.whole->held, held);
  };
  for (auto& [id, other] : runs_) {
    if (executors_.at(other.executor).device != executor.device) continue;
    const bool waits = other.pushed && other.started.ns == 0;
    if (other.level < ended.level && waits) hold(ended, other.pushed_at, ended.finished);
    if (other.level > ended.level && ended.started.ns != 0) hold(other, ended.pushed_at, ended.started);
  }
}

Waits Runner::waits_of(const LiveRun& run, Time now) const {
  Waits sum = run.waits.at_gate(now);
  const Time ready = run.pushed ? run.pushed_at : now;
  sum.add(Cause::kMemory, run.waits.room);
  sum.add(Cause::kSetup, (ready - run.waits.placed_at) - run.waits.room);
  if (!run.pushed) return sum;
  const Duration constants = std::min(run.waited, now - run.pushed_at);
  sum.add(Cause::kSetup, constants);
  if (run.started <= run.pushed_at) return sum;  // or it has told nothing yet
  // Behind what was on the device already. If that was nobody's, it took as long to be launched.
  const Duration behind = run.waits.open_between(run.pushed_at, std::min(run.started, now), now) - constants;
  (void)turns_.divide(run.waits.tenant, run.waits.pushed, now, behind, true, sum);
  return sum;
}

Waits Runner::waits_of(const LiveCall& call, Time now) const {
  const CallWaits& waits = call.waits;
  Waits sum = waits.before;
  if (waits.queued_at.ns != 0) {
    const Duration waited = now - waits.queued_at;
    if (!turns_.divide(call.tenant->id, waits.queued, now, waited, false, sum)) sum.add(Cause::kQueue, waited);
  } else if (const auto run = runs_.find(waits.run); run != runs_.end()) {
    sum.add(waits_of(run->second, now));
  } else if (waits.placed_at.ns != 0) {
    sum.add(Cause::kSetup, now - waits.placed_at);
  }
  return sum;
}

void Runner::note_load(Executor& executor, uint64_t object, uint64_t size_bytes) {
  executor.unclaimed[object] = size_bytes;
  executor.brought.erase(object);
}

// What was brought is charged to who first needs it there, also where it came ahead of a run.
void Runner::claim_loads(Executor& executor, LiveCall& call) {
  if (executor.unclaimed.empty()) return;
  Account& account = accounts_.of(call.tenant->name, call.function->name, device(executor.device).config.name);
  const auto claim = [&](const sched::ObjectNeed& need) {
    const auto item = executor.unclaimed.extract(need.object.value);
    if (!item) return;
    ++account.loads;
    account.loaded_bytes += item.mapped();
    ++call.account.loads;
    call.account.loaded_bytes += item.mapped();
    executor.brought[need.object.value] = &account;
  };
  std::for_each(call.function->objects.begin(), call.function->objects.end(), claim);
  std::for_each(call.passing.begin(), call.passing.end(), claim);
}

void Runner::note_unload(Executor& executor, uint64_t object, bool to_make_room) {
  executor.unclaimed.erase(object);
  const auto item = executor.brought.extract(object);
  if (item && to_make_room) ++item.mapped()->evictions;
}

void Runner::note_room_made(const std::optional<sched::Room>& room) {
  RequestAccount* account = room && room->request ? account_of(room->request->value) : nullptr;
  if (!account) return;
  ++account->evictions;
  account->evicted_bytes += room->bytes;
}

RequestAccount* Runner::account_of(uint64_t request) {
  const auto call = calls_.find(request);
  return call != calls_.end() ? &call->second->account : requests_.account_of_ended(request);
}

void Runner::charge(Executor& executor, const LiveRun& run) {
  DeviceRecord& on = device(executor.device);
  Account& account = accounts_.of(run.function->tenant, run.function->name, on.config.name);
  ++account.runs;
  account.device_time_ns += run.device_time_ns;
  if (RequestAccount* own = account_of(run.request)) {
    ++own->runs;
    own->device_time_ns += run.device_time_ns;
  }
  executor.charged_ns += run.device_time_ns;
  on.device_time_ns += run.device_time_ns;
}

void Runner::charge(Program& program, uint64_t time_ns) {
  DeviceRecord& on = device(program.device);
  const Time now = os::now();
  const auto elapsed_ns = static_cast<uint64_t>((now - std::exchange(program.charged_at, now)).ns);
  const uint64_t used_ns = std::min(time_ns, elapsed_ns * std::max(1U, on.caps.units));
  program.account->device_time_ns += used_ns;
  on.device_time_ns += used_ns;
}

// Nobody tells any more what its runs used: what its workers used in all and was not charged is theirs. If it ended by
// itself its workers are gone, and the CPU time of its process since it was up, which the kernel has until it is
// reaped, is the most.
void Runner::charge_lost(Executor& executor) {
  const Time now = os::now();
  std::vector<std::pair<LiveRun*, double>> shares;
  double sum = 0;
  for (const uint64_t id : executor.pushed) {
    LiveRun& run = runs_.at(id);
    const bool is_culprit = executor.killed_because == id;
    const Duration time = (now - run.pushed_at) - (is_culprit ? Duration{0} : run.waits.at_gate(now).gated());
    if (time.ns <= 0 || !executor.process->running_launch(run.lane, id)) continue;
    // Where one kernel kept the device, the others waited behind it.
    if (executor.killed_because && *executor.killed_because != id) continue;
    shares.emplace_back(&run, static_cast<double>(time.ns));
    sum += static_cast<double>(time.ns);
  }
  if (shares.empty()) return;
  const uint32_t units = std::max(1U, device(executor.device).caps.units);
  const auto of_process = static_cast<uint64_t>(os::cpu_time_of_process(executor.process->pid()).ns);
  const uint64_t used = executor.used_ns ? *executor.used_ns : of_process - std::min(of_process, executor.start_cpu_ns);
  const auto left = static_cast<double>(used - std::min(used, executor.charged_ns));
  for (const auto& [run, time] : shares) {
    const double most = time * (run->units ? std::min(run->units, units) : units);
    run->device_time_ns = static_cast<uint64_t>(std::min(most, left * time / sum));
    charge(executor, *run);
  }
}

void Runner::note_start(Executor& executor) {
  const auto of_process = static_cast<uint64_t>(os::cpu_time_of_process(executor.process->pid()).ns);
  executor.start_cpu_ns = of_process - std::min(of_process, workers_ns(executor).value_or(0));
}

void Runner::note_end(Executor& executor) {
  // Once: the second time they may be gone.
  if (executor.used_ns || executor.pushed.empty() || !executor.process->greeted()) return;
  executor.used_ns = workers_ns(executor);
}

// Workers are named by a stranger: only threads of that process are looked at.
std::optional<uint64_t> Runner::workers_ns(const Executor& executor) {
  if (executor.process->workers().empty()) return std::nullopt;
  uint64_t used = 0;
  for (const int32_t worker : executor.process->workers()) {
    const std::string path = fmt::format("/proc/{}/task/{}/schedstat", executor.process->pid(), worker);
    const auto file = os::open_file(path);
    std::array<std::byte, 64> text;
    const auto size = file.ok() ? os::read_some(*file, path, text) : Result<size_t>(file.error());
    if (!size.ok()) return std::nullopt;
    const char* begin = reinterpret_cast<const char*>(text.data());
    uint64_t ns = 0;
    std::from_chars(begin, begin + *size, ns);
    used += ns;
  }
  return used;
}

void Runner::count_answer(LiveCall& call, bool is_good, const std::string& device) {
  Account& account = accounts_.of(call.tenant->name, call.function->name, device);
  ++(is_good ? account.requests : account.failed);
  if (is_good)
    for (const CallTensor& output : call.outputs) call.account.bytes_out += output.bytes.size();
  account.bytes_in += call.account.bytes_in;
  account.bytes_out += call.account.bytes_out;
  account.add(call.times.waits);
  if (std::exchange(call.waits.holds_turn, false)) turns_.end(call.tenant->id, os::now());
}

}  // namespace quern::daemon
