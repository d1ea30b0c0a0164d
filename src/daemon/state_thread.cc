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
  jobs_.finish();
  thread_.join();
}

void StateThread::post(const std::string& tenant, Job job) {
  const bool is_taken = jobs_.push(tenant, std::move(job));
  QUERN_CHECK(is_taken, "the queue of the state has no limit, and is never closed");
}

void StateThread::work() {
  while (auto item = jobs_.pop()) {
    item->work(*state_);
    item->work = nullptr;  // what it holds goes before the next has its turn
    jobs_.done(item->tenant);
  }
}

}  // namespace quern::daemon
