// SPDX-License-Identifier: Apache-2.0
#include "os/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace quern::os {
namespace {

TEST(WorkQueue, WhoYieldsGetsWhatNobodyElseWaitsFor) {
  WorkQueue<int> queue(8);
  std::atomic<int> first{0}, second{0};
  std::thread yielding([&] { second = queue.pop(true).value_or(-1); });
  ASSERT_TRUE(queue.push(1));  // nobody else is there
  yielding.join();
  EXPECT_EQ(second, 1);

  std::thread ordinary([&] { first = queue.pop().value_or(-1); });
  while (queue.waiting() == 0) std::this_thread::yield();
  std::thread late([&] { second = queue.pop(true).value_or(-1); });
  ASSERT_TRUE(queue.push(2));
  ordinary.join();
  EXPECT_EQ(first, 2);
  ASSERT_TRUE(queue.push(3));
  late.join();
  EXPECT_EQ(second, 3);
}

TEST(WorkQueue, ClosingWakesAll) {
  WorkQueue<int> queue(8);
  std::thread one([&] { EXPECT_FALSE(queue.pop().has_value()); }),
      two([&] { EXPECT_FALSE(queue.pop(true).has_value()); });
  EXPECT_TRUE(queue.close().empty());
  one.join();
  two.join();
}

}  // namespace
}  // namespace quern::os
