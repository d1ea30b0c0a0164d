// SPDX-License-Identifier: Apache-2.0
#include "os/thread.h"

#include <dirent.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace quern::os {

Thread::Thread(std::string name, std::function<void()> work)
    : thread_([name = std::move(name), work = std::move(work)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        work();
      }) {}

void Thread::join() {
  if (thread_.joinable()) thread_.join();
}

Status pin_to(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE) return invalid(fmt::format("core {}: does not exist", core));
    CPU_SET(core, &set);
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    return invalid(fmt::format("cores {}: {}; name cores this machine has", fmt::join(cores, ","), strerror(errno)));
  return {};
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

bool make_realtime() {
  sched_param param{};
  param.sched_priority = sched_get_priority_min(SCHED_FIFO);
  // Children start as ordinary processes: only this thread decides for others.
  return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
}

void make_ordinary() {
  const sched_param param{};
  sched_setscheduler(0, SCHED_OTHER, &param);
}

bool set_worker_class(int thread, WorkerClass to) {
  const sched_param param{};
  const int policy = to == WorkerClass::kBestEffort ? SCHED_IDLE
                     : to == WorkerClass::kNormal   ? SCHED_BATCH
                                                    : SCHED_OTHER;
  return sched_setscheduler(thread, policy, &param) == 0;
}

bool can_change_class() {
  bool can = false;
  std::thread trial(
      [&] { can = set_worker_class(0, WorkerClass::kBestEffort) && set_worker_class(0, WorkerClass::kUrgent); });
  trial.join();
  return can;
}

void work_in_background() { (void)setpriority(PRIO_PROCESS, 0, 10); }  // on Linux that of a thread

void yield() { sched_yield(); }

void want_short_turns() {
  // As linux/sched/types.h has it; the C library does not.
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.runtime = 100'000;  // the shortest there is
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void want_exact_timers() { prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); }

int thread_id() { return static_cast<int>(syscall(SYS_gettid)); }

std::vector<int> threads_of_process() {
  std::vector<int> ids;
  if (DIR* folder = opendir("/proc/self/task")) {
    while (dirent* entry = readdir(folder))
      if (int id = std::atoi(entry->d_name); id > 0) ids.push_back(id);
    closedir(folder);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace quern::os
