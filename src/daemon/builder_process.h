// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "ipc/frames.h"
#include "os/event.h"

namespace quern::daemon {

struct BuiltProgram {
  std::string build_key;
  Bytes binary;
  std::vector<Signature> signatures;
};

/// Compiles one program in a process of its own, with a private cache folder that is gone afterwards. Blocks; any
/// thread that lives as long as the daemon. kInvalid with the compiler's log; kDeadline past `limit`, and the process
/// is killed; kUnavailable when `stop` is signalled, kCancelled when `abandoned` is, if there is one.
Result<BuiltProgram> build_program(ipc::BuildFrame frame, const std::string& cache_folder, Duration limit,
                                   const os::Event& stop, const os::Event* abandoned = nullptr);

}  // namespace quern::daemon
