// SPDX-License-Identifier: Apache-2.0
#include "daemon/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/hash.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

constexpr const char* kShared = "/dev/shm";

// A folder without a lock is one that is being made, or that an earlier Quern made: it stays.
void clear_left_behind(const std::string& prefix) {
  for (const std::string& name : os::list_folder(kShared)) {
    const std::string folder = fmt::format("{}/{}", kShared, name);
    if (!name.starts_with(prefix) || !os::is_private_folder(folder) || !os::exists(folder + "/lock")) continue;
    if (const auto lock = os::lock_file(folder + "/lock"); lock.ok()) os::remove_tree(folder);
  }
}

}  // namespace

Result<RunFolder> make_run_folder(const std::string& state_folder) {
  RunFolder folder;
  folder.path = state_folder + "/run";
  if (os::can_hold_code(kShared)) {
    const std::string prefix = fmt::format("quern-{}-", geteuid());
    clear_left_behind(prefix);
    folder.path = fmt::format("{}/{}{}", kShared, prefix, sha256(os::absolute(state_folder)).substr(0, 12));
  }
  // Nobody else uses it: the caller has the lock of the state folder.
  os::remove_tree(folder.path);
  QUERN_TRY(os::make_private_folder(folder.path));
  QUERN_TRY(folder.lock, os::lock_file(folder.path + "/lock"));
  return folder;
}

}  // namespace quern::daemon
