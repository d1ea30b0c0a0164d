// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hal/device.h"
#include "hal/driver.h"
#include "hal/opencl/api.h"
#include "hal/opencl/traits.h"
#include "hal/opencl/worker_meter.h"
#include "os/guarded.h"

namespace quern::hal::opencl {

/// A number that the device tells; 0 if it does not.
template <class T>
T device_number(const Api& api, cl_device_id id, cl_device_info what) {
  T value{};
  return api.GetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

/// A text of it, without blanks at its end; empty if it does not.
std::string device_text(const Api& api, cl_device_id id, cl_device_info what);

/// CL_PLATFORM_NAME.
std::string name_of_platform(const Api& api, cl_platform_id platform);
/// That of the device's platform.
std::string platform_of(const Api& api, cl_device_id id);

/// The row of the device's driver.
const Traits& traits_of(const Api& api, cl_device_id id);

/// Whether the device's own clock can be asked (clGetDeviceAndHostTimer).
bool has_timer(const Api& api, cl_device_id id);

/// What the device says of itself; `memory_bytes` is the operator's word, or 0.
Result<Caps> caps_of(const Api& api, cl_device_id id, uint64_t memory_bytes);

/// The device as enumeration shows it; a device that cannot be used has an error. Its index is the caller's to set.
Found found_of(const Api& api, cl_device_id id);

class OpenclTimeline;

class OpenclDevice final : public Device {
 public:
  /// Some of its units, as a device of the same context.
  struct Partition {
    uint32_t units = 0, first = 0;
    Handle<cl_device_id> id;
  };
  struct Setup {
    Api api;
    cl_device_id id = nullptr;
    std::vector<Partition> partitions;
    Handle<cl_context> context;
    Caps caps;
    std::vector<int> threads_before;  // of libraries, before the driver was called: none of its workers
    std::vector<Size3> group_sizes;
    std::string cache_folder;
    Traits traits;  // traits_of its driver
  };
  explicit OpenclDevice(Setup setup);

  const Caps& caps() const override { return caps_; }
  Result<std::shared_ptr<Buffer>> allocate(uint64_t size_bytes) override;
  Result<std::shared_ptr<Buffer>> import(std::span<std::byte> range, bool writable) override;
  Result<std::shared_ptr<Buffer>> view(const std::shared_ptr<Buffer>& whole, uint64_t offset,
                                       uint64_t size_bytes) override;
  Result<std::unique_ptr<Program>> build(const Source& source) override;
  Result<std::unique_ptr<Program>> load(std::span<const std::byte> binary) override;
  using Device::create_queue;
  Result<std::unique_ptr<Queue>> create_queue(uint32_t units, uint32_t first) override;
  Status on_each_worker(const std::function<void()>& work) override;
  /// All that the driver has started by now: some start their workers late.
  std::vector<int> worker_threads() const override;

  const Api& api() const { return api_; }
  cl_device_id id() const { return id_; }
  cl_context context() const { return context_.get(); }
  const Traits& traits() const { return traits_; }
  /// The device's clock now, the one that stamps commands; nothing if it cannot be asked.
  std::optional<int64_t> timer_ns() const;
  /// Whether device time is the CPU time of workers.
  bool is_metered() const { return caps_.timestamps == Timestamps::kWall; }
  WorkerMeter& meter() { return meter_; }
  /// The timelines of all queues, as long as they live: CPU time is settled with all of them.
  void add(OpenclTimeline& timeline);
  void remove(OpenclTimeline& timeline);
  void settle();
  void give_back(uint64_t bytes) { used_bytes_ -= bytes; }

 private:
  friend class OpenclProgram;

  // Constant after construction.
  Api api_;
  cl_device_id id_;
  std::vector<Partition> partitions_;  // by size; they outlive the context
  Handle<cl_context> context_;
  Caps caps_;
  std::vector<int> threads_before_;
  std::vector<Size3> group_sizes_;
  std::string cache_folder_;
  Traits traits_;
  bool has_timer_;
  // Each guards itself.
  WorkerMeter meter_;
  os::Guarded<std::vector<OpenclTimeline*>> timelines_;
  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> buffers_made_{0};
  os::Guarded<std::map<std::string, uint64_t>> unpacked_;  // code files of this process, with their sizes
};

}  // namespace quern::hal::opencl
