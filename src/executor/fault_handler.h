// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>

#include "base/time.h"
#include "hal/program.h"
#include "ipc/shared_page.h"

namespace quern::executor {

/// From now on a fault of this process is written to `record` before it dies: the signal, the address, and the
/// program and entry whose code it happened in. Once per process.
void watch_faults(ipc::FaultRecord& record);

/// The work of a thread, after watch_faults(): calls `look` once a fault happened in code of no known program, as every
/// fault does on drivers that do not tell where code lies. `look` publishes the launch that each lane is at, and the
/// thread that faulted waits for that, but at most kMostLook.
void look_at_fault(const std::function<void()>& look);

/// Tells the handler where the code of a program lies. One thread at a time; at most kMostRanges in a process's life
/// (PoCL never unloads code), beyond which a fault is named by what its lane published.
void note_code(uint64_t program, const hal::Program& loaded);

constexpr uint32_t kMostRanges = 16384;
constexpr Duration kMostLook = Duration::millis(200);

}  // namespace quern::executor
