// SPDX-License-Identifier: Apache-2.0
#include "os/thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "os/clock.h"

namespace quern::os {
namespace {

bool holds(const std::vector<int>& ids, int id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

TEST(OwnThreads, AreTheFirstAndThoseOfOurKind) {
  std::atomic<bool> over{false};
  std::atomic<int> own_id{0}, lent_id{0};
  const auto work = [&](std::atomic<int>& id) {
    id = thread_id();
    id.notify_one();
    over.wait(false);
  };
  Thread own("own", [&] { work(own_id); });
  Thread lent("lent", [&] { work(lent_id); }, Thread::Kind::kForLibrary);
  own_id.wait(0);
  lent_id.wait(0);
  EXPECT_TRUE(holds(own_threads().ids, own_id));
  EXPECT_FALSE(holds(own_threads().ids, lent_id));
  EXPECT_FALSE(holds(threads_of_libraries(), own_id));
  EXPECT_TRUE(holds(threads_of_libraries(), lent_id));
  EXPECT_FALSE(holds(threads_of_libraries(), thread_id()));
  over = true;
  over.notify_all();
}

TEST(OwnThreads, LeaveTheirCpuTimeWhenTheyEnd) {
  const Duration before = own_threads().ended_cpu;
  Thread busy("busy", [] {
    while (cpu_time_of_thread(0) < Duration::millis(5)) continue;
  });
  busy.join();
  EXPECT_GE(own_threads().ended_cpu - before, Duration::millis(5));
}

}  // namespace
}  // namespace quern::os
