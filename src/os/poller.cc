// SPDX-License-Identifier: Apache-2.0
#include "os/poller.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace quern::os {

Result<Poller> Poller::create() {
  Fd fd(epoll_create1(EPOLL_CLOEXEC));
  if (!fd) return internal(fmt::format("epoll_create1: {}", strerror(errno)));
  return Poller(std::move(fd));
}

Status Poller::add(int fd, uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return internal(fmt::format("epoll_ctl: {}", strerror(errno)));
  return {};
}

void Poller::remove(int fd) { epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }

const std::vector<uint64_t>& Poller::wait(Duration limit) {
  std::array<epoll_event, 64> events;
  ready_.clear();
  timespec time{limit.ns / 1'000'000'000, limit.ns % 1'000'000'000};
  const int count = epoll_pwait2(fd_.get(), events.data(), static_cast<int>(events.size()),
                                 limit == Duration::forever() ? nullptr : &time, nullptr);
  for (int i = 0; i < count; ++i) ready_.push_back(events[static_cast<size_t>(i)].data.u64);
  return ready_;
}

}  // namespace quern::os
