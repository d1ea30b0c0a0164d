// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "daemon/daemon.h"
#include "ipc/frames.h"
#include "ipc/ring.h"
#include "ipc/shared_page.h"
#include "os/event.h"
#include "os/fd.h"

namespace quern::daemon {

/// The daemon's side of a program that launches its own kernels: its gate and its events. Belongs to the strand.
class ProgramGate {
 public:
  static Result<std::unique_ptr<ProgramGate>> create();

  /// Descriptors of the program's side, for its process; once.
  Result<ProgramLink> link(uint64_t program);

  int wake_fd() const { return daemon_wake_.fd(); }
  /// Hung up when the program is gone. Readable if it writes to it, which is none of its business.
  int life_fd() const { return life_.first.get(); }
  void woken() { daemon_wake_.drain(); }
  /// One event, if there is one; an error if it wrote nonsense.
  Result<std::optional<ipc::LaneEvent>> take_event();
  /// Announces that the strand will sleep; false if an event came meanwhile.
  bool prepare_sleep() { return events_.prepare_sleep(); }
  void woke() { events_.woke(); }
  void grant(const ipc::Grant& grant);
  const ipc::Grant& granted() const { return grant_; }

 private:
  ProgramGate(ipc::SharedPages pages, os::Event wake, os::Event daemon_wake, std::pair<os::Fd, os::Fd> life);

  ipc::SharedPages pages_;
  os::Event wake_, daemon_wake_;
  std::pair<os::Fd, os::Fd> life_;  ///< ours; the program's, until it is linked
  ipc::RingConsumer events_;
  uint64_t epoch_ = 0;
  ipc::Grant grant_;
  Bytes record_;
};

}  // namespace quern::daemon
