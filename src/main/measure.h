// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace quern::main {

/// True if the command line is one that quern-bench carries out.
bool is_measured(int count, char** words);
/// Replaces this process by quern-bench with the same command line. Returns, with an exit code, only if it is absent.
int measure(char** words);

}  // namespace quern::main
