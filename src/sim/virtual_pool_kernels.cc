// SPDX-License-Identifier: Apache-2.0
//
// Devices that have kernels: from runs and programs to what their launchers have to do, and back to what the core hears
// of. And what launchers say of their use, on devices that have none.
#include <algorithm>
#include <utility>

#include "sim/draws.h"
#include "sim/virtual_pool.h"

namespace quern::sim {
namespace {

std::vector<Duration> divide(Duration work, const FunctionModel* function) {
  if (!function || function->kernels.empty()) return {std::max(work, Duration{1})};
  double all = 0;
  for (const Duration kernel : function->kernels) all += static_cast<double>(kernel.ns);
  std::vector<Duration> kernels;
  kernels.reserve(function->kernels.size());
  for (const Duration kernel : function->kernels)
    kernels.push_back(whole_duration(static_cast<double>(work.ns) * (static_cast<double>(kernel.ns) / all)));
  return kernels;
}

}  // namespace

void VirtualPool::begin_kernels(Time now, Device& device, const sched::Run& action, const Run& run, Duration work,
                                const FunctionModel* function) {
  KernelDevice::Work kernels;
  kernels.kernels = divide(work, function);
  kernels.units = action.units;
  kernels.first_unit = action.first_unit;
  kernels.ready = run.ready;
  kernels.belief = draw_belief(run.device);
  if (function) {
    kernels.sliceable = function->sliceable;
    kernels.speeds = function->speeds;
    kernels.partition = function;  // its lanes share what it has
  }
  device.kernels->begin(now, launcher_of(action.run.value, run), kernels);
}

void VirtualPool::begin_kernels(Time now, Device& device, sched::LauncherId id, const Program& program,
                                const std::vector<Duration>& kernels, double belief) {
  const ProgramModel& model = *program.model;
  // As many as the core takes it for.
  const uint64_t units = uint64_t{device.kernels->units()} * std::min(model.quota.units, 1000U) / 1000;
  KernelDevice::Work work;
  work.kernels = kernels;
  work.sliceable = model.sliceable;
  work.units = std::max(1U, static_cast<uint32_t>(units));
  work.speeds = model.speeds;
  work.ready = now;
  work.belief = belief;
  device.kernels->begin(now, id, work);
}

double VirtualPool::draw_belief(size_t device) {
  if (!devices_[device].kernels) return 1;
  if (faults_.strikes(Fault::kNewKernel)) return 0;
  if (!faults_.strikes(Fault::kWrongProfile)) return 1;
  return faults_.draw_below(2) == 0 ? 0.1 : 10;
}

Time VirtualPool::clock(size_t device, Time now) const {
  const auto& kernels = devices_[device].kernels;
  return kernels ? kernels->clock(now) : now;
}

void VirtualPool::ignore_gate(Time now, sched::LauncherId id) {
  Program& program = programs_.at(id.value);
  Device& device = devices_[program.device];
  program.gate.is_ignored = true;
  if (device.kernels)
    device.kernels->ignore_gate(now, id);
  else
    arbitrate(now, device);
}

std::optional<uint64_t> VirtualPool::run_in(const Device& device, sched::LauncherId lane) {
  const auto found = std::find_if(device.runs.begin(), device.runs.end(), [&](uint64_t id) {
    const Run* run = find(id);
    return run && launcher_of(id, *run) == lane;
  });
  return found == device.runs.end() ? std::nullopt : std::optional(*found);
}

void VirtualPool::kernels_happen(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard) {
  using What = KernelDevice::Told::What;
  Device& device = devices_[entry.a];
  told_.clear();
  device.kernels->happen(now, entry.b, told_);
  for (const KernelDevice::Told& told : told_) {
    if (!sched::is_program(told.launcher)) {
      heard_of_lane(now, device, told, heard);
      continue;
    }
    switch (told.what) {
      case What::kStarted:
        programs_.at(told.launcher.value).started = device.kernels->clock(now);
        break;
      case What::kUsed:
        heard.push_back(sched::DeviceUsed{told.launcher, told.time});
        break;
      case What::kWaits:
        heard.push_back(sched::WorkReady{told.launcher, told.kernels, false});
        break;
      case What::kEnded:
        ended_.push_back(told.launcher);
        break;
    }
  }
}

void VirtualPool::heard_of_lane(Time now, Device& device, const KernelDevice::Told& told,
                                std::vector<sched::Event>& heard) {
  using What = KernelDevice::Told::What;
  const auto id = run_in(device, told.launcher);
  if (!id) return;
  Run& run = *runs_.find(*id);
  const uint64_t executor = run.executor;
  switch (told.what) {
    case What::kStarted:
      run.is_started = true;
      run.started = device.kernels->clock(now);
      return tell(now, executor, sched::Started{sched::RunId{*id}}, {0}, heard);
    case What::kUsed:
      return tell(now, executor, sched::DeviceUsed{told.launcher, told.time}, {0}, heard);
    case What::kWaits:
      return tell(now, executor, sched::WorkReady{told.launcher, told.kernels, false}, {0}, heard);
    case What::kEnded: {
      sched::Finished ended{.run = sched::RunId{*id}, .failed = told.flag || run.is_failed};
      ended.device_time = told.time;
      ended.started = run.started;
      ended.ends_executor = run.ends_executor;
      remove_run(device, *id);
      tell_end(now, executor, ended, device.model->answer, heard);
    }
  }
}

// Without kernels, what is on the device is one launch, also when it comes back after its gate was closed.
sched::Flight VirtualPool::flight(uint64_t index) {
  Device& device = devices_[index];
  sched::Flight flight{sched::DeviceId{index + 1}, {}};
  if (device.kernels) {
    for (const KernelDevice::InFlight& one : device.kernels->in_flight())
      if (const auto id = run_in(device, one.lane))
        flight.launches.push_back({sched::RunId{*id}, one.number, one.since, one.used});
  } else if (device.running && *device.running < sched::kFirstProgram) {
    const Run& run = *find(*device.running);
    flight.launches.push_back(
        {sched::RunId{*device.running}, static_cast<uint64_t>(run.on_since.ns) + 1, run.on_since, run.used});
  }
  return flight;
}

bool VirtualPool::is_metered(sched::LauncherId launcher) {
  const Gate* gate = find_gate(launcher).first;
  return gate && gate->meters;
}

void VirtualPool::meters(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard) {
  const sched::LauncherId launcher{entry.a};
  const auto [gate, device] = find_gate(launcher);
  if (!gate) return;
  const auto id = run_in(*device, launcher);
  if (!id) return;
  Run& run = *find(*id);
  if (entry.b != 0 && entry.b != run.times) return;
  if (run.is_hung) return;  // what is read at the end of kernels is never read
  const bool is_on = device->running == *id;
  const Duration used = is_on ? run.used + (now - run.on_since) : run.used;
  if (used > run.told) {
    const sched::DeviceUsed event{launcher, used - std::exchange(run.told, used)};
    if (run.executor != 0) {
      tell(now, run.executor, event, {0}, heard);
    } else {
      Program& program = programs_.at(*id);
      program.told = program.told + event.device_time;
      heard.push_back(event);
    }
  }
  // Of two that look after it the one before this ends here.
  if (is_on && gate->meters) agenda_.put(now + kMeterEvery, Agenda::Kind::kMeters, entry.a, ++run.times);
}

}  // namespace quern::sim
