// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel.h"

namespace quern::ipc {

Status Channel::send(const Frame& frame, std::span<const int> fds) { return os::send(socket_, encode(frame), fds); }

Result<Received> Channel::receive() {
  QUERN_TRY(os::Datagram datagram, os::receive(socket_));
  QUERN_TRY(Frame frame, decode(datagram.bytes));
  return Received{std::move(frame), std::move(datagram.fds)};
}

}  // namespace quern::ipc
