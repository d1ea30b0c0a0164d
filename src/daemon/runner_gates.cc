// SPDX-License-Identifier: Apache-2.0
//
// Gates: what the core grants reaches launchers here, and what they tell reaches the core. Also the class of an
// executor, which is what the operating system may do with a priority.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/runner.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

// Numbers for the names of programs; those of functions are counted from 1.
constexpr uint64_t kFirstName = uint64_t{1} << 62;

uint32_t small(Duration duration) { return static_cast<uint32_t>(std::clamp<int64_t>(duration.ns, 0, UINT32_MAX)); }

}  // namespace

ipc::Grant Runner::grant_of(const sched::Grant& grant) const {
  ipc::Grant page;
  page.open = grant.open;
  page.tells = grant.tells;
  page.meters = grant.meters;
  page.overdraws = grant.overdraws;
  page.from_ns = grant.from.ns;
  page.until_ns = grant.until == Time::never() ? 0 : grant.until.ns;
  page.depth_ns = static_cast<uint64_t>(std::max<int64_t>(0, grant.depth.ns));
  page.depth = grant.launches;
  page.slice_ns = small(grant.slice);
  page.beyond_ns = small(grant.beyond);
  return tracer_.marked(page);
}

void Runner::carry_out(const sched::Grant& action) {
  if (tracer_.is_on()) trace_grant(action);
  if (sched::is_program(action.launcher)) {
    const auto program = programs_.find(action.launcher.value - sched::kFirstProgram);
    if (program != programs_.end()) program->second.gate->grant(grant_of(action));
    return;
  }
  const auto key = executor_keys_.find(action.launcher.value >> 8);
  if (key == executor_keys_.end()) return;
  Executor& executor = executors_.at(key->second);
  const auto lane = static_cast<uint32_t>(action.launcher.value & 255);
  executor.process->grant(lane, grant_of(action));
  using Why = sched::Grant::Why;
  note_gate(executor, lane, action.open ? Why::kOpen : action.why == Why::kOpen ? Why::kUrgent : action.why);
}

// What a launcher says of itself; times that have not come are of no use to anyone.
void Runner::heard(sched::LauncherId launcher, const ipc::LaneEvent& event) {
  if (tracer_.is_on()) trace_heard(launcher, event);
  const auto within = [](uint64_t ns) {
    return Duration{static_cast<int64_t>(std::min<uint64_t>(ns, Duration::seconds(3600).ns))};
  };
  const auto lately = [now = os::now()](int64_t ns) {
    return Time{std::clamp(ns, now.ns - Duration::millis(1).ns, now.ns)};
  };
  if (const auto* ready = std::get_if<ipc::WorkReady>(&event)) {
    static_assert(ipc::WorkReady::kMost == sched::WorkReady::kMost);
    sched::WorkReady told{launcher, {}, ready->pauses, lately(ready->at_ns)};
    std::optional<KernelPlace> place;
    for (const auto& kernel : ready->kernels) {
      uint64_t time_ns = kernel.time_ns;
      // What it never saw, others of its name may have had before it came.
      if (time_ns == 0 && kernel.identity != 0 && (place || (place = place_of(launcher))))
        time_ns = profiles_.expected_ns(*place, kernel.identity, kernel.groups);
      told.kernels.push_back({kernel.identity, within(time_ns), kernel.sliceable});
    }
    feed(told);
  } else if (const auto* gap = std::get_if<ipc::GapBegun>(&event)) {
    // One that began long ago is no gap of now: it would be filled into the past.
    feed(sched::GapBegun{launcher, lately(gap->at_ns), gap->after, {std::max<int64_t>(0, gap->started_ns)}});
  } else if (const auto* used = std::get_if<ipc::DeviceUsed>(&event)) {
    counters_.past_gate.fetch_add(used->past_gate, std::memory_order_relaxed);
    if (sched::is_program(launcher)) charge(programs_.at(launcher.value - sched::kFirstProgram), used->time_ns);
    learn(launcher, *used);
    feed(sched::DeviceUsed{launcher, within(used->time_ns)});
  }
}

