// SPDX-License-Identifier: Apache-2.0
#include "daemon/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "base/hash.h"
#include "os/clock.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

constexpr const char* kShared = "/dev/shm";
constexpr int kMostAttempts = 100;  // each fails only if another server clears within the same microseconds
constexpr int kMostNames = 100;  // servers with one state folder and one shared memory; there is hardly ever a second

/// A name that nobody has, for a folder that is being made or removed. `list` does not take it for a run folder.
std::string new_name(const std::string& parent, const char* what) {
  static std::atomic<uint64_t> counter{0};
  std::string name;
  // The time, for processes of two containers may have one number.
  do
    name =
        fmt::format("{}/quern-{}-{}-{}-{}-{}", parent, what, geteuid(), getpid(), os::now().ns, counter.fetch_add(1));
  while (os::status_of(name));
  return name;
}

// Under its own name a folder that is half removed could be taken for one that is half made.
void remove_folder(const std::string& parent, const std::string& folder) {
  const std::string name = new_name(parent, "old");
  if (os::rename_file(folder, name).ok()) os::remove_tree(name);
}

enum class Taken { kFree, kByServer };

/// Removes what is left of a killed server. kFree if nothing has the name any more. `remove_unlocked`: also a folder
/// without a lock, which an earlier Quern made.
Result<Taken> take_away(const std::string& parent, const std::string& folder, bool remove_unlocked) {
  if (!os::status_of(folder)) return Taken::kFree;
  if (!os::is_own_folder(folder))
    return denied(
        fmt::format("{}: is not a folder of this user; whoever made it may change what is in it. Remove it, and "
                    "start again",
                    folder));
  // Into a folder that others may write nothing is put, not even a lock.
  if (os::is_private_folder(folder) && (remove_unlocked || os::exists(folder + "/lock"))) {
    const auto lock = os::lock_file(folder + "/lock");
    if (!lock.ok() && lock.error().code == ErrorCode::kConflict) return Taken::kByServer;
    // The lock is held until the folder is gone: two that clear at a time do not meet in it.
    if (lock.ok()) remove_folder(parent, folder);
  } else if (remove_unlocked) {
    remove_folder(parent, folder);
  }
  return os::status_of(folder) ? Taken::kByServer : Taken::kFree;
}

// Left by a server that was killed while it made the folder; or another server is making it right now. That one makes
// another if it does not get the lock, or finds the folder gone. With the lock held the folder is its own: so a folder
// is removed either empty, or by whoever has its lock.
void clear_unfinished(const std::string& folder) {
  os::remove_empty_folder(folder);
  if (!os::exists(folder + "/lock")) return;
  const auto lock = os::lock_file(folder + "/lock");
  if (lock.ok()) remove_folder(kShared, folder);
}

void clear_left_behind(const std::string& prefix) {
  for (const std::string& name : os::list_folder(kShared)) {
    const std::string folder = fmt::format("{}/{}", kShared, name);
    if (name.starts_with(prefix) && os::is_private_folder(folder)) (void)take_away(kShared, folder, false);
    // One whose removal was interrupted.
    if (name.starts_with(fmt::format("quern-old-{}-", geteuid())) && os::is_own_folder(folder)) os::remove_tree(folder);
    if (name.starts_with(fmt::format("quern-new-{}-", geteuid())) && os::is_private_folder(folder))
      clear_unfinished(folder);
  }
}

/// A folder of this server alone, with its lock held, under a name that nobody looks for.
Result<std::string> make_unfinished(const std::string& parent, os::Fd& lock) {
  for (int i = 0;; ++i) {
    std::string made = new_name(parent, "new");
    const Status folder = os::make_private_folder(made);
    auto held = folder.ok() ? os::lock_file(made + "/lock") : Result<os::Fd>(folder.error());
    if (held.ok()) {
      lock = *std::move(held);
      return made;
    }
    // Another server may have taken the folder for one of a killed server: it was empty, or its lock was free.
    const bool was_cleared = held.error().code == ErrorCode::kConflict || !os::status_of(made);
    os::remove_tree(made);
    if (!was_cleared || i == kMostAttempts) return held.error();
  }
}

}  // namespace

Result<RunFolder> make_run_folder(const std::string& state_folder) {
  std::string parent = state_folder, wanted = state_folder + "/run";
  if (os::can_hold_code(kShared)) {
    parent = kShared;
    const std::string prefix = fmt::format("quern-{}-", geteuid());
    clear_left_behind(prefix);
    wanted = fmt::format("{}/{}{}", kShared, prefix, sha256(os::absolute(state_folder)).substr(0, 12));
  }
  RunFolder folder;
  QUERN_TRY(const std::string made, make_unfinished(parent, folder.lock));
  const Status named = [&]() -> Status {
    for (int i = 1; i <= kMostNames; ++i) {
      folder.path = i == 1 ? wanted : fmt::format("{}-{}", wanted, i);
      QUERN_TRY(const Taken taken, take_away(parent, folder.path, true));
      // Onto a folder that is not empty nothing can be renamed: then another server was faster.
      if (taken == Taken::kFree && os::rename_file(made, folder.path).ok()) return {};
    }
    return conflict(fmt::format("{}: is in use by another server, and so are all names like it; stop some", wanted));
  }();
  if (!named.ok()) {
    os::remove_tree(made);
    return named.error();
  }
  return folder;
}

void remove_run_folder(const std::string& path) {
  remove_folder(path.substr(0, path.rfind('/')), path);
  os::remove_tree(path);  // if it could not be renamed
}

}  // namespace quern::daemon
