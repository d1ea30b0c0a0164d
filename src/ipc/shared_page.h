// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "ipc/gate.h"
#include "ipc/ring.h"
#include "os/fd.h"
#include "os/shared_memory.h"

/// The two memories a daemon and one executor share. `DaemonPage` is writable in the daemon only, `ExecutorPage`
/// in the executor only as far as the daemon relies on it: whatever the daemon reads there is a stranger's.
namespace quern::ipc {

constexpr uint32_t kMostLanes = 8;
constexpr size_t kRingBytes = 256 * 1024;
/// Written by the executor into `running_launch` when the lane runs none.
constexpr uint32_t kNoLaunch = ~0U;

struct DaemonPage {
  struct Lane {
    Gate gate;
    RingHead command_head;
    RingTail event_tail;
    alignas(64) std::byte commands[kRingBytes];
  };
  Lane lanes[kMostLanes];
};

/// What a fault handler leaves behind for the daemon.
struct FaultRecord {
  std::atomic<uint32_t> signal{0};  ///< 0: there was none; written last
  std::atomic<int32_t> code{0};
  std::atomic<uint64_t> address{0};
  std::atomic<uint64_t> program{0};  ///< id of the program whose code faulted; 0: not in a kernel's code
  std::atomic<uint32_t> entry{0};    ///< index of the entry in that program
};

struct ExecutorPage {
  struct Lane {
    RingHead event_head;
    RingTail command_tail;
    /// The run of this lane, the first of its launches that has not ended, and its program; 0: idle.
    alignas(64) std::atomic<uint64_t> running_run{0};
    std::atomic<uint32_t> running_launch{kNoLaunch};
    std::atomic<uint32_t> waits_at_gate{0};  ///< 1: it sleeps on a closed gate and wants a wake-up
    alignas(64) std::byte events[kRingBytes];
  };
  Lane lanes[kMostLanes];
  FaultRecord fault;
};

/// One side's view of both pages.
struct SharedPages {
  os::Fd daemon_fd, executor_fd;  ///< the daemon sends both to the executor
  os::Mapping daemon_mapping, executor_mapping;
  DaemonPage& daemon() const { return *reinterpret_cast<DaemonPage*>(daemon_mapping.data()); }
  ExecutorPage& executor() const { return *reinterpret_cast<ExecutorPage*>(executor_mapping.data()); }
};

/// In the daemon: makes both, sealed so that the executor cannot map the daemon's page writable nor change a size.
Result<SharedPages> create_shared_pages();
/// In the executor.
Result<SharedPages> open_shared_pages(os::Fd daemon_fd, os::Fd executor_fd);

}  // namespace quern::ipc
