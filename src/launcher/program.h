// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "ipc/frames.h"
#include "ipc/ring.h"
#include "ipc/shared_page.h"
#include "launcher/permit.h"
#include "os/event.h"
#include "os/fd.h"

namespace quern::launcher {

/// A program's end of its gate: it launches its own kernels, in a process that is its own, and asks here before each.
/// One thread.
class Program {
 public:
  /// The descriptors that the daemon gave it.
  struct Link {
    os::Fd daemon_page, own_page;
    os::Fd wake;         ///< that the daemon signals for it
    os::Fd daemon_wake;  ///< the daemon's own
    os::Fd life;         ///< held as long as this lives: the daemon sees by it that the process is gone
  };
  static Result<std::unique_ptr<Program>> open(Link link);

  /// What may be launched now, in one launch; waits for nobody. The clock is read only where the grant needs it.
  Permit ask(const Ask& ask);
  /// Until there is another grant than the one that was asked last, or the time of its `from` has come.
  void wait();

  /// Before the first launch after a gap, before anything is asked for. Not told where nobody listens. Who is let
  /// through at once tells it after that launch, for the daemon may take the core to hear of it.
  void work_ready(const ipc::WorkReady& ready);
  /// After every launch, once the device has it.
  void launched() { tell_ready(); }
  /// All that was launched has ended, and nothing is to be launched.
  void gap_begun(const ipc::GapBegun& gap);
  /// A launch of it has ended. What ended is summed up and told at most every millisecond.
  void used(const ipc::DeviceUsed::Sample& sample);
  /// From when to when it was on the device, before `used`: kept and told only while someone draws it. Some of it may
  /// get lost where the daemon does not read: what is used must not.
  void traced(const ipc::Traced::Span& span);

 private:
  Program(ipc::SharedPages pages, os::Event wake, os::Event daemon_wake, os::Fd life);
  const ipc::Gate& gate() const { return pages_.daemon().lanes[0].gate; }
  /// False if the daemon has not read enough of what it was told for this to have room.
  template <class Event>
  bool tell(const Event& event);
  void tell_ready();
  void tell_used(int64_t now_ns);
  void tell_traced();

  // Constant after construction.
  ipc::SharedPages pages_;
  os::Event wake_, daemon_wake_;
  os::Fd life_;
  // The one thread only.
  ipc::RingProducer events_;
  ByteWriter writer_;
  ipc::DeviceUsed used_;
  ipc::Traced traced_;
  int64_t told_ns_ = 0;
  ipc::WorkReady ready_;
  bool has_ready_ = false;  ///< which is not told yet
  bool is_telling_ = false;
  uint64_t asked_word_ = 0;    ///< of the gate, when it was asked last
  int64_t asked_from_ns_ = 0;  ///< of the grant, if that was too early; else 0
  uint64_t permits_ = 0;       ///< given, and not yet heard of as used
};

}  // namespace quern::launcher
