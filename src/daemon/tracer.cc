// SPDX-License-Identifier: Apache-2.0
#include "daemon/tracer.h"

#include <algorithm>

namespace quern::daemon {
namespace {

// Places in the list of names.
constexpr uint32_t kUnnamed = 0, kOtherName = 1;
// Room that is made at once, so that lists grow without being copied; it costs nothing before it is used.
constexpr size_t kUsualSpans = size_t{1} << 18;

}  // namespace

ipc::Grant Tracer::marked(ipc::Grant grant) const {
  grant.traces = is_on_ && !is_pausing_;
  return grant;
}

void Tracer::begin(std::string tenant, std::vector<Trace::Device> devices, Time now) {
  is_on_ = true;
  is_pausing_ = false;
  tenant_ = std::move(tenant);
  trace_ = {};
  trace_.from = now;
  trace_.to = Time::never();
  trace_.devices = std::move(devices);
  spans_ = 0;
  names_.clear();
  launchers_.clear();
  runs_.clear();
  loads_.clear();
  name_of("");  // what there is no room for
  name_of(Trace::kOther);
  const size_t usual = std::min(most_spans_, kUsualSpans);
  trace_.launches.reserve(usual);
  trace_.gates.reserve(usual);
  trace_.runs.reserve(usual);
}

void Tracer::pause(Time now) {
  is_pausing_ = true;
  trace_.to = now;
}

// Nothing here takes longer the more was noted: the strand has others to serve.
Trace Tracer::end(Time now) {
  if (!is_pausing_) trace_.to = now;
  is_on_ = is_pausing_ = false;
  launchers_.clear();
  runs_.clear();
  loads_.clear();
  return std::exchange(trace_, {});
}

bool Tracer::has_room() {
  if (spans_ >= most_spans_) {
    ++trace_.dropped;
    return false;
  }
  ++spans_;
  return true;
}

Time Tracer::within(Time time) const { return std::max(time, trace_.from); }

uint32_t Tracer::name_of(std::string_view name) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  if (names_.size() >= kMostNames) return kUnnamed;
  const auto number = static_cast<uint32_t>(trace_.names.size());
  trace_.names.emplace_back(name);
  names_.emplace(name, number);
  return number;
}

uint32_t Tracer::name_for(std::string_view name, std::string_view tenant) {
  return tenant == tenant_ ? name_of(name) : kOtherName;
}

Tracer::Open* Tracer::find(sched::LauncherId launcher) {
  const auto it = launchers_.find(launcher);
  return it == launchers_.end() ? nullptr : &it->second;
}

Tracer::Open* Tracer::find_lane(sched::LauncherId lane, uint64_t device) {
  if (Open* known = find(lane)) return known;
  if (!has_room()) return nullptr;
  Trace::Launcher launcher;
  launcher.device = device;
  launcher.executor = lane.value >> 8;
  launcher.lane = static_cast<uint32_t>(lane.value & 255);
  const auto number = static_cast<uint32_t>(trace_.launchers.size());
  trace_.launchers.push_back(launcher);
  return &launchers_.emplace(lane, Open{number, Trace::kNone, Trace::kNone, Trace::kNone, {0}}).first->second;
}

void Tracer::run_began(sched::LauncherId lane, uint64_t device, const Ran& ran) {
  const Open* open = find_lane(lane, device);
  if (!open || !has_room()) return;
  Trace::Run run;
  run.launcher = open->launcher;
  run.name = name_for(ran.name, ran.tenant);
  run.function = ran.function;
  if (ran.tenant == tenant_) run.request = ran.request;
  run.level = ran.level;
  run.priority = sched::priority_of(ran.level);
  run.from = within(ran.at);
  run.to = Time::never();
  run.began_before = ran.at < trace_.from;
  runs_[ran.run] = static_cast<uint32_t>(trace_.runs.size());
  trace_.runs.push_back(std::move(run));
}

void Tracer::run_ended(uint64_t run, Time at) {
  const auto it = runs_.find(run);
  if (it == runs_.end()) return;
  Trace::Run& over = trace_.runs[it->second];
  over.to = std::max(over.from, at);
  over.is_over = over.to <= trace_.to;
  runs_.erase(it);
}

