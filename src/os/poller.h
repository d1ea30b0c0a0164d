// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/fd.h"

namespace quern::os {

/// epoll: waits for many descriptors at once. One thread.
class Poller {
 public:
  static Result<Poller> create();

  /// `token` comes back from `wait` when `fd` is readable or hung up. Level-triggered.
  Status add(int fd, uint64_t token);
  void remove(int fd);
  /// The tokens that are ready, none after `limit`.
  const std::vector<uint64_t>& wait(Duration limit);

 private:
  explicit Poller(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
  std::vector<uint64_t> ready_;
};

}  // namespace quern::os
