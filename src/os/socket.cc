// SPDX-License-Identifier: Apache-2.0
#include "os/socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace quern::os {

Result<std::pair<Fd, Fd>> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return internal(fmt::format("socketpair: {}", strerror(errno)));
  std::pair<Fd, Fd> pair{Fd(ends[0]), Fd(ends[1])};
  const int size = 4 * static_cast<int>(kLargestDatagram);
  for (int end : ends) setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  return pair;
}

Status send(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  if (bytes.size() > kLargestDatagram || fds.size() > kMostDescriptors)
    return internal(fmt::format("frame: {} bytes and {} descriptors are past the limit", bytes.size(), fds.size()));
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  while (sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) return exhausted("socket: the peer does not read");
    return unavailable(fmt::format("socket: {}", strerror(errno)));
  }
  return {};
}

Result<Datagram> receive(const Fd& socket) {
  // One per thread: a frame is rare, 128 KiB on the stack of every caller is not.
  thread_local Bytes scratch(kLargestDatagram);
  iovec piece{scratch.data(), scratch.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size = 0;
  while ((size = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return exhausted("socket: nothing to read");
    return unavailable(fmt::format("socket: {}", strerror(errno)));
  }
  Datagram datagram;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      datagram.fds.emplace_back(fd);
    }
  }
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return invalid("socket: a frame is past the limit");
  if (size == 0) return unavailable("socket: the peer closed it");
  datagram.bytes.assign(scratch.begin(), scratch.begin() + size);
  return datagram;
}

}  // namespace quern::os
