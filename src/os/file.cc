// SPDX-License-Identifier: Apache-2.0
#include "os/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "os/env.h"

namespace quern::os {
namespace fs = std::filesystem;
namespace {

Error failed(const std::string& path, const char* what) {
  const std::string text = fmt::format("{}: {}: {}", path, what, strerror(errno));
  switch (errno) {
    case ENOENT:
      return not_found(text);
    case EACCES:
    case EPERM:
      return denied(text);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      return exhausted(text);
    default:
      return internal(text);
  }
}

Status write_all(const Fd& fd, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(path, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

Result<Fd> open_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failed(path, "open");
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return failed(path, "stat");
  if (!S_ISREG(status.st_mode)) return invalid(fmt::format("{}: is not a regular file", path));
  return fd;
}

Result<size_t> read_some(const Fd& file, const std::string& path, std::span<std::byte> into) {
  size_t have = 0;
  while (have < into.size()) {
    const ssize_t size = ::read(file.get(), into.data() + have, into.size() - have);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return failed(path, "read");
    if (size == 0) break;
    have += static_cast<size_t>(size);
  }
  return have;
}

Result<Bytes> read_file(const std::string& path, uint64_t most) {
  QUERN_TRY(const Fd fd, open_file(path));
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return failed(path, "stat");
  if (static_cast<uint64_t>(status.st_size) > most)
    return exhausted(fmt::format("{}: has {} bytes; at most {} are read", path, status.st_size, most));
  Bytes bytes(static_cast<size_t>(status.st_size));
  QUERN_TRY(const size_t have, read_some(fd, path, bytes));
  bytes.resize(have);
  return bytes;
}

Result<Fd> create_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return failed(path, "create");
  return fd;
}

Status append(const Fd& file, const std::string& path, std::span<const std::byte> bytes) {
  return write_all(file, path, bytes);
}

Status write_file_durably(const std::string& path, std::span<const std::byte> bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, getpid(), counter.fetch_add(1));
  const Status written = [&]() -> Status {
    Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd) return failed(temporary, "create");
    QUERN_TRY(write_all(fd, temporary, bytes));
    if (fsync(fd.get()) != 0) return failed(temporary, "fsync");
    if (rename(temporary.c_str(), path.c_str()) != 0) return failed(path, "rename");
    return {};
  }();
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  Fd folder(::open(fs::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && fsync(folder.get()) != 0) return failed(path, "fsync of its folder");
  return {};
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return failed(path, "create");
  return write_all(fd, path, bytes);
}

Status make_folders(const std::string& path, uint32_t mode) {
  std::error_code problem;
  const bool made = fs::create_directories(path, problem);
  if (problem)
    return {Error{ErrorCode::kDenied, fmt::format("{}: {}; name a folder that can be made", path, problem.message())}};
  if (made) fs::permissions(path, static_cast<fs::perms>(mode), problem);
  return {};
}

Result<std::string> make_temporary_folder(std::string_view prefix) {
  const std::string parent = env("TMPDIR");
  std::string path = fmt::format("{}/{}-XXXXXX", parent.empty() ? "/tmp" : parent, prefix);
  if (!::mkdtemp(path.data())) return unavailable(fmt::format("folder {}: {}", path, strerror(errno)));
  return path;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void remove_file(const std::string& path) { ::unlink(path.c_str()); }

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::optional<uint64_t> file_size(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(info.st_size);
}

Status link_file(const std::string& path, const std::string& second) {
  ::unlink(second.c_str());
  if (::link(path.c_str(), second.c_str()) == 0) return {};
  QUERN_TRY(auto bytes, read_file(path));
  return write_file(second, bytes);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Result<std::vector<std::string>> list_files(const std::string& folder, size_t most) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::recursive_directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    const std::string name = it->path().lexically_relative(folder).string();
    const auto type = it->symlink_status(problem).type();
    if (problem) break;
    if (type == fs::file_type::directory) continue;
    if (type != fs::file_type::regular)
      return invalid(fmt::format("{}/{}: is a link or a special file; a function has plain files only", folder, name));
    if (names.size() == most) return exhausted(fmt::format("{}: has more than {} files", folder, most));
    names.push_back(name);
  }
  if (problem) return not_found(fmt::format("{}: {}", folder, problem.message()));
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<Fd> lock_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return failed(path, "open");
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return conflict(fmt::format("{}: is locked by another process", path));
    return failed(path, "lock");
  }
  return fd;
}

bool can_hold_code(const std::string& folder) {
  struct statvfs status {};
  return statvfs(folder.c_str(), &status) == 0 && !(status.f_flag & (ST_NOEXEC | ST_RDONLY)) &&
         access(folder.c_str(), W_OK | X_OK) == 0;
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal().string();
}

}  // namespace quern::os
