// SPDX-License-Identifier: Apache-2.0
#include "os/event.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quern::os {

Result<Event> Event::create() {
  Fd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return internal(fmt::format("eventfd: {}", strerror(errno)));
  return Event(std::move(fd));
}

void Event::signal() const {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full: the sleeper has a signal waiting already.
  [[maybe_unused]] ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

bool Event::drain() const {
  uint64_t count = 0;
  return ::read(fd_.get(), &count, sizeof count) == sizeof count;
}

bool Event::wait(Duration limit) const { return wait_readable(fd_.get(), limit); }

bool wait_readable(int fd, Duration limit) {
  pollfd item{fd, POLLIN, 0};
  timespec time{limit.ns / 1'000'000'000, limit.ns % 1'000'000'000};
  return ppoll(&item, 1, limit == Duration::forever() ? nullptr : &time, nullptr) > 0;
}

void wait_first_readable(int fd, int other) {
  pollfd items[] = {{fd, POLLIN, 0}, {other, POLLIN, 0}};
  (void)ppoll(items, 2, nullptr, nullptr);
}

}  // namespace quern::os
