// SPDX-License-Identifier: Apache-2.0
#include "bench/grind_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "bench/report.h"
#include "hal/opencl/opencl_driver.h"
#include "os/file.h"

namespace quern::bench {
namespace {

constexpr double kGroupNs = 5000;
constexpr size_t kMarkBytes = GrindDevice::kMostGroups * sizeof(uint32_t);
constexpr hal::Size3 kLocal{1, 1, 1};

}  // namespace

void become_launch_thread(int core) {
  const std::array cores{core};
  (void)os::pin_to(cores);
  os::want_exact_timers();
  os::want_short_turns();
}

Result<std::unique_ptr<GrindDevice>> GrindDevice::open(const Layout& layout, const std::string& folder) {
  std::unique_ptr<GrindDevice> self(new GrindDevice);
  self->core_ = layout.device;
  QUERN_TRY(self->driver_, hal::opencl::create_driver());
  hal::DeviceOptions options;
  options.cores = {layout.device};
  options.cache_folder = folder;
  options.group_sizes = {kLocal};
  QUERN_TRY(self->device_, self->driver_->open(options));
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  if (!self->device_->caps().unified_memory || !self->device_->caps().launch_offset)
    return unsupported("the device shares no memory with the host, or launches at no offset");
  QUERN_TRY(self->build());
  self->thread_ = os::Thread("bench-launch", [device = self.get()] { device->work(); });
  QUERN_TRY(self->on_launch_thread([&] { return self->calibrate(); }));
  return self;
}

GrindDevice::~GrindDevice() {
  work_ = nullptr;
  begin_.release();
}

// By way of a binary, as executors get it: what is loaded from one never compiles.
Status GrindDevice::build() {
  QUERN_TRY(const std::string functions, functions_folder());
  QUERN_TRY(const Bytes text, os::read_file(functions + "/grind/grind.cl", 1 << 20));
  hal::Source source;
  source.text = as_text(text);
  source.group_sizes = {kLocal};
  QUERN_TRY(auto built, device_->build(source));
  QUERN_TRY(binary_, built->binary());
  built.reset();
  QUERN_TRY(program_, device_->load(binary_));
  QUERN_TRY(const os::Fd fd, os::create_shared_memory("quern-bench-grind", kMarkBytes));
  QUERN_TRY(memory_, os::map(fd, kMarkBytes, true));
  QUERN_TRY(marks_, device_->import(memory_.bytes(), true));
  return {};
}

Status GrindDevice::calibrate() {
  constexpr uint64_t kGroups = 200;
  constexpr int kLaunches = 15, kTries = 3;
  QUERN_TRY(auto queue, device_->create_queue());
  QUERN_TRY(auto kernel, program_->create_kernel("grind"));
  // The first launch at 0 and the first at another place load their code.
  QUERN_TRY(launch(*queue, *kernel, 0, 1));
  QUERN_TRY(launch(*queue, *kernel, 1, 1));
  iterations_ = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0)
      iterations_ = static_cast<uint32_t>(std::clamp(std::round(iterations_ * kGroupNs / group_ns_), 1.0, 1e9));
    std::vector<double> each;
    for (int j = 0; j < kLaunches; ++j) {
      QUERN_TRY(const uint64_t point, launch(*queue, *kernel, 0, kGroups));
      QUERN_TRY(queue->timeline().wait(point, Duration::forever()));
      const auto time = queue->timing(point);
      if (!time) return internal("grind: a launch that ended has no time");
      each.push_back(static_cast<double>(std::max<int64_t>(1, time->end_ns - time->start_ns)) / kGroups);
    }
    group_ns_ = middle_of(each).median;
  }
  return {};
}

void GrindDevice::work() {
  become_launch_thread(core_);
  for (;;) {
    begin_.acquire();
    if (!work_) return;
    status_ = (*work_)();
    end_.release();
  }
}

Status GrindDevice::on_launch_thread(const std::function<Status()>& work) {
  work_ = &work;
  begin_.release();
  end_.acquire();
  return std::exchange(status_, {});
}

Result<uint64_t> GrindDevice::launch(hal::Queue& queue, hal::Kernel& kernel, uint64_t first, uint64_t groups) const {
  const std::array<hal::Argument, 3> arguments{marks_.get(), Scalar{Dtype::kUint32, iterations_},
                                               Scalar{Dtype::kUint32, 1}};
  hal::Launch what;
  what.kernel = &kernel;
  what.arguments = arguments;
  what.offset[0] = first;
  what.global[0] = groups;
  what.local = kLocal;
  return queue.launch(what);
}

uint64_t GrindDevice::groups_for(double us) const {
  return static_cast<uint64_t>(std::clamp(std::round(us * 1e3 / group_ns_), 1.0, 1.0 * kMostGroups));
}

void GrindDevice::clear_marks() { std::memset(memory_.data(), 0, kMarkBytes); }

Status GrindDevice::check_marks(uint64_t groups) const {
  const auto* marks = reinterpret_cast<const uint32_t*>(memory_.data());
  const auto* missing = std::find(marks, marks + groups, 0U);
  if (missing == marks + groups) return {};
  return internal(fmt::format("grind: group {} of {} was not executed", missing - marks, groups));
}

}  // namespace quern::bench
