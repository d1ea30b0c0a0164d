// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "ipc/frames.h"
#include "os/fd.h"
#include "os/socket.h"

namespace quern::ipc {

struct Received {
  Frame frame;
  std::vector<os::Fd> fds;
};

/// One end of the control socket.
class Channel {
 public:
  explicit Channel(os::Fd socket) : socket_(std::move(socket)) {}

  Status send(const Frame& frame, std::span<const int> fds = {});
  /// kExhausted if nothing is there, kUnavailable if the peer is gone, kInvalid for nonsense.
  Result<Received> receive();
  int fd() const { return socket_.get(); }

 private:
  os::Fd socket_;
};

}  // namespace quern::ipc
