// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace quern::os {

/// A named thread that is joined when it is destroyed. Tell its work to end first.
class Thread {
 public:
  Thread() = default;
  Thread(std::string name, std::function<void()> work);
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

/// A thread of any process that runs only where nobody else wants the core (SCHED_IDLE), or is ordinary again. False if
/// it is not permitted, or gone.
bool set_idle_class(int thread, bool idle);
/// Whether a thread that was put into that class could be taken out again: without the right to, that is for good.
bool can_change_class();

/// Lets others that want this core run first.
void yield();

/// The calling thread works little and often: it goes before those that compute for long, where the machine can tell
/// them apart (Linux 6.12; needs no right).
void want_short_turns();

/// Wake-ups by timer as exact as the machine can.
void want_exact_timers();

int thread_id();

/// The ids of all threads of this process, ascending.
std::vector<int> threads_of_process();

}  // namespace quern::os
