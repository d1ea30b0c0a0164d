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

ipc::Grant Runner::grant_of(const sched::Grant& grant) {
  ipc::Grant page;
  page.open = grant.open;
  page.tells = grant.tells;
  page.until_ns = grant.until == Time::never() ? 0 : grant.until.ns;
  page.depth_ns = static_cast<uint64_t>(std::max<int64_t>(0, grant.depth.ns));
  page.depth = grant.launches;
  page.slice_ns = small(grant.slice);
  page.beyond_ns = small(grant.beyond);
  return page;
}

void Runner::carry_out(const sched::Grant& action) {
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
  note_gate(executor, lane, action.open);
}

// Why a run took so long: who was more urgent, where that is its own tenant's business.
void Runner::note_gate(Executor& executor, uint32_t lane, bool open) {
  const auto it = std::find_if(executor.runs.begin(), executor.runs.end(),
                               [&](uint64_t run) { return runs_.at(run).lane == lane; });
  if (it == executor.runs.end()) return;
  LiveRun& run = runs_.at(*it);
  const Time now = os::now();
  if (run.closed_at.ns != 0) run.gated = run.gated + (now - run.closed_at);
  run.closed_at = open ? Time{0} : now;
  if (open) return;
  const LiveRun* most_urgent = nullptr;
  for (const auto& [id, other] : runs_) {
    const auto on = executors_.find(other.executor);
    if (on == executors_.end() || on->second.device != executor.device || other.level >= run.level) continue;
    if (!most_urgent || other.level < most_urgent->level) most_urgent = &other;
  }
  if (!most_urgent) return;  // it is about to come: `Run` follows
  run.gated_for = most_urgent->function->tenant == run.function->tenant ? most_urgent->function->name : "";
}

// What a launcher says of itself; times that have not come are of no use to anyone.
void Runner::heard(sched::LauncherId launcher, const ipc::LaneEvent& event) {
  const auto within = [](uint64_t ns) {
    return Duration{static_cast<int64_t>(std::min<uint64_t>(ns, Duration::seconds(3600).ns))};
  };
  if (const auto* ready = std::get_if<ipc::WorkReady>(&event)) {
    feed(sched::WorkReady{launcher, within(ready->next_ns), ready->sliceable});
  } else if (const auto* gap = std::get_if<ipc::GapBegun>(&event)) {
    const Time now = os::now();
    // One that began long ago is no gap of now: it would be filled into the past.
    const Time at{std::clamp(gap->at_ns, now.ns - Duration::millis(1).ns, now.ns)};
    feed(sched::GapBegun{launcher, at, gap->after});
  } else if (const auto* used = std::get_if<ipc::DeviceUsed>(&event)) {
    counters_.past_gate.fetch_add(used->past_gate, std::memory_order_relaxed);
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
  QUERN_TRY(ProgramLink link, gate->link(number));
  const std::string name = tenant.name + "/" + spec.name;
  const uint64_t name_number = program_names_.try_emplace(name, kFirstName + program_names_.size()).first->second;
  programs_.emplace(number, Program{std::move(gate), on});
  const uint8_t priority = std::max(spec.priority, tenant.limits.priority);
  feed(sched::LauncherUp{sched::program_of(number), {on}, {name_number}, priority});
  return link;
}

void Runner::leave(uint64_t number) {
  if (programs_.erase(number) == 0) return;  // its descriptors close, and so leave the poller
  feed(sched::LauncherGone{sched::program_of(number)});
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
  if (!has_classes_ || executor.runs.empty()) return;
  uint8_t most_urgent = sched::kLeastUrgent;
  for (const uint64_t run : executor.runs) most_urgent = std::min(most_urgent, runs_.at(run).level);
  const bool is_best_effort = most_urgent >= kBestEffort;
  if (executor.is_best_effort == is_best_effort) return;
  executor.is_best_effort = is_best_effort;
  for (const int32_t worker : executor.process->workers())
    if (os::exists(fmt::format("/proc/{}/task/{}", executor.process->pid(), worker)))
      os::set_idle_class(worker, is_best_effort);
}

}  // namespace quern::daemon
