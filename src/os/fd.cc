// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace quern::os {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Fd> duplicate(int fd) {
  Fd second(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!second) return exhausted(std::string("descriptor: no second one is to be had: ") + strerror(errno));
  return second;
}

}  // namespace quern::os
