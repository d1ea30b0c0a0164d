// SPDX-License-Identifier: Apache-2.0
#include "server/http/front.h"

#include <gtest/gtest.h>

#include <barrier>

#include "os/thread.h"
#include "server/http/fake_daemon.h"

namespace quern::server {
namespace {

constexpr Time kNow{10'000'000'000};

TEST(Front, ALineIsDueOnceASecond) {
  std::atomic<int64_t> last{0};
  EXPECT_TRUE(is_due(last, kNow));
  EXPECT_FALSE(is_due(last, kNow));
  EXPECT_FALSE(is_due(last, Time{kNow.ns + 999'999'999}));
  EXPECT_TRUE(is_due(last, kNow + Duration::seconds(1)));
  EXPECT_FALSE(is_due(last, kNow + Duration::seconds(1)));
}

TEST(Front, OfTwoThreadsAtATimeOneMayLog) {
  std::atomic<int64_t> last{0};
  std::atomic<int> lines{0};
  std::barrier<> together(2);
  constexpr int kRounds = 1000;
  const auto flood = [&] {
    for (int i = 1; i <= kRounds; ++i) {
      together.arrive_and_wait();
      if (is_due(last, Time{} + Duration::seconds(i))) ++lines;
    }
  };
  { os::Thread one("one", flood), two("two", flood); }
  EXPECT_EQ(lines, kRounds);
}

TEST(Front, TwoFloodsWithinASecondAreToldInTwoLines) {
  FakeDaemon daemon;
  Front front(ServerConfig{}, daemon, "h-");
  front.shed = 3;
  front.tell_crowd(kNow);
  EXPECT_EQ(front.shed, 0u) << "told";
  front.shed = 2, front.refused = 1;
  front.tell_crowd(kNow + Duration::millis(999));
  EXPECT_EQ(front.shed, 2u) << "kept for the next line";
  front.tell_crowd(kNow + Duration::seconds(1));
  EXPECT_EQ(front.shed, 0u);
  EXPECT_EQ(front.refused, 0u);
}

}  // namespace
}  // namespace quern::server
