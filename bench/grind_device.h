// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "bench/stage.h"
#include "hal/driver.h"
#include "hal/opencl/opencl_device.h"
#include "os/shared_memory.h"
#include "os/thread.h"

namespace quern::bench {

/// What the thread of a lane does first, on the core of its device.
void become_launch_thread(int core);

/// A device of this process with the kernel of bench/functions/grind on it, and a launch thread as executors have them:
/// on the device's core, beside the vendor's worker. A group of the kernel takes 5 us, as it was when it was opened.
class GrindDevice {
 public:
  static constexpr uint64_t kMostGroups = 16384;  ///< of one kernel

  /// Starts the vendor's library, which reads its variables then: once per process, before any thread. Leaves the
  /// calling thread on the host's core. `folder` is where code is kept.
  static Result<std::unique_ptr<GrindDevice>> open(const Layout& layout, const std::string& folder);
  ~GrindDevice();

  /// Does `work` on the launch thread, and waits for it. One thread at a time.
  Status on_launch_thread(const std::function<Status()>& work);

  /// Groups [first, first + groups) of a kernel on all of them; its point. The launch thread, as all that submits.
  Result<uint64_t> launch(hal::Queue& queue, hal::Kernel& kernel, uint64_t first, uint64_t groups) const;

  /// As many as take this long, at least one.
  uint64_t groups_for(double us) const;
  double group_ns() const { return group_ns_; }
  uint32_t iterations() const { return iterations_; }

  void clear_marks();
  /// kInternal if one of the first `groups` was not executed since they were cleared.
  Status check_marks(uint64_t groups) const;

  hal::opencl::OpenclDevice& device() { return static_cast<hal::opencl::OpenclDevice&>(*device_); }
  hal::Program& program() { return *program_; }
  hal::Buffer& marks() { return *marks_; }
  /// What Device::load takes.
  const Bytes& binary() const { return binary_; }
  int core() const { return core_; }

 private:
  GrindDevice() = default;
  Status build();
  Status calibrate();
  void work();

  // Constant once it is open.
  int core_ = 0;
  std::unique_ptr<hal::Driver> driver_;
  std::unique_ptr<hal::Device> device_;
  Bytes binary_;
  std::unique_ptr<hal::Program> program_;
  os::Mapping memory_;
  std::shared_ptr<hal::Buffer> marks_;
  uint32_t iterations_ = 1;
  double group_ns_ = 0;
  // The launch thread's between begin and end, else the caller's.
  std::binary_semaphore begin_{0}, end_{0};
  const std::function<Status()>* work_ = nullptr;  ///< null: it is to end
  Status status_;
  os::Thread thread_;  // last: joined first
};

}  // namespace quern::bench
