// SPDX-License-Identifier: Apache-2.0
#include "daemon/state_thread.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <semaphore>
#include <string>

#include "os/file.h"

namespace quern::daemon {
namespace {

class StateThreadTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_state_thread_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto state = State::open(folder_);
    ASSERT_TRUE(state.ok()) << state.error().text;
    thread_ = std::make_unique<StateThread>(*std::move(state), std::vector<int>{});
  }
  void TearDown() override {
    thread_.reset();
    os::remove_tree(folder_);
  }
  /// The thread is busy with a job of this tenant until `may_go_`.
  void block(const std::string& tenant) {
    std::binary_semaphore has_begun{0};
    thread_->post(tenant, [&](State&) {
      has_begun.release();
      may_go_.acquire();
    });
    has_begun.acquire();
  }
  void post(const std::string& tenant, char mark) {
    thread_->post(tenant, [this, mark](State&) { order_ += mark; });
  }

  std::string folder_;
  std::binary_semaphore may_go_{0};
  std::string order_;  ///< the state's thread, until that has ended
  std::unique_ptr<StateThread> thread_;
};

TEST_F(StateThreadTest, TenantsTakeTurns) {
  block("a");
  for (const char mark : {'1', '2', '3'}) post("a", mark);
  post("b", 'b');
  post(StateThread::kServer, 's');
  may_go_.release();
  thread_.reset();
  EXPECT_EQ(order_, "1bs23");
}

TEST_F(StateThreadTest, WhatWaitsIsDoneBeforeTheEnd) {
  block("a");
  for (const char mark : {'1', '2', '3'}) post("a", mark);
  post("a", '4');
  // A job may ask within: the job is on the thread already.
  StateThread* const thread = thread_.get();
  thread->post("b", [this, thread](State&) {
    thread->ask("a", [this](State&) {
      order_ += 'b';
      return true;
    });
  });
  may_go_.release();
  thread_.reset();
  EXPECT_EQ(order_, "1b234");
}

}  // namespace
}  // namespace quern::daemon
