// SPDX-License-Identifier: Apache-2.0
//
// What is learned while serving: from launchers into profiles, from there to executors that begin, to the core, to
// people, and to whoever keeps it.
#include <algorithm>
#include <utility>

#include "daemon/runner.h"
#include "os/clock.h"

namespace quern::daemon {
namespace {

constexpr auto kNoGap = static_cast<uint64_t>(Duration::seconds(3600).ns);

// Records that the strand hands over at a time: others wait while it copies them.
constexpr size_t kMostAtOnce = 256;

FunctionVersion version_of(const Function& function) { return {function.tenant, function.name, function.version}; }

// Of a device's binary, or of all where the kernel was timed on none.
std::string why_whole(const DeployedFunction& function, const DeviceRecord* device,
                      const FunctionKernelRecord& kernel) {
  const std::vector<std::string>* reasons = &function.unsliceable;
  if (device)
    if (const auto binary = function.binaries.find(device->caps.build_key); binary != function.binaries.end())
      reasons = &binary->second.unsliceable;
  if (kernel.kernel >= reasons->size()) return "nothing is known of it";
  if (const std::string& reason = (*reasons)[kernel.kernel]; !reason.empty()) return reason;
  return kernel.groups == 1 ? "has one group" : "";
}

void show(const KernelTimes& times, KernelProfile& into) {
  const KernelTimes::Quantiles quantiles = times.quantiles();
  into.samples = times.samples;
  into.is_rough = times.is_rough();
  into.mean_ps = times.mean_ps;
  into.spread_ps = times.spread_ps;
  into.p10_ps = quantiles.p10;
  into.p50_ps = quantiles.p50;
  into.p90_ps = quantiles.p90;
  // Sizes and samples are others' to say: their product may be anything.
  const double launch_ns = static_cast<double>(quantiles.p50) * static_cast<double>(std::max<uint64_t>(1, into.groups));
  into.launch_ns = static_cast<uint64_t>(std::min(launch_ns / 1000, 1e18));
  into.age = Duration::seconds(std::clamp<int64_t>(os::wall_seconds() - times.seen_s, 0, 1'000'000'000));
}

GapProfile gap_of(const sched::Scheduler::GapsSeen& seen, const std::string& device,
                  const std::map<uint64_t, std::string>& entries) {
  GapProfile gap;
  gap.device = device;
  gap.is_between_runs = seen.after == sched::Scheduler::kBetweenRuns;
  gap.after_kernel = gap.is_between_runs ? 0 : seen.after;
  if (const auto entry = entries.find(seen.after); entry != entries.end()) gap.after = entry->second;
  gap.samples = seen.gaps.size();
  gap.is_known = seen.is_known;
  gap.is_stable = seen.is_stable;
  if (seen.gaps.empty()) return gap;
  std::vector<Duration> sorted = seen.gaps;
  std::sort(sorted.begin(), sorted.end());
  const size_t count = sorted.size(), tenth = count / 10;
  double sum = 0;
  for (const Duration one : sorted) sum += static_cast<double>(one.ns);
  gap.mean = {static_cast<int64_t>(sum / static_cast<double>(count))};
  gap.p10 = sorted[tenth];
  gap.p50 = sorted[count / 2];
  gap.p90 = sorted[count - 1 - tenth];
  return gap;
}

}  // namespace

std::optional<KernelPlace> Runner::place_of(sched::LauncherId launcher) const {
  if (sched::is_program(launcher)) {
    const auto program = programs_.find(launcher.value - sched::kFirstProgram);
    if (program == programs_.end()) return std::nullopt;
    return KernelPlace{program->second.tenant + "/" + program->second.name, device(program->second.device).config.name};
  }
  const auto key = executor_keys_.find(launcher.value >> 8);
  if (key == executor_keys_.end()) return std::nullopt;
  const Executor& executor = executors_.at(key->second);
  if (executor.domain.empty()) return std::nullopt;  // it never had a run, and tells of one
  return KernelPlace{executor.domain, device(executor.device).config.name};
}

void Runner::learn(sched::LauncherId launcher, const ipc::DeviceUsed& used) {
  if (!sched::is_program(launcher)) {
    if (!used.gaps.empty()) learn_gaps(launcher, used.gaps);
    if (used.samples.empty()) return;
  }
  const auto place = place_of(launcher);
  if (!place) return;
  if (sched::is_program(launcher)) programs_with_gaps_.insert(place->owner);  // it is what launches in pieces
  profiles_.add(*place, used.samples, os::wall_seconds());
}

// Of the run that the lane has: it tells before it ends.
void Runner::learn_gaps(sched::LauncherId lane, std::span<const ipc::DeviceUsed::Gap> gaps) {
  const auto key = executor_keys_.find(lane.value >> 8);
  if (key == executor_keys_.end()) return;
  const std::set<uint64_t>& on = executors_.at(key->second).runs;
  const auto run =
      std::find_if(on.rbegin(), on.rend(), [&](uint64_t id) { return runs_.at(id).lane == (lane.value & 255); });
  if (run == on.rend()) return;
  const LiveRun& live = runs_.at(*run);
  // Of kernels that are its own: others' are not its to tell.
  std::map<uint64_t, std::vector<Duration>> seen;
  for (const auto& gap : gaps)
    if (gap.time_ns <= kNoGap && profiles_.is_of(version_of(*live.function), gap.after))
      seen[gap.after].push_back({static_cast<int64_t>(gap.time_ns)});
  const sched::DeviceId on_device{executors_.at(key->second).device};
  const sched::FunctionId function{live.function->id};
  for (auto& [after, times] : seen) feed(sched::GapsKnown{on_device, function, after, std::move(times)});
}

void Runner::complete(const LiveRun& run, const Plan& plan, ipc::PlanBinding& binding) {
  const Executor& executor = executors_.at(run.executor);
  profiles_.prepare(version_of(*run.function), {executor.domain, device(executor.device).config.name}, plan, binding);
}

Runner::FunctionName& Runner::meet(const DeployedFunction& function) {
  const auto known = function_names_.find(function.id);
  if (known != function_names_.end()) return known->second;
  return function_names_.emplace(function.id, FunctionName{function.name, function.tenant, function.version})
      .first->second;
}

void Runner::called(const DeployedFunction& function) {
  FunctionName& known = meet(function);
  known.may_have_gaps = true;
  if (!std::exchange(known.was_called, true)) bring_gaps_back(version_of(function), {function.id});
}

void Runner::bring_gaps_back(const FunctionVersion& function, sched::FunctionId id) {
  auto kept = kept_gaps_.extract(function);
  if (kept.empty()) return;
  // One that is not there now may be there again after the next start: its records stay stored.
  for (GapsRecord& record : kept.mapped())
    for (const auto& device : devices_)
      if (device->config.name == record.device)
        feed(sched::GapsKnown{{device->id}, id, record.after, std::move(record.gaps)});
}

// The same content may have been deployed again, and have another id.
void Runner::forget_profile(uint64_t function) {
  const auto gone = function_names_.find(function);
  if (gone == function_names_.end()) return;
  const auto version = [](const FunctionName& name) { return FunctionVersion{name.tenant, name.name, name.version}; };
  const FunctionVersion which = version(gone->second);
  const bool is_there_again = std::any_of(function_names_.begin(), function_names_.end(), [&](const auto& other) {
    return other.first != function && version(other.second) == which;
  });
  if (is_there_again) return;
  profiles_.forget(which);
  kept_gaps_.erase(which);
}

void Runner::remember(ProfileRecords records) {
  profiles_.load(records);
  for (GapsRecord& record : records.gaps) kept_gaps_[record.function].push_back(std::move(record));
}

ProfileRecords Runner::take_profiles() {
  ProfileRecords records = profiles_.take_changed(kMostAtOnce);
  const auto add = [&](const FunctionVersion& function, uint64_t id) {
    for (auto& seen : core_.gaps({id}))
      if (!seen.gaps.empty())
        records.gaps.push_back({function, device(seen.device.value).config.name, seen.after, std::move(seen.gaps)});
  };
  for (auto& [id, function] : function_names_) {
    if (records.gaps.size() >= kMostAtOnce) return records;
    if (std::exchange(function.may_have_gaps, false)) add({function.tenant, function.name, function.version}, id);
  }
  while (!programs_with_gaps_.empty() && records.gaps.size() < kMostAtOnce) {
    const std::string name = std::move(programs_with_gaps_.extract(programs_with_gaps_.begin()).value());
    const size_t slash = name.find('/');
    if (const auto number = program_names_.find(name); number != program_names_.end())
      add({name.substr(0, slash), name.substr(slash + 1), ""}, number->second);
  }
  return records;
}

FunctionProfile Runner::profile(const Tenant& tenant, const DeployedFunction& function) {
  const FunctionVersion version = version_of(function);
  bring_gaps_back(version, {function.id});
  FunctionProfile out{function.name, function.version, core_config_.shared_depth, {}, {}};
  std::map<uint64_t, std::string> entries;
  for (const FunctionKernelRecord& kernel : profiles_.kernels_of(version)) {
    if (kernel.kernel >= function.manifest.kernels.size()) continue;
    KernelProfile shown;
    shown.entry = function.manifest.kernels[kernel.kernel].shown();
    shown.identity = kernel.identity;
    shown.groups = kernel.groups;
    entries[kernel.identity] = shown.entry;
    const auto add = [&](const DeviceRecord* device, const KernelTimes* times) {
      KernelProfile& one = out.kernels.emplace_back(shown);
      one.reason = why_whole(function, device, kernel);
      one.sliceable = one.reason.empty();
      if (!times) return;
      one.device = device->config.name;
      show(*times, one);
      one.delays_urgent = !one.sliceable && one.launch_ns > static_cast<uint64_t>(out.bound.ns);
    };
    bool was_timed = false;
    for (const auto& device : devices_)
      if (const KernelTimes* times = profiles_.find({tenant.domain, device->config.name}, kernel.identity)) {
        add(device.get(), times);
        was_timed = true;
      }
    if (!was_timed) add(nullptr, nullptr);
  }
  for (const auto& seen : core_.gaps({function.id}))
    out.gaps.push_back(gap_of(seen, device(seen.device.value).config.name, entries));
  return out;
}

// Its kernels have no names, and whether they can be cut is its own business.
std::optional<FunctionProfile> Runner::program_profile(const Tenant& tenant, const std::string& name) {
  const std::string owner = tenant.name + "/" + name;
  FunctionProfile out{name, "", core_config_.shared_depth, {}, {}};
  for (const auto& device : devices_)
    for (const KernelRecord& kernel : profiles_.kernels_at({owner, device->config.name})) {
      KernelProfile& shown = out.kernels.emplace_back();
      shown.identity = kernel.identity;
      shown.device = device->config.name;
      shown.groups = kernel.times.groups;
      shown.reason = "a program launches it";
      show(kernel.times, shown);
    }
  const auto number = program_names_.find(owner);
  if (number == program_names_.end() && out.kernels.empty()) return std::nullopt;
  if (number != program_names_.end())
    for (const auto& seen : core_.gaps({number->second}))
      out.gaps.push_back(gap_of(seen, device(seen.device.value).config.name, {}));
  return out;
}

}  // namespace quern::daemon
