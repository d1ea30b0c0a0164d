// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "os/fd.h"

namespace quern::main {

/// The whole life of a process that joins a daemon: it takes its link from the socket, has work, says so once its gate
/// is open, and is at it until it is killed. What it returns is its exit code.
int serve_joined_program(os::Fd socket);

}  // namespace quern::main
