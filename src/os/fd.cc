// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <unistd.h>

namespace quern::os {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace quern::os
