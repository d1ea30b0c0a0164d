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
#include <climits>
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

FileStatus status_from(const struct stat& info) {
  FileStatus status;
  status.owner = info.st_uid;
  status.mode = info.st_mode & 07777;
  status.size_bytes = static_cast<uint64_t>(info.st_size);
  status.names = info.st_nlink;
  status.is_file = S_ISREG(info.st_mode);
  status.is_folder = S_ISDIR(info.st_mode);
  status.is_link = S_ISLNK(info.st_mode);
  return status;
}

/// A path to what this handle stands for.
std::string own_path_of(const Fd& place) { return fmt::format("/proc/self/fd/{}", place.get()); }

Result<FileStatus> status_to_change(const Fd& place, const std::string& path) {
  const auto status = status_of(place);
  if (!status) return failed(path, "stat");
  if (const std::string reason = reason_to_leave(*status); !reason.empty())
    return denied(fmt::format("{}: {}, and is left as it is", path, reason));
  return *status;
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

Result<Bytes> read_to_end(const Fd& file, const std::string& path, uint64_t most) {
  constexpr uint64_t kStep = uint64_t{1} << 20;
  Bytes bytes;
  for (;;) {
    // One byte more than is allowed shows that there are too many.
    const size_t before = bytes.size(), room = std::min(kStep, most + 1 - before);
    bytes.resize(before + room);
    QUERN_TRY(const size_t got, read_some(file, path, std::span(bytes).subspan(before)));
    bytes.resize(before + got);
    if (bytes.size() > most)
      return exhausted(fmt::format("{}: has more than {} bytes, the most that are read", path, most));
    if (got < room) return bytes;
  }
}

Result<Fd> create_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return failed(path, "create");
  return fd;
}

Status append(const Fd& file, const std::string& path, std::span<const std::byte> bytes) {
  return write_all(file, path, bytes);
}

void begin_writing(const Fd& file, uint64_t offset, uint64_t size_bytes) {
  (void)sync_file_range(file.get(), static_cast<off64_t>(offset), static_cast<off64_t>(size_bytes),
                        SYNC_FILE_RANGE_WRITE);
}

Status rename_durably(const Fd& file, const std::string& from, const std::string& to) {
  if (fsync(file.get()) != 0) return failed(from, "fsync");
  QUERN_TRY(rename_file(from, to));
  Fd folder(::open(fs::path(to).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && fsync(folder.get()) != 0) return failed(to, "fsync of its folder");
  return {};
}

Status rename_file(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return failed(to, "rename");
  return {};
}

Status copy_file(const std::string& from, const std::string& to) {
  constexpr size_t kPiece = 1 << 20;
  QUERN_TRY(const Fd source, open_file(from));
  QUERN_TRY(const Fd target, create_file(to));
  Bytes piece(kPiece);
  for (;;) {
    QUERN_TRY(const size_t size, read_some(source, from, piece));
    QUERN_TRY(append(target, to, std::span(piece).first(size)));
    if (size < piece.size()) return {};
  }
}

Status sync_to_disk(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failed(path, "open");
  if (fsync(fd.get()) != 0) return failed(path, "fsync");
  return {};
}

Result<Fd> open_to_change(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return failed(path, "open");
  return fd;
}

Status overwrite(const Fd& file, const std::string& path, std::span<const std::byte> bytes) {
  ssize_t written = 0;
  do written = ::pwrite(file.get(), bytes.data(), bytes.size(), 0);
  while (written < 0 && errno == EINTR);
  if (written < 0) return failed(path, "write");
  if (static_cast<size_t>(written) < bytes.size()) return exhausted(fmt::format("{}: was written in part", path));
  return {};
}

Status write_file_durably(const std::string& path, std::span<const std::byte> bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, getpid(), counter.fetch_add(1));
  const Status written = [&]() -> Status {
    Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd) return failed(temporary, "create");
    QUERN_TRY(write_all(fd, temporary, bytes));
    return rename_durably(fd, temporary, path);
  }();
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
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

bool is_private_folder(const std::string& path) {
  struct stat found;
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() &&
         (found.st_mode & 077) == 0;
}

bool is_own_folder(const std::string& path) {
  const auto status = status_of(path);
  return status && status->is_folder && status->owner == ::geteuid();
}

Status make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed(path, "create");
  if (is_private_folder(path)) return {};
  return denied(
      fmt::format("{}: is not a folder of this user alone; whoever made it may change what is in it. Remove "
                  "it, and start again",
                  path));
}

