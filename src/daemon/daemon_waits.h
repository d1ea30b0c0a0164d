// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "daemon/daemon.h"

namespace quern::daemon {

// For callers that have the bytes in memory and may wait: commands, benchmarks and tests, never a thread that serves.
Result<Deployed> deploy_and_wait(Daemon& daemon, const Tenant& tenant, const std::string& name, Bytes tar);
Result<ObjectStatus> put_and_wait(Daemon& daemon, const Tenant& tenant, Bytes bytes);

}  // namespace quern::daemon