void Tracer::add_launch(uint32_t launcher, uint32_t run, std::string_view entry, const ipc::Traced::Span& span,
                        Time now) {
  // One that ended before anybody looked was told late; what a launcher says of the future is not so.
  if (span.end_ns <= trace_.from.ns || span.end_ns < span.start_ns || span.start_ns > now.ns || !has_room()) return;
  const Time earliest = run == Trace::kNone ? trace_.from : trace_.runs[run].from;
  Trace::Launch launch;
  launch.launcher = launcher;
  launch.run = run;
  const uint32_t whose = run == Trace::kNone ? trace_.launchers[launcher].name : trace_.runs[run].name;
  launch.name = whose == kOtherName ? kOtherName : name_of(entry);
  if (whose != kOtherName) {
    launch.index = span.launch;
    launch.first = span.first;
    launch.parts = span.parts;
    launch.of = span.of;
  }
  launch.from = std::max(Time{span.start_ns}, earliest);
  launch.to = std::clamp(Time{span.end_ns}, launch.from, std::max(launch.from, now));
  trace_.launches.push_back(launch);
}

void Tracer::launched(sched::LauncherId program, const ipc::Traced& traced, Time now) {
  const Open* open = find(program);
  if (!open || !trace_.launchers[open->launcher].is_program) return;
  const std::string name = trace_.names[trace_.launchers[open->launcher].name];
  for (const ipc::Traced::Span& span : traced.spans) add_launch(open->launcher, Trace::kNone, name, span, now);
}

void Tracer::add_gate(Open& open, Trace::Gate gate) {
  end_gate(open, gate.from);
  if (!has_room()) return;
  gate.launcher = open.launcher;
  gate.to = Time::never();
  open.gate = static_cast<uint32_t>(trace_.gates.size());
  trace_.gates.push_back(gate);
}

void Tracer::granted(sched::LauncherId launcher, uint64_t device, const sched::Grant& grant, Time now) {
  Open* open = sched::is_program(launcher) ? find(launcher) : find_lane(launcher, device);
  if (!open) return;
  Trace::Gate gate;
  gate.open = grant.open;
  if (!grant.open) gate.why = sched::name_of(grant.why);
  gate.opens = grant.from;
  gate.until = grant.until;
  gate.slice = grant.slice;
  gate.from = within(now);
  add_gate(*open, gate);
}

void Tracer::stood(sched::LauncherId launcher, uint64_t device, bool is_open) {
  Open* open = sched::is_program(launcher) ? find(launcher) : find_lane(launcher, device);
  if (!open) return;
  Trace::Gate gate;
  gate.open = is_open;
  gate.from = trace_.from;
  add_gate(*open, gate);
}

void Tracer::program_up(sched::LauncherId program, uint64_t device, std::string_view name, std::string_view tenant,
                        sched::LevelNo level) {
  if (find(program) || !has_room()) return;
  Trace::Launcher launcher;
  launcher.device = device;
  launcher.is_program = true;
  launcher.name = name_for(name, tenant);
  launcher.level = level;
  const auto number = static_cast<uint32_t>(trace_.launchers.size());
  trace_.launchers.push_back(launcher);
  launchers_.emplace(program, Open{number, Trace::kNone, Trace::kNone, Trace::kNone, {0}});
}

void Tracer::work_ready(sched::LauncherId launcher, Time at) {
  Open* open = find(launcher);
  // A lane has work as long as it has a run.
  if (!open || !trace_.launchers[open->launcher].is_program) return;
  at = within(at);
  end_gap(*open, at);
  if (open->work != Trace::kNone || !has_room()) return;
  open->work = static_cast<uint32_t>(trace_.works.size());
  trace_.works.push_back({open->launcher, std::max(at, open->used), Time::never(), 0});
}

