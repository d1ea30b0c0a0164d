// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace quern::os {

/// Runs another program and gives what it wrote to its standard output, 1 MiB at the most; its standard error is thrown
/// away. The first word is looked for in PATH. An error if it is not there, ends with anything but 0, or takes longer
/// than `limit` (then it is killed). For tools beside the product, never on the way of a request.
Result<std::string> run_command(const std::vector<std::string>& words, Duration limit);

}  // namespace quern::os
