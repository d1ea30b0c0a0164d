// SPDX-License-Identifier: Apache-2.0
#include "server/http/scribe.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <string>

namespace quern::server {
namespace {

TEST(ScribeTest, TenantsTakeTurns) {
  std::binary_semaphore has_begun{0}, may_go{0}, is_done{0};
  std::string order;
  Scribe scribe;
  scribe.add("a", [&] {
    has_begun.release();
    may_go.acquire();
    return false;
  });
  has_begun.acquire();
  int pieces = 0;
  scribe.add("a", [&] {
    order += '1';
    if (++pieces < 3) return true;
    is_done.release();
    return false;
  });
  scribe.add("a", [&] {
    order += '2';
    return false;
  });
  scribe.add("b", [&] {
    order += 'b';
    return false;
  });
  scribe.add("a", [&] {
    order += '3';
    return false;
  });
  may_go.release();
  is_done.acquire();
  // The other tenant waits for one piece, and a job of three pieces lets those behind it go on.
  EXPECT_EQ(order, "1b2311");
}

}  // namespace
}  // namespace quern::server
