// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "os/fd.h"

namespace quern::os {

/// One datagram with the descriptors that came with it.
struct Datagram {
  Bytes bytes;
  std::vector<Fd> fds;
};

constexpr size_t kLargestDatagram = 128 * 1024;
constexpr size_t kMostDescriptors = 8;

/// Two ends of a local sequenced-packet connection, close-on-exec, non-blocking to send and receive.
Result<std::pair<Fd, Fd>> socket_pair();

/// kExhausted if the peer does not read; kUnavailable if it is gone.
Status send(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> fds = {});

/// kExhausted if nothing is there; kUnavailable if the peer is gone; kInvalid for a datagram past the limits.
Result<Datagram> receive(const Fd& socket);

}  // namespace quern::os
