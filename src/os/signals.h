// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/result.h"
#include "os/fd.h"

namespace quern::os {

/// SIGINT and SIGTERM as a descriptor: readable when asked to stop. Call before any thread starts.
Result<Fd> stop_signals();
/// Takes one of them; the descriptor is readable again when the next one comes. False if there was none.
bool take_signal(const Fd& signals);

/// What a fault handler learns; only async-signal-safe work is allowed in it.
struct Fault {
  int signal = 0;
  int code = 0;
  uintptr_t address = 0;      ///< that was touched
  uintptr_t instruction = 0;  ///< that touched it
  int thread = 0;
};

/// `handler` runs on SIGSEGV, SIGBUS, SIGILL, SIGABRT and SIGTRAP, on the alternate stack of the thread that has one;
/// then the process dies of the same signal. SIGFPE is left to the vendor (PoCL steps over a division by zero).
/// Install after the vendor's library started: it installs its own.
void on_fault(void (*handler)(const Fault&));

/// Gives the calling thread an alternate signal stack, for ever.
void use_alternate_stack();

}  // namespace quern::os
