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
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>

#include "os/clock.h"
#include "os/guarded.h"

namespace quern::os {

namespace {

Guarded<OwnThreads>& registry() {
  static auto& threads = *new Guarded<OwnThreads>(OwnThreads{{getpid()}, {}});  // outlives threads that end late
  return threads;
}

void begin_own(int id) {
  registry().with([&](OwnThreads& own) { own.ids.insert(std::lower_bound(own.ids.begin(), own.ids.end(), id), id); });
}

void end_own(int id) {
  registry().with([&](OwnThreads& own) {
    own.ended_cpu = own.ended_cpu + cpu_time_of_thread(id);
    std::erase(own.ids, id);
  });
}

}  // namespace

Thread::Thread(std::string name, std::function<void()> work, Kind kind) {
  auto is_ready = std::make_shared<std::atomic<bool>>(false);
  thread_ = std::jthread([name = std::move(name), work = std::move(work), kind, is_ready] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    const int id = thread_id();
    if (kind == Kind::kOwn) begin_own(id);
    is_ready->store(true);
    is_ready->notify_one();
    work();
    if (kind == Kind::kOwn) end_own(id);
  });
  is_ready->wait(false);
}

OwnThreads own_threads() {
  return registry().with([](const OwnThreads& own) { return own; });
}

std::vector<int> threads_of_libraries() {
  const auto all = threads_of_process();
  const auto own = own_threads();
  std::vector<int> others;
  std::set_difference(all.begin(), all.end(), own.ids.begin(), own.ids.end(), std::back_inserter(others));
  return others;
}

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

int thread_id() {
  static thread_local const int id = static_cast<int>(syscall(SYS_gettid));
  return id;
}

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