Result<ProgramLink> Runner::join(const Tenant& tenant, const ProgramSpec& spec) {
  uint64_t on = 0;
  for (const auto& device : devices_)
    if (device->config.name == spec.device) on = device->id;
  if (on == 0) return not_found(fmt::format("device '{}': there is none; see `quern devices`", spec.device));
  const uint64_t number = next_program_++;
  QUERN_TRY(auto gate, ProgramGate::create());
  QUERN_TRY(poller_.add(gate->wake_fd(), token(number, Source::kProgram)));
  QUERN_TRY(poller_.add(gate->life_fd(), token(number, Source::kProgramEnd)));
  QUERN_TRY(ProgramLink link, gate->link(number));
  const std::string name = tenant.name + "/" + spec.name;
  const uint64_t name_number = program_names_.try_emplace(name, kFirstName + program_names_.size()).first->second;
  bring_gaps_back({tenant.name, spec.name, ""}, {name_number});
  const uint8_t priority = std::max(spec.priority, tenant.limits.priority);
  Program& joined = programs_[number];
  joined.gate = std::move(gate);
  joined.device = on;
  joined.account = &accounts_.of(tenant.name, Accounts::program(spec.name), device(on).config.name);
  joined.charged_at = os::now();
  joined.name = spec.name;
  joined.tenant = tenant.name;
  joined.level = sched::level_of(priority);
  if (tracer_.is_on()) tracer_.program_up(sched::program_of(number), on, joined.name, joined.tenant, joined.level);
  feed(sched::LauncherUp{sched::program_of(number), {on}, {name_number}, priority, quota_of(spec)});
  return link;
}

void Runner::leave(uint64_t number) {
  if (programs_.erase(number) == 0) return;  // its descriptors close, and so leave the poller
  if (tracer_.is_on()) tracer_.gone(sched::program_of(number), os::now());
  feed(sched::LauncherGone{sched::program_of(number)});
}

// Without a word: it was killed, or let go of its link. What it told before did happen. Its kernels went with it.
void Runner::lose_program(uint64_t number) {
  drain_program(number);
  const auto it = programs_.find(number);
  if (it == programs_.end()) return;
  os::log_info("program {} ({}) on {}: is gone", number, it->second.name, device(it->second.device).config.name);
  // Others may have copies of its gate.
  it->second.gate->grant({});
  leave(number);
}

void Runner::drain_program(uint64_t number) {
  for (;;) {
    const auto it = programs_.find(number);
    if (it == programs_.end()) return;
    auto event = it->second.gate->take_event();
    if (!event.ok()) {
      os::log_warning("program {}: {}; its gate is closed for good", number, event.error().text);
      it->second.gate->grant({});
      return leave(number);
    }
    if (!*event) return;
    heard(sched::program_of(number), **event);
  }
}

// The class of its most urgent run; of one that has none, as it was. Workers are named by a stranger: only those that
// are threads of that process are touched.
void Runner::set_class(Executor& executor) {
  if (!has_classes_ || !executor.process->caps().worker_classes || executor.runs.empty()) return;
  uint8_t most_urgent = sched::kLeastUrgent;
  for (const uint64_t run : executor.runs) most_urgent = std::min(most_urgent, sched::priority_of(runs_.at(run).level));
  const auto wanted = most_urgent >= kBestEffort   ? os::WorkerClass::kBestEffort
                      : most_urgent <= kLastUrgent ? os::WorkerClass::kUrgent
                                                   : os::WorkerClass::kNormal;
  if (executor.worker_class == wanted && executor.workers_classed == executor.process->workers_told()) return;
  executor.worker_class = wanted;
  executor.workers_classed = executor.process->workers_told();
  for (const int32_t worker : executor.process->workers())
    if (os::exists(fmt::format("/proc/{}/task/{}", executor.process->pid(), worker)))
      os::set_worker_class(worker, wanted);
}

}  // namespace quern::daemon
