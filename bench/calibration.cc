// SPDX-License-Identifier: Apache-2.0
#include "bench/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/prng.h"
#include "bench/report.h"
#include "function/plan_builder.h"
#include "os/clock.h"
#include "os/thread.h"

namespace quern::bench {
namespace {

constexpr size_t kWarmUps = 20, kAlone = 120;
constexpr uint32_t kEnough = 4;  // callers that keep a device busy
constexpr Duration kBusyFor = Duration::millis(800);

Bytes made_up(Dtype dtype, uint64_t size_bytes, Prng& prng) {
  Bytes bytes(size_bytes);
  if (dtype == Dtype::kFp32) {
    for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
      const auto value = static_cast<float>(0.5 + prng.uniform());
      std::memcpy(bytes.data() + i, &value, sizeof value);
    }
  }
  return bytes;
}

double part(std::vector<double> sorted, double which) {
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(which * static_cast<double>(sorted.size())))];
}

Duration micros(double us) { return {std::max<int64_t>(0, static_cast<int64_t>(us * 1e3))}; }

}  // namespace

Result<Callee> Callee::create(Ring& ring, const std::string& folder, const std::map<std::string, int64_t>& dims) {
  QUERN_TRY(auto function, ring.deploy(folder));
  Callee callee(ring, function);
  const Manifest& manifest = function->manifest;
  Binding binding = corner_of(manifest, Corner::kDefault);
  for (size_t i = 0; i < manifest.dims.size(); ++i) {
    const auto given = dims.find(manifest.dims[i].name);
    if (manifest.dims[i].fixed || given == dims.end()) continue;
    if (given->second < manifest.dims[i].min || given->second > manifest.dims[i].max)
      return invalid(fmt::format("function {}: {} is {}; it goes from {} to {}", function->name, given->first,
                                 given->second, manifest.dims[i].min, manifest.dims[i].max));
    binding.dims[i] = given->second;
  }
  QUERN_TRY(compute_lets(manifest, binding));
  QUERN_TRY(const Plan plan, make_plan(manifest, binding));
  for (size_t i = 0; i < manifest.dims.size(); ++i)
    if (!manifest.dims[i].fixed) callee.spec_.parameters[manifest.dims[i].name] = binding.dims[i];
  Prng prng(1);
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const auto& planned = plan.buffers[i];
    if (manifest.buffers[i].role == Role::kConstant) callee.object_bytes_ += planned.size_bytes;
    if (manifest.buffers[i].role != Role::kInput) continue;
    callee.spec_.inputs.push_back({manifest.buffers[i].name, planned.dtype, planned.shape});
    callee.inputs_.push_back(made_up(planned.dtype, planned.size_bytes, prng));
  }
  callee.memory_bytes_ = plan.peak_bytes;
  return callee;
}

Result<Ring::Ended> Callee::call() const {
  std::vector<std::span<const std::byte>> inputs(inputs_.begin(), inputs_.end());
  return ring_->call(function_, spec_, inputs);
}

Result<Loop> run_loop(std::span<const Callee> callees, uint32_t clients, Duration length) {
  std::vector<std::vector<double>> micros(clients);
  std::vector<Status> ends(clients);
  const Time from = os::now(), until = from + length;
  {
    std::vector<os::Thread> threads;
    for (uint32_t i = 0; i < clients; ++i)
      threads.emplace_back("bench-client", [&, i] {
        while (os::now() < until) {
          const auto ended = callees[i % callees.size()].call();
          if (!ended.ok()) {
            ends[i] = ended.error();
            return;
          }
          micros[i].push_back(ended->micros);
        }
      });
  }
  const double took_us = micros_between(from, os::now());
  for (Status& end : ends) QUERN_TRY(std::move(end));
  std::vector<double> all;
  for (const auto& one : micros) all.insert(all.end(), one.begin(), one.end());
  return Loop{1e6 * static_cast<double>(all.size()) / took_us, part(all, 0.5), part(all, 0.95), part(all, 1)};
}

Result<Calibration> calibrate(std::span<const Callee> callees, const daemon::DeviceConfig& device, Duration started_in,
                              const std::function<void(std::string_view)>& progress) {
  Calibration result;
  result.device.name = device.name;
  result.device.memory_bytes = device.memory_bytes;
  result.device.units = static_cast<uint32_t>(std::max<size_t>(1, device.cores.size()));
  result.device.context = started_in;
  std::vector<double> launches, answers;
  for (const Callee& callee : callees) {
    progress(fmt::format("calibrate: {}", callee.name()));
    // The first call loads what the later ones find.
    const Time before = os::now();
    QUERN_TRY(callee.call());
    const double first_us = micros_between(before, os::now());
    for (size_t i = 0; i < kWarmUps; ++i) QUERN_TRY(callee.call());
    std::vector<double> alone, on_device, after, thinks;
    for (size_t i = 0; i < kAlone; ++i) {
      const Time from = os::now();
      QUERN_TRY(const auto ended, callee.call());
      const daemon::CallTimes& times = ended.call->times;
      alone.push_back(ended.micros);
      thinks.push_back(micros_between(from, os::now()) - ended.micros);
      on_device.push_back(micros_between(times.started, times.finished));
      after.push_back(micros_between(times.finished, times.answered));
    }
    QUERN_TRY(const Loop busy, run_loop({&callee, 1}, kEnough, kBusyFor));
    const double each_us = std::max(1.0, 1e6 / busy.per_second);
    const double middle = part(on_device, 0.5);
    sim::FunctionModel function;
    function.name = callee.name();
    function.device_time = micros(each_us);
    // Half of what lies between the two quarters is two thirds of a standard deviation.
    function.spread = (part(on_device, 0.75) - part(on_device, 0.25)) / 1.349 / std::max(1.0, middle);
    function.memory_bytes = callee.memory_bytes();
    result.functions.push_back(function);
    result.think.push_back(micros(part(thinks, 0.5)));
    answers.push_back(part(after, 0.5));
    launches.push_back(part(alone, 0.5) - each_us - part(after, 0.5));
    result.device.load_latency = std::max(result.device.load_latency, micros(first_us - part(alone, 0.5)));
  }
  result.device.launch = micros(part(launches, 0.5));
  result.device.answer = micros(part(answers, 0.5));
  return result;
}

std::string devices_file(const Calibration& calibration) {
  const sim::DeviceModel& device = calibration.device;
  return fmt::format(
      "# Made by quern calibrate.\ndevices:\n  - name: {}\n    units: {}\n    memory: {}B\n    context: {}\n    "
      "load_latency: {}\n    launch: {}\n    answer: {}\n",
      device.name, device.units, device.memory_bytes, to_string(device.context), to_string(device.load_latency),
      to_string(device.launch), to_string(device.answer));
}

std::string workload_file(const Calibration& calibration) {
  std::string text =
      "# Made by quern calibrate: change who calls, and how often.\ntenants:\n  - {name: default}\nfunctions:\n";
  for (const sim::FunctionModel& function : calibration.functions)
    text += fmt::format("  - {{name: {}, tenant: default, device_time: {}, spread: {:.3f}, memory: {}B}}\n",
                        function.name, to_string(function.device_time), function.spread, function.memory_bytes);
  text += "loads:\n";
  for (size_t i = 0; i < calibration.functions.size(); ++i)
    text += fmt::format("  - {{function: {}, closed: {{clients: 1, think: {}}}}}\n", calibration.functions[i].name,
                        to_string(calibration.think[i]));
  return text + "length: 10s\n";
}

}  // namespace quern::bench
