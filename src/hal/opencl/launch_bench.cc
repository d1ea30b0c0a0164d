// SPDX-License-Identifier: Apache-2.0
//
// What a launch through the HAL costs against the same launch by raw OpenCL with a profiling event, read and released:
// interleaved rounds, so that a machine that changes its speed changes both. Goal: 1.15.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

#include "hal/opencl/api.h"
#include "hal/opencl/opencl_buffer.h"
#include "hal/opencl/opencl_device.h"
#include "hal/opencl/opencl_driver.h"
#include "hal/opencl/opencl_program.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/thread.h"

namespace quern::hal::opencl {
namespace {

constexpr const char* kSource = "kernel void nothing(global int* a, global int* b, int c, int d) {}";
constexpr int kBatch = 64, kBatches = 40, kRounds = 15;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The CPU time of host and workers: it does not count the neighbours on a busy machine.
int64_t cpu_ns() {
  int64_t sum = 0;
  for (int thread : os::threads_of_process()) sum += os::cpu_time_of_thread(thread).ns;
  return sum;
}

struct Cost {
  double wall_us, cpu_us;
};

// Per launch, with one wait per `batch` launches.
template <class L, class F>
Cost measure(int batch, int batches, L launch, F finish) {
  const int64_t cpu_before = cpu_ns();
  const Time before = os::now();
  for (int i = 0; i < batches; ++i) {
    for (int j = 0; j < batch; ++j) launch(i);
    finish();
  }
  const double launches = batch * batches;
  return {static_cast<double>((os::now() - before).ns) / 1000 / launches,
          static_cast<double>(cpu_ns() - cpu_before) / 1000 / launches};
}

Status run() {
  char folder[] = "/tmp/quern-bench-XXXXXX";
  if (!mkdtemp(folder)) return internal("no folder");
  QUERN_TRY(auto driver, create_driver());
  DeviceOptions options;
  options.cache_folder = std::string(folder) + "/cache";
  options.group_sizes = {{64, 1, 1}};
  if (const char* core = getenv("QUERN_BENCH_CORE")) options.cores = {atoi(core)};
  QUERN_TRY(auto opened, driver->open(options));
  auto& device = static_cast<OpenclDevice&>(*opened);
  QUERN_TRY(auto built, device.build({kSource, "", {{64, 1, 1}}}));
  QUERN_TRY(auto binary, built->binary());
  built.reset();
  const Time before_load = os::now();
  QUERN_TRY(auto program, device.load(binary));
  fmt::print("load: {} bytes, {:.2f} ms\n", binary.size(), static_cast<double>((os::now() - before_load).ns) / 1e6);
  QUERN_TRY(auto ours, program->create_kernel("nothing"));
  QUERN_TRY(auto theirs, program->create_kernel("nothing"));
  QUERN_TRY(auto a, device.allocate(4096));
  QUERN_TRY(auto b, device.allocate(4096));
  QUERN_TRY(auto queue, device.create_queue());

  const Api& api = device.api();
  cl_int code = 0;
  Handle<cl_command_queue> raw(api.CreateCommandQueue(device.context(), device.id(), CL_QUEUE_PROFILING_ENABLE, &code),
                               api.ReleaseCommandQueue);
  const cl_kernel kernel = static_cast<OpenclKernel&>(*theirs).object();
  const cl_mem objects[] = {static_cast<OpenclBuffer&>(*a).object(), static_cast<OpenclBuffer&>(*b).object()};
  const cl_int one = 1;
  api.SetKernelArg(kernel, 0, sizeof(cl_mem), &objects[0]);
  api.SetKernelArg(kernel, 1, sizeof(cl_mem), &objects[1]);
  api.SetKernelArg(kernel, 2, sizeof one, &one);
  api.SetKernelArg(kernel, 3, sizeof one, &one);
  std::vector<cl_event> events;
  const auto raw_launch = [&](int) {
    const size_t global = 64, local = 64;
    cl_event event = nullptr;
    api.EnqueueNDRangeKernel(raw.get(), kernel, 1, nullptr, &global, &local, 0, nullptr, &event);
    events.push_back(event);
  };
  const auto raw_finish = [&] {
    api.Finish(raw.get());
    for (auto event : events) {
      cl_ulong times[2];
      api.GetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof times[0], &times[0], nullptr);
      api.GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof times[1], &times[1], nullptr);
      api.ReleaseEvent(event);
    }
    events.clear();
  };
  uint64_t last = 0;
  const Scalar scalar = *scalar_of(Dtype::kInt32, int64_t{1});
  const Argument arguments[] = {a.get(), b.get(), scalar, scalar};
  const auto our_launch = [&](int) {
    last = *queue->launch({.kernel = ours.get(), .arguments = arguments, .global = {64, 1, 1}, .local = {64, 1, 1}});
  };
  const auto our_finish = [&] { (void)queue->timeline().wait(last, Duration::forever()); };
  const auto our_limited = [&] { (void)queue->timeline().wait(last, Duration::seconds(10)); };

  struct Row {
    const char* name;
    int batch, batches;
  };
  for (const Row& row : {Row{"64 launches, one wait", kBatch, kBatches}, Row{"launch and wait", 1, 400}}) {
    std::vector<double> walls[3], cpus[3], wall_ratios[3], cpu_ratios[3];
    for (int round = 0; round < kRounds; ++round) {
      const Cost costs[] = {measure(row.batch, row.batches, raw_launch, raw_finish),
                            measure(row.batch, row.batches, our_launch, our_finish),
                            measure(row.batch, row.batches, our_launch, our_limited)};
      for (int i = 0; i < 3; ++i) {
        walls[i].push_back(costs[i].wall_us), cpus[i].push_back(costs[i].cpu_us);
        wall_ratios[i].push_back(costs[i].wall_us / costs[0].wall_us);
        cpu_ratios[i].push_back(costs[i].cpu_us / costs[0].cpu_us);
      }
    }
    const char* const names[] = {"raw OpenCL", "hal, wait", "hal, wait with a limit"};
    for (int i = 0; i < 3; ++i)
      fmt::print("{:22} {:24} wall {:6.2f} us ({:.2f})   cpu {:6.2f} us ({:.2f})\n", row.name, names[i],
                 median(walls[i]), median(wall_ratios[i]), median(cpus[i]), median(cpu_ratios[i]));
  }
  os::remove_tree(folder);
  return {};
}

}  // namespace
}  // namespace quern::hal::opencl

int main() {
  const auto status = quern::hal::opencl::run();
  if (!status.ok()) fmt::print("{}\n", status.error().text);
  return status.ok() ? 0 : 1;
}
