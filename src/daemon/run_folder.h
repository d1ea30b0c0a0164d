// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace quern::daemon {

/// The folder of a running server, from which executors load code: in shared memory where that may hold code, which is
/// five times as fast as a disk, else in the state folder. Its name follows from the state folder and the user.
struct RunFolder {
  std::string path;
  os::Fd lock;  ///< held as long as the server runs: a folder that nobody has locked was left by one that was killed
};

/// Makes it, and clears away what killed servers of this user left in shared memory. The caller holds the lock of the
/// state folder. kDenied if another user was there first: code from such a folder is never loaded.
Result<RunFolder> make_run_folder(const std::string& state_folder);

}  // namespace quern::daemon
