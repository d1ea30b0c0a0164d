// SPDX-License-Identifier: Apache-2.0
//
// Bills and quotas are sums of the device time of queues: it has to be all that the device was busy with, and no more.
#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "hal/cts/suite.h"
#include "os/clock.h"
#include "os/thread.h"

namespace quern::hal::cts {
namespace {

class Accounts : public Suite {
 protected:
  // CPU time of the threads that execute kernels, on a device whose time is that of threads.
  int64_t busy_ns() {
    int64_t sum = 0;
    for (const int worker : device().worker_threads()) sum += os::cpu_time_of_thread(worker).ns;
    return sum;
  }

  // Three threads with a queue each, and launches of all lengths, until the device was busy for some 0.1 s. Returns the
  // sum of what the queues account for, and for how long the device was busy.
  std::pair<uint64_t, int64_t> work() {
    constexpr size_t kQueues = 3;
    constexpr int kLaunches = 30;
    std::vector<std::unique_ptr<Queue>> queues;
    for (size_t i = 0; i < kQueues; ++i) queues.push_back(queue());
    std::vector<std::unique_ptr<Kernel>> kernels;
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (size_t i = 0; i < kQueues; ++i) {
      kernels.push_back(kernel("suite_spin"));
      buffers.push_back(allocate(64 * sizeof(uint32_t)));
    }
    // From here on: a driver may have threads for each queue, whose time is known as long as the queue lives.
    const int64_t before = busy_ns();
    std::vector<std::vector<uint64_t>> points(kQueues);
    std::vector<os::Thread> threads;
    for (size_t i = 0; i < kQueues; ++i)
      threads.emplace_back("caller", [&, i] {
        for (int n = 0; n < kLaunches; ++n) {
          const auto point = spin(*queues[i], *kernels[i], *buffers[i], n % 3 == 0 ? 3'000'000 : 200'000);
          ASSERT_TRUE(point.ok()) << point.error().text;
          points[i].push_back(*point);
          if (n % 4 != 3) continue;
          const Status waited = queues[i]->timeline().wait(*point, Duration::forever());
          ASSERT_TRUE(waited.ok());
        }
        ASSERT_TRUE(queues[i]->timeline().wait(points[i].back(), Duration::forever()).ok());
      });
    for (auto& thread : threads) thread.join();
    uint64_t accounted = 0;
    int64_t intervals = 0;
    for (size_t i = 0; i < kQueues; ++i) {
      accounted += queues[i]->device_time_ns();
      for (const uint64_t point : points[i])
        if (const auto time = queues[i]->timing(point)) intervals += time->end_ns - time->start_ns;
    }
    return {accounted, device().caps().timestamps == Timestamps::kDevice ? intervals : busy_ns() - before};
  }
};

TEST_F(Accounts, AddUpToTheTimeThatTheDeviceWasBusy) {
  work();  // workers and caches are there from now on
  const auto [accounted, busy] = work();
  ASSERT_GT(busy, 50'000'000);
  EXPECT_NEAR(static_cast<double>(accounted), static_cast<double>(busy), static_cast<double>(busy) / 100);
}

}  // namespace
}  // namespace quern::hal::cts
