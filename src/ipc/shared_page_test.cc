// SPDX-License-Identifier: Apache-2.0
#include "ipc/shared_page.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace quern::ipc {
namespace {

TEST(SharedPages, TheExecutorCannotWriteGrants) {
  auto daemon = create_shared_pages();
  ASSERT_TRUE(daemon.ok());
  EXPECT_FALSE(os::map(daemon->daemon_fd, sizeof(DaemonPage), true).ok());
  EXPECT_NE(ftruncate(daemon->executor_fd.get(), 1), 0) << "a shrunk page would kill the daemon with SIGBUS";

  auto executor = open_shared_pages(os::Fd(dup(daemon->daemon_fd.get())), os::Fd(dup(daemon->executor_fd.get())));
  ASSERT_TRUE(executor.ok());
  daemon->daemon().lanes[1].gate.word.store(3);
  EXPECT_TRUE(is_open(executor->daemon().lanes[1].gate.word.load()));
  executor->executor().lanes[1].running_launch.store(9);
  EXPECT_EQ(daemon->executor().lanes[1].running_launch.load(), 9U);
}

TEST(SharedPages, WhatIsNoSealedMemoryIsRefused) {
  auto memory = os::create_shared_memory("test", sizeof(DaemonPage));
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(open_shared_pages(os::Fd(dup(memory->get())), os::Fd(dup(memory->get()))).ok());
}

}  // namespace
}  // namespace quern::ipc
