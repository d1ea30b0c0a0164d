// SPDX-License-Identifier: Apache-2.0
#include "os/mailbox.h"

#include <gtest/gtest.h>

namespace quern::os {
namespace {

TEST(Mailbox, GivesWhatWasPostedInOrderAndRefusesWhenFull) {
  Mailbox<int> box(*Event::create(), 2);
  EXPECT_TRUE(box.post(1));
  EXPECT_TRUE(box.post(2));
  EXPECT_FALSE(box.post(3));
  EXPECT_TRUE(box.event().wait({0}));
  std::vector<int> got;
  box.drain(got);
  EXPECT_EQ(got, (std::vector{1, 2}));
  EXPECT_FALSE(box.maybe_filled() || box.event().wait({0}));
}

// Who posts may be preempted between the item and its signal by the reader, who takes the item first.
TEST(Mailbox, ASignalThatComesLateWakesOnce) {
  Mailbox<int> box(*Event::create(), 2);
  EXPECT_TRUE(box.post(1));
  std::vector<int> got;
  box.drain(got);
  box.event().signal();
  EXPECT_TRUE(box.event().wait({0}));
  box.woken();
  EXPECT_FALSE(box.event().wait({0}));
  EXPECT_TRUE(box.post(2));
  EXPECT_TRUE(box.event().wait({0}));
}

}  // namespace
}  // namespace quern::os
