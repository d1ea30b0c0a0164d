// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <set>

#include "hal/cts/suite.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::hal::cts {
namespace {

class Workers : public Suite {};

TEST_F(Workers, AreEachReachedOnce) {
  const auto workers = device().worker_threads();
  for (int round = 0; round < 3; ++round) {
    os::Guarded<std::multiset<int>> seen;
    QUERN_ASSERT_OK(device().on_each_worker([&] { seen.with([](auto& ids) { ids.insert(os::thread_id()); }); }));
    seen.with([&](auto& ids) { EXPECT_EQ(ids, std::multiset<int>(workers.begin(), workers.end())); });
  }
}

TEST_F(Workers, TakeAClassWhereTheCapsSaySo) {
  if (!device().caps().worker_classes) GTEST_SKIP() << "its workers have none";
  const auto workers = device().worker_threads();
  ASSERT_FALSE(workers.empty());
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  // To give way needs no right; to be raised again does, so the usual one comes first.
  for (const auto to : {os::WorkerClass::kNormal, os::WorkerClass::kBestEffort}) {
    for (const int worker : workers) EXPECT_TRUE(os::set_worker_class(worker, to));
    finish(*lane, spin(*lane, *slow, *out, 10));
  }
}

TEST_F(Workers, GoOnAfterwards) {
  QUERN_ASSERT_OK(device().on_each_worker([] {}));
  auto lane = queue();
  auto slow = kernel("suite_spin");
  auto out = allocate(4);
  finish(*lane, spin(*lane, *slow, *out, 10));
}

}  // namespace
}  // namespace quern::hal::cts
