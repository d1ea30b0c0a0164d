// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

#include "base/result.h"

namespace quern::os {

/// A file descriptor with one owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// A second descriptor of the same open file. Close-on-exec.
Result<Fd> duplicate(int fd);
inline Result<Fd> duplicate(const Fd& fd) { return duplicate(fd.get()); }

/// A descriptor to give up when there is no other; none if there is none now.
Fd spare_descriptor();
/// As many descriptors as this user may have, for this process and those that it starts.
void want_all_descriptors();

}  // namespace quern::os
