// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/result.h"

namespace quern::main {

/// Feeds a log of `quern serve --record` to the core of this build and prints how much of it agreed, or the first
/// difference. True if all of it agreed.
Result<bool> run_replay(const std::string& file, bool json);

}  // namespace quern::main
