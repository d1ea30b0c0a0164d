// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace quern::os {

/// A named thread that is joined when it is destroyed. Tell its work to end first.
class Thread {
 public:
  enum class Kind : uint8_t {
    kOwn,         ///< does work of this program (own_threads)
    kForLibrary,  ///< is lent to a vendor's library, and counts as a thread of that library
  };

  Thread() = default;
  /// Returns when the thread has its name and its kind.
  Thread(std::string name, std::function<void()> work, Kind kind = Kind::kOwn);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = default;
  ~Thread() = default;

  void join();
  bool joinable() const { return thread_.joinable(); }

 private:
  std::jthread thread_;
};

/// The calling thread, and every thread it makes later, runs on these cores only.
Status pin_to(std::span<const int> cores);

/// The cores the calling thread may run on now.
std::vector<int> allowed_cores();

/// Real-time (SCHED_FIFO, lowest priority) where permitted; false where not.
bool make_realtime();

/// Back to an ordinary thread that others may share its core with.
void make_ordinary();

/// What a thread that computes for long does when it wakes up on a core that another thread is on.
enum class WorkerClass : uint8_t {
  kUrgent,      ///< as any other thread: it may take the core (SCHED_OTHER)
  kNormal,      ///< it waits for its turn, so that who launches is not interrupted by its own launch (SCHED_BATCH)
  kBestEffort,  ///< it has the core only while nobody else wants it (SCHED_IDLE)
};
/// A thread of any process; 0: this one. False if it is not permitted, or gone.
bool set_worker_class(int thread, WorkerClass to);
/// Whether a thread that was put into that class could be taken out again: without the right to, that is for good.
bool can_change_class();

/// Lets others that want this core run first.
void yield();

/// The calling thread gets little of a core that others want, for good.
void work_in_background();

/// The calling thread works little and often: it goes before those that compute for long, where the machine can tell
/// them apart (Linux 6.12; needs no right).
void want_short_turns();

/// Wake-ups by timer as exact as the machine can.
void want_exact_timers();

int thread_id();

/// The ids of all threads of this process, ascending.
std::vector<int> threads_of_process();

/// The threads of this process that do its own work: the first one and every Thread of kind kOwn. All others were
/// started by libraries.
struct OwnThreads {
  std::vector<int> ids;  ///< of those that run, ascending
  Duration ended_cpu;    ///< CPU time of those that ended
};
OwnThreads own_threads();

/// The ids of all threads of this process that are not its own, ascending.
std::vector<int> threads_of_libraries();

}  // namespace quern::os
