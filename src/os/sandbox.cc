// SPDX-License-Identifier: Apache-2.0
#include "os/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "os/fd.h"

namespace quern::os {
namespace {

// Written out: the header of Debian 12 ends at kRefer.
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3;
constexpr uint64_t kRemoveDir = 1 << 4, kRemoveFile = 1 << 5, kMakeDir = 1 << 7, kMakeReg = 1 << 8;
constexpr uint64_t kRefer = 1 << 13, kTruncate = 1 << 14;
constexpr uint64_t kAllOfFirst = (1 << 13) - 1;  // the rights of the first version, also those that nobody gets here
constexpr uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate;
constexpr uint64_t kRead = kReadFile | kReadDir;
constexpr uint64_t kWrite = kRead | kWriteFile | kRemoveDir | kRemoveFile | kMakeDir | kMakeReg | kRefer | kTruncate;
constexpr long kFirstWithRefer = 2, kFirstWithTruncate = 3;

struct RulesetAttributes {
  uint64_t handled_access_fs;
};
struct __attribute__((packed)) PathAttributes {
  uint64_t allowed_access;
  int32_t parent_fd;
};
constexpr int kRulePathBeneath = 1;
constexpr unsigned kAskVersion = 1;

// 0 or less: there is none, it was turned off when the kernel started, or a container forbids it.
long landlock_version() { return syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion); }

Status allow(const Fd& ruleset, const std::string& path, uint64_t rights) {
  const Fd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return {};
  struct stat found {};
  if (fstat(fd.get(), &found) != 0) return {};
  if (!S_ISDIR(found.st_mode)) rights &= kOfFiles;
  const PathAttributes rule{rights, fd.get()};
  if (syscall(SYS_landlock_add_rule, ruleset.get(), kRulePathBeneath, &rule, 0) != 0)
    return internal(fmt::format("sandbox: {} is not taken: {}", path, strerror(errno)));
  return {};
}

}  // namespace

bool can_confine_files() { return landlock_version() >= kFirstWithRefer; }

Status confine_files(const FileRights& rights) {
  const long version = landlock_version();
  if (version < kFirstWithRefer)
    return unsupported("sandbox: this kernel has no Landlock, or an early one; run Linux 5.19 or later with Landlock");
  const uint64_t handled = kAllOfFirst | kRefer | (version >= kFirstWithTruncate ? kTruncate : 0);
  const RulesetAttributes attributes{handled};
  const Fd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
  if (!ruleset) return internal(fmt::format("sandbox: no rules can be made: {}", strerror(errno)));
  for (const std::string& path : rights.read) QUERN_TRY(allow(ruleset, path, kRead & handled));
  for (const std::string& path : rights.execute) QUERN_TRY(allow(ruleset, path, kExecute | kReadFile));
  for (const std::string& path : rights.write) QUERN_TRY(allow(ruleset, path, kWrite & handled));
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return internal(fmt::format("sandbox: the rules do not hold: {}", strerror(errno)));
  return {};
}

}  // namespace quern::os
