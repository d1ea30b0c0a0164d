// SPDX-License-Identifier: Apache-2.0
#include "daemon/state_thread.h"

#include <semaphore>
#include <utility>

namespace quern::daemon {

StateThread::StateThread(std::unique_ptr<State> state, std::vector<int> cores) : state_(std::move(state)) {
  std::binary_semaphore is_up{0};
  thread_ = os::Thread("state", [this, &is_up, cores = std::move(cores)] {
    id_ = std::this_thread::get_id();
    is_up.release();
    if (!cores.empty()) (void)os::pin_to(cores);
    work();
  });
  is_up.acquire();
}

StateThread::~StateThread() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

void StateThread::post(Job job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  filled_.notify_one();
}

void StateThread::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [&] { return is_closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job(*state_);
    job = nullptr;  // what it holds goes before the next has its turn
    lock.lock();
  }
}

}  // namespace quern::daemon
