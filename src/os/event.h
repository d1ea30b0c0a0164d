// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/result.h"
#include "base/time.h"
#include "os/fd.h"

namespace quern::os {

/// A wake-up that crosses threads and processes: an eventfd. Non-blocking.
class Event {
 public:
  static Result<Event> create();
  static Event adopt(Fd fd) { return Event(std::move(fd)); }

  void signal() const;
  /// Takes all signals so far; false if there were none.
  bool drain() const;
  /// Sleeps until signalled or `limit` has passed; true if signalled. Does not drain.
  bool wait(Duration limit) const;
  int fd() const { return fd_.get(); }

 private:
  explicit Event(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

/// Sleeps until `fd` is readable or hung up, or `limit` has passed; true if it is.
bool wait_readable(int fd, Duration limit);
/// Sleeps until one of two is.
void wait_first_readable(int fd, int other);

}  // namespace quern::os
