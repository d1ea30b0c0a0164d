// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/config.h"

namespace quern::daemon {

/// The devices of a machine whose operator named none: every GPU that OpenCL shows, else one CPU device on all cores
/// but one. Asks a process of its own, since the daemon never loads a vendor's library. Blocks.
Result<std::vector<DeviceConfig>> discover_devices(const std::string& cache_folder);

}  // namespace quern::daemon
