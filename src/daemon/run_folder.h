// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace quern::daemon {

/// The folder of a running server, from which executors load code: in shared memory where that may hold code, which is
/// five times as fast as a disk, else in the state folder. Its name follows from the state folder and the user.
///
/// It appears under its name with its lock held, and a folder whose lock is held is never removed. So whoever finds a
/// folder and gets its lock knows that its server was killed.
struct RunFolder {
  std::string path;
  os::Fd lock;  ///< held as long as the server runs
};

/// Makes it, and clears away what killed servers of this user left in shared memory. The caller holds the lock of the
/// state folder. The name gets a number if a server in another container, with the same shared memory, has it.
///
/// kDenied if something that another user made has the name, or a link has it: code from such a folder is never loaded.
Result<RunFolder> make_run_folder(const std::string& state_folder);

/// Removes the folder of this server, which still holds its lock.
void remove_run_folder(const std::string& path);

}  // namespace quern::daemon
