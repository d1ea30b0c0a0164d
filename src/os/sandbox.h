// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace quern::os {

/// What a confined process may do with files: this, and nothing else, whatever its user may. A name is a file, or a
/// folder with all below it; one that is not there is left out.
struct FileRights {
  std::vector<std::string> read;
  std::vector<std::string> execute;  ///< also read: the kernel reads what it starts
  std::vector<std::string> write;    ///< also read, make and remove files and folders, and move them between folders
};

/// Confines this thread, and all threads and processes that it starts from now on; nobody can take it back. Files that
/// are open stay open, and memory without a name (memfd) is no file here. By Landlock, which needs no privileges and
/// holds for root too; it does not hide whether a file exists. The process must have no new privileges (os/process.h).
/// kUnsupported where the kernel has none, or one before Linux 5.19, in which no file can be moved between folders.
Status confine_files(const FileRights& rights);

/// Whether `confine_files` works here.
bool can_confine_files();

}  // namespace quern::os
