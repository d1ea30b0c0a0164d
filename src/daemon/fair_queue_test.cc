// SPDX-License-Identifier: Apache-2.0
#include "daemon/fair_queue.h"

#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

TEST(FairQueue, TenantsTakeTurns) {
  FairQueue<int> queue({8, 8, 8});
  for (const int work : {1, 2, 3}) ASSERT_TRUE(queue.push("a", int{work}));
  ASSERT_TRUE(queue.push("b", 10));
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) order.push_back(queue.pop()->work);
  EXPECT_EQ(order, (std::vector<int>{1, 10, 2, 3}));
}

TEST(FairQueue, NoTenantHasAllOfTheThreads) {
  FairQueue<int> queue({8, 8, 1});
  for (const int work : {1, 2}) ASSERT_TRUE(queue.push("a", int{work}));
  ASSERT_TRUE(queue.push("b", 10));
  EXPECT_EQ(queue.pop()->work, 1);
  EXPECT_EQ(queue.pop()->work, 10) << "a has one under way";
  queue.done("a");
  EXPECT_EQ(queue.pop()->work, 2);
}

TEST(FairQueue, IsBounded) {
  FairQueue<int> queue({3, 2, 1});
  EXPECT_TRUE(queue.push("a", 1));
  EXPECT_TRUE(queue.push("a", 2));
  EXPECT_FALSE(queue.push("a", 3)) << "of one tenant";
  EXPECT_TRUE(queue.push("b", 4));
  EXPECT_FALSE(queue.push("c", 5)) << "of all";
  EXPECT_TRUE(queue.push_again("a", 6)) << "what was let in before goes on";
}

TEST(FairQueue, AQueueThatFinishesGivesOutWhatWaits) {
  FairQueue<int> queue({8, 8, 1});
  for (const int work : {1, 2}) ASSERT_TRUE(queue.push("a", int{work}));
  queue.finish();
  for (const int work : {1, 2}) {
    EXPECT_EQ(queue.pop()->work, work);
    queue.done("a");
  }
  EXPECT_FALSE(queue.pop());
}

TEST(FairQueue, WhatWaitsCanBeTakenOut) {
  FairQueue<int> queue({8, 8, 1});
  for (const int work : {1, 2, 3}) ASSERT_TRUE(queue.push("a", int{work}));
  EXPECT_EQ(queue.take_out([](int work) { return work == 2; }), std::vector<int>{2});
  EXPECT_EQ(queue.pop()->work, 1);
  EXPECT_EQ(queue.close(), std::vector<int>{3});
  EXPECT_FALSE(queue.pop());
  EXPECT_FALSE(queue.push("a", 4));
}

}  // namespace
}  // namespace quern::daemon
