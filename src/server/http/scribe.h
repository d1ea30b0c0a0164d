// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "os/thread.h"

namespace quern::server {

/// Reads and writes the JSON of large calls on a thread of its own, so that no event loop does.
///
/// Tenants take turns, whatever number of jobs each has, and so do the jobs of a tenant. Answers are written in pieces
/// of some milliseconds: after each piece the next job has its turn, so that a caller with a short answer does not wait
/// for one with a long answer. A request is read in one piece, which takes up to some 0.3 s for 64 MiB. There are at
/// most as many jobs as connections: each connection has one.
class Scribe {
 public:
  /// Does a piece of the work. True if there is more.
  using Job = std::function<bool()>;

  /// `before_job`: see ServerConfig::before_json.
  explicit Scribe(std::function<void()> before_job = {});
  /// Whoever waits for a job has to be gone.
  ~Scribe();

  /// Any thread.
  void add(const std::string& tenant, Job job);

 private:
  void work();
  /// With mutex_ held.
  void put(const std::string& tenant, Job job);

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable filled_;
  std::map<std::string, std::deque<Job>> jobs_;  ///< none empty
  std::deque<std::string> turns_;                ///< the tenants of jobs_
  bool is_closed_ = false;

  const std::function<void()> before_job_;
  os::Thread thread_;
};

}  // namespace quern::server
