// SPDX-License-Identifier: Apache-2.0
#include "server/http/scribe.h"

#include <utility>

namespace quern::server {

Scribe::Scribe(std::function<void()> before_job)
    : before_job_(std::move(before_job)), thread_("scribe", [this] { work(); }) {}

Scribe::~Scribe() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

void Scribe::add(const std::string& tenant, Job job) {
  {
    std::lock_guard lock(mutex_);
    put(tenant, std::move(job));
  }
  filled_.notify_one();
}

void Scribe::put(const std::string& tenant, Job job) {
  std::deque<Job>& jobs = jobs_[tenant];
  if (jobs.empty()) turns_.push_back(tenant);
  jobs.push_back(std::move(job));
}

void Scribe::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [&] { return is_closed_ || !turns_.empty(); });
    if (turns_.empty()) return;
    const std::string tenant = std::move(turns_.front());
    turns_.pop_front();
    const auto jobs = jobs_.find(tenant);
    Job job = std::move(jobs->second.front());
    jobs->second.pop_front();
    if (jobs->second.empty())
      jobs_.erase(jobs);
    else
      turns_.push_back(tenant);
    lock.unlock();
    if (before_job_) before_job_();
    const bool has_more = job();
    lock.lock();
    if (has_more) put(tenant, std::move(job));
  }
}

}  // namespace quern::server