Status make_private(const std::string& path) {
  std::error_code problem;
  const bool is_folder = fs::is_directory(path, problem);
  if (::chmod(path.c_str(), is_folder ? 0700 : 0600) != 0) return failed(path, "change the mode");
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

void remove_empty_folder(const std::string& path) { ::rmdir(path.c_str()); }

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::optional<uint64_t> file_size(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(info.st_size);
}

std::optional<FileStatus> status_of(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  return status_from(info);
}

std::optional<FileStatus> status_of(const Fd& place) {
  struct stat info {};
  if (::fstat(place.get(), &info) != 0) return std::nullopt;
  return status_from(info);
}

Result<Fd> open_place(const std::string& path) {
  Fd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return failed(path, "open");
  return fd;
}

Result<Fd> open_place_in(const Fd& folder, const std::string& name) {
  Fd fd(::openat(folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failed(name, "open");
  return fd;
}

// The text is read from the link that was opened: another link that gets its name meanwhile has no say.
Result<Fd> follow_link(const Fd& folder, const Fd& link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
  if (size <= 0 || static_cast<size_t>(size) == target.size()) return invalid("is no link that can be read");
  target.resize(static_cast<size_t>(size));
  Fd fd(::openat(folder.get(), target.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return failed(target, "open");
  return fd;
}

std::vector<std::string> list_folder(const Fd& folder) { return list_folder(own_path_of(folder)); }

std::string reason_to_leave(const FileStatus& status) {
  if (status.is_folder) return "";
  if (status.is_link) return "is a link";
  if (!status.is_file) return "is no regular file";
  return status.names > 1 ? "has a second name elsewhere" : "";
}

Status make_private(const Fd& place, const std::string& path) {
  QUERN_TRY(const FileStatus status, status_to_change(place, path));
  // A handle that is not open for reading takes no fchmod.
  if (::chmod(own_path_of(place).c_str(), status.is_folder ? 0700 : 0600) != 0) return failed(path, "change the mode");
  return {};
}

Status give_to(const Fd& place, const std::string& path, uint32_t owner) {
  QUERN_TRY(status_to_change(place, path));
  if (::fchownat(place.get(), "", owner, static_cast<gid_t>(-1), AT_EMPTY_PATH) != 0)
    return failed(path, "change the owner");
  return {};
}

Status move_file(const std::string& path, const std::string& to) {
  if (status_of(to)) return conflict(fmt::format("{}: is there already; move it away first", to));
  if (::rename(path.c_str(), to.c_str()) != 0) return failed(path, "move");
  return {};
}

Status give_to(const std::string& path, uint32_t owner) {
  if (::lchown(path.c_str(), owner, static_cast<gid_t>(-1)) != 0) return failed(path, "change the owner");
  return {};
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

Result<bool> has_plain_file(const std::string& folder, const std::string& name) {
  const fs::path relative(name);
  if (relative.empty() || relative.is_absolute() || relative.lexically_normal() != relative || name.starts_with(".."))
    return false;
  fs::path at(folder);
  fs::file_type type = fs::file_type::directory;
  for (const fs::path& part : relative) {
    if (type != fs::file_type::directory) return false;
    at /= part;
    std::error_code problem;
    type = fs::symlink_status(at, problem).type();
    if (type == fs::file_type::not_found || type == fs::file_type::none) return false;
    if (type != fs::file_type::directory && type != fs::file_type::regular)
      return invalid(fmt::format("{}: is a link or a special file; a function has plain files only", at.string()));
  }
  return type == fs::file_type::regular;
}

std::vector<std::string> list_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<std::string>> read_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem))
    names.push_back(it->path().filename().string());
  if (problem) {
    errno = problem.value();
    return failed(folder, "read");
  }
  std::sort(names.begin(), names.end());
  return names;
}

TreeSize size_of_tree(const std::string& folder) {
  TreeSize size;
  std::error_code problem;
  for (fs::recursive_directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    const auto status = status_of(it->path().string());
    if (!status || !status->is_file) continue;
    ++size.files;
    size.bytes += status->size_bytes;
  }
  return size;
}

// Whoever removes a file that others lock holds the lock while doing so: one that waited for it, or opened the file
// before, then has the lock of a file without a name.
Result<Fd> lock_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return failed(path, "open");
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return conflict(fmt::format("{}: is locked by another process", path));
    return failed(path, "lock");
  }
  struct stat locked {
  }, named{};
  if (fstat(fd.get(), &locked) != 0) return failed(path, "stat");
  if (locked.st_nlink == 0 || ::stat(path.c_str(), &named) != 0 || named.st_dev != locked.st_dev ||
      named.st_ino != locked.st_ino)
    return conflict(fmt::format("{}: was removed by another process while it was being locked", path));
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

std::string resolved(const std::string& path) {
  std::error_code problem;
  const fs::path target = fs::canonical(path, problem);
  return problem ? path : target.string();
}

}  // namespace quern::os
