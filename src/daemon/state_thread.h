// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "daemon/fair_queue.h"
#include "daemon/state.h"
#include "os/thread.h"

namespace quern::daemon {

/// The one thread that has the State: its records reach the disk there, and whoever asks from an event loop is told by
/// a callback. Each job has the whole state to itself. Tenants take turns, whatever number of jobs each has, and the
/// server itself (kServer) as one of them; the jobs of one tenant are done in the order in which they come. Bounded by
/// who asks: a connection has one job at a time, and so has each of the daemon's threads.
///
/// Keep jobs short: the bytes of objects are written and removed elsewhere.
class StateThread {
 public:
  using Job = std::function<void(State&)>;
  /// For jobs that are no tenant's: no tenant has this name.
  inline static const std::string kServer;

  /// `cores`: where it runs; empty: anywhere.
  StateThread(std::unique_ptr<State> state, std::vector<int> cores);
  /// What waits is done first.
  ~StateThread();

  /// Any thread. Waits for nothing.
  void post(const std::string& tenant, Job job);

  /// What `work(State&)` returns. For threads that may wait, and from within a job.
  template <class F>
  std::invoke_result_t<F, State&> ask(const std::string& tenant, F&& work) {
    if (std::this_thread::get_id() == id_) return work(*state_);
    std::promise<std::invoke_result_t<F, State&>> promise;
    auto answer = promise.get_future();
    post(tenant, [&](State& state) { promise.set_value(work(state)); });
    return answer.get();
  }

 private:
  void work();

  // The thread's own, but for who made it and has not asked yet.
  std::unique_ptr<State> state_;
  // Any thread.
  FairQueue<Job> jobs_{{SIZE_MAX, SIZE_MAX, 1}};
  // Constant after construction.
  std::thread::id id_;
  os::Thread thread_;
};

}  // namespace quern::daemon