void Tracer::gap_begun(sched::LauncherId launcher, Time at) {
  Open* open = find(launcher);
  if (!open || !trace_.launchers[open->launcher].is_program) return;
  at = within(at);
  end_work(*open, at);
  if (open->gap != Trace::kNone || !has_room()) return;
  const Trace::Launcher& known = trace_.launchers[open->launcher];
  open->gap = static_cast<uint32_t>(trace_.gaps.size());
  trace_.gaps.push_back({open->launcher, known.device, 0, known.name, known.level, at, Time::never(), {}});
}

// One that is alone on its device tells nothing else: then it worked for as long as it says, until now.
void Tracer::used(sched::LauncherId launcher, uint64_t device_time_ns, Time now) {
  Open* open = find(launcher);
  if (!open || !trace_.launchers[open->launcher].is_program) return;
  const Time before = std::exchange(open->used, now);
  if (open->work != Trace::kNone) {
    trace_.works[open->work].device_time_ns += device_time_ns;
    return;
  }
  if (open->gap != Trace::kNone) return;  // of what ended before it
  if (!has_room()) return;
  const auto longest = static_cast<uint64_t>(std::max<int64_t>(0, (now - within(before)).ns));
  const Time from{now.ns - static_cast<int64_t>(std::min(device_time_ns, longest))};
  trace_.works.push_back({open->launcher, from, now, device_time_ns});
}

void Tracer::gone(sched::LauncherId launcher, Time now) {
  Open* open = find(launcher);
  if (!open) return;
  end_gate(*open, now);
  end_gap(*open, now);
  end_work(*open, now);
  launchers_.erase(launcher);
}

void Tracer::load_began(uint64_t executor, uint64_t device, uint64_t object, std::string_view name,
                        std::string_view tenant, uint64_t bytes, Time at) {
  if (!has_room()) return;
  Trace::Load load;
  load.device = device;
  load.executor = executor;
  load.name = name_for(name, tenant);
  load.bytes = tenant == tenant_ ? bytes : 0;
  load.from = within(at);
  load.to = Time::never();
  loads_[{executor, object}] = static_cast<uint32_t>(trace_.loads.size());
  trace_.loads.push_back(load);
}

void Tracer::load_ended(uint64_t executor, uint64_t object, bool failed, Time at) {
  const auto it = loads_.find({executor, object});
  if (it == loads_.end()) return;
  Trace::Load& load = trace_.loads[it->second];
  load.has_failed = failed;
  load.to = std::max(load.from, at);
  load.is_over = load.to <= trace_.to;
  loads_.erase(it);
}

void Tracer::executor_up(uint64_t executor, uint64_t device, Time from, Time to, bool was_blank) {
  if (!has_room()) return;
  from = within(from);
  trace_.processes.push_back({device, executor, was_blank, false, from, std::max(from, to)});
}

void Tracer::executor_lost(uint64_t executor, uint64_t device, Time at) {
  for (auto it = loads_.begin(); it != loads_.end();) {
    const auto load = it++;
    if (load->first.first != executor || executor == 0) continue;
    trace_.loads[load->second].has_failed = true;
    trace_.loads[load->second].to = std::max(trace_.loads[load->second].from, at);
    loads_.erase(load);
  }
  for (auto it = launchers_.lower_bound(sched::lane_of({executor}, 0));
       it != launchers_.end() && it->first.value >> 8 == executor;)
    gone((it++)->first, at);
  if (has_room()) trace_.processes.push_back({device, executor, false, true, at, at});
}

void Tracer::end_gate(Open& open, Time at) {
  if (open.gate == Trace::kNone) return;
  Trace::Gate& gate = trace_.gates[std::exchange(open.gate, Trace::kNone)];
  gate.to = std::max(gate.from, at);
}

void Tracer::end_gap(Open& open, Time at) {
  if (open.gap == Trace::kNone) return;
  Trace::Gap& gap = trace_.gaps[std::exchange(open.gap, Trace::kNone)];
  gap.to = std::max(gap.from, at);
}

void Tracer::end_work(Open& open, Time at) {
  if (open.work == Trace::kNone) return;
  Trace::Work& work = trace_.works[std::exchange(open.work, Trace::kNone)];
  work.to = std::max(work.from, at);
}

}  // namespace quern::daemon
