// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "hal/opencl/api.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::hal::opencl {

/// A thread that waits inside the driver while a queue has work, so that the driver computes on it
/// (Traits::waiting_thread_computes). It belongs to one queue and counts as a thread of the driver: its CPU time is
/// device time, and its class is that of a worker.
///
/// Without it a lane would have to wait in the driver, would execute kernels of other lanes there, and would return
/// when these end instead of when its own did. Any thread may call it.
class WaitingThread {
 public:
  WaitingThread(const Api& api, cl_command_queue queue);
  /// Waits until all that was submitted to the queue has ended.
  ~WaitingThread();

  int id() const { return id_; }
  /// The queue has work: the thread waits in the driver until all of it has ended.
  void wake();
  /// Runs `work` on the thread, and returns when that is done. Not while the queue has work that may never end.
  void run(const std::function<void()>& work);

 private:
  void serve();

  // Constant after construction.
  const Api& api_;
  cl_command_queue queue_;
  std::atomic<int> id_{0};
  // Each guards itself.
  std::atomic<uint64_t> asked_{0}, done_{0};  // counts of wake-ups: asked for, and over
  std::atomic<bool> is_over_{false};
  os::Guarded<const std::function<void()>*> work_;
  os::Thread thread_;
};

}  // namespace quern::hal::opencl
