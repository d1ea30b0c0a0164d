// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/waiting_thread.h"

namespace quern::hal::opencl {

WaitingThread::WaitingThread(const Api& api, cl_command_queue queue) : api_(api), queue_(queue), work_(nullptr) {
  thread_ = os::Thread(
      "opencl-wait", [this] { serve(); }, os::Thread::Kind::kForLibrary);
  id_.wait(0);
}

WaitingThread::~WaitingThread() {
  is_over_ = true;
  wake();
  thread_.join();
}

void WaitingThread::wake() {
  asked_.fetch_add(1, std::memory_order_release);
  asked_.notify_one();
}

void WaitingThread::run(const std::function<void()>& work) {
  work_.with([&](auto& mine) { mine = &work; });
  const uint64_t mine = asked_.fetch_add(1, std::memory_order_release) + 1;
  asked_.notify_one();
  for (uint64_t done = done_.load(); done < mine; done = done_.load()) done_.wait(done);
}

void WaitingThread::serve() {
  id_ = os::thread_id();
  id_.notify_one();
  for (uint64_t done = 0; !is_over_;) {
    asked_.wait(done, std::memory_order_acquire);
    done = asked_.load(std::memory_order_acquire);
    if (const auto* work = work_.with([](auto& mine) { return std::exchange(mine, nullptr); })) (*work)();
    api_.Finish(queue_);  // what became of the commands their events tell
    done_.store(done, std::memory_order_release);
    done_.notify_all();
  }
}

}  // namespace quern::hal::opencl
