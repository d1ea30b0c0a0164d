// SPDX-License-Identifier: Apache-2.0
#include "server/http/scribe.h"

#include <utility>

namespace quern::server {

Scribe::Scribe() : thread_("scribe", [this] { work(); }) {}

Scribe::~Scribe() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

void Scribe::add(Job job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  filled_.notify_one();
}

void Scribe::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [&] { return is_closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const bool has_more = job();
    lock.lock();
    if (has_more) jobs_.push_back(std::move(job));
  }
}

}  // namespace quern::server
