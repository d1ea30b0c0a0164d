// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "os/fd.h"

namespace quern::os {

/// kNotFound if it is not there, kExhausted past `most` bytes, kInvalid for anything that is no regular file.
Result<Bytes> read_file(const std::string& path, uint64_t most = uint64_t{1} << 31);

/// A file to read from front to back. kNotFound if it is not there, kInvalid for anything that is no regular file.
Result<Fd> open_file(const std::string& path);
/// The next bytes, as many as fit; fewer only at its end. `path` is for the error's text.
Result<size_t> read_some(const Fd& file, const std::string& path, std::span<std::byte> into);

/// Reads a pipe or a file, whose length need not be known, to its end. kExhausted past `most` bytes. `path` is for the
/// error's text.
Result<Bytes> read_to_end(const Fd& file, const std::string& path, uint64_t most);

/// All or nothing, also when the machine stops: temporary name, fsync, rename, fsync of the folder.
Status write_file_durably(const std::string& path, std::span<const std::byte> bytes);

/// Plainly, for results and scratch.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

/// A file to append to, in place of what it held; others may read it meanwhile.
Result<Fd> create_file(const std::string& path);
/// All of `bytes` at the end of what was appended so far; `path` is for the error's text.
Status append(const Fd& file, const std::string& path, std::span<const std::byte> bytes);

/// Asks the disk to begin with what was appended from `offset` on, and waits for nothing: who syncs later waits less.
void begin_writing(const Fd& file, uint64_t offset, uint64_t size_bytes);
/// What was appended to the file `from` is on disk, and its name is `to`, in place of whatever had it; all or nothing.
Status rename_durably(const Fd& file, const std::string& from, const std::string& to);
/// At once; what was at `to` is gone. Says nothing about the disk.
Status rename_file(const std::string& from, const std::string& to);
/// Copies a file of any size, a piece at a time, in place of what `to` held.
Status copy_file(const std::string& from, const std::string& to);
/// Returns once the disk has what is at the path now: the bytes of a file, or the names in a folder.
Status sync_to_disk(const std::string& path);
/// A file to change in place. It is made empty, for its owner alone, if it is not there.
Result<Fd> open_to_change(const std::string& path);
/// Puts `bytes` in place of the first bytes of the file, in one write. `path` is for the error's text.
Status overwrite(const Fd& file, const std::string& path, std::span<const std::byte> bytes);

Status make_folders(const std::string& path, uint32_t mode = 0755);
/// A folder that this user made and nobody else can read or write. kDenied if the path is something else already: a
/// link, a folder of another user, or one that others may use.
Status make_private_folder(const std::string& path);
bool is_private_folder(const std::string& path);
/// Whether it is a folder of this user, whatever its mode; a link is none.
bool is_own_folder(const std::string& path);
/// Takes a file or folder away from all but its owner.
Status make_private(const std::string& path);
/// A folder that nobody else has, in $TMPDIR or /tmp; its maker removes it.
Result<std::string> make_temporary_folder(std::string_view prefix);
void remove_tree(const std::string& path);
void remove_file(const std::string& path);
/// Removes a folder that holds nothing; any other stays.
void remove_empty_folder(const std::string& path);
bool exists(const std::string& path);
bool is_folder(const std::string& path);
/// Nothing if it is no regular file.
std::optional<uint64_t> file_size(const std::string& path);
/// What a name in a folder stands for; a link is not followed.
struct FileStatus {
  uint32_t owner = 0;  ///< user id
  uint32_t mode = 0;   ///< the permission bits
  uint64_t size_bytes = 0;
  uint64_t names = 0;                                        ///< hard links to it
  bool is_file = false, is_folder = false, is_link = false;  ///< none of them: a special file
};
/// Nothing if there is no such name.
std::optional<FileStatus> status_of(const std::string& path);
/// A new name on the same file system. kConflict if something has that name already.
Status move_file(const std::string& path, const std::string& to);
/// Makes another user the owner; the superuser may. A link is not followed.
Status give_to(const std::string& path, uint32_t owner);

/// A handle of a file, folder or link that is not open for reading. The handle keeps meaning that one thing, even if
/// its name stands for another thing later. `open_place` follows the links of a path; `open_place_in` takes one name of
/// a folder and follows no link: the handle is of the link itself.
Result<Fd> open_place(const std::string& path);
Result<Fd> open_place_in(const Fd& folder, const std::string& name);
/// The place where a link leads, the link being in `folder`. kInvalid if `link` is no link.
Result<Fd> follow_link(const Fd& folder, const Fd& link);
std::optional<FileStatus> status_of(const Fd& place);
/// The names in a folder, sorted; none if it cannot be read.
std::vector<std::string> list_folder(const Fd& folder);
/// As above, of a place. kDenied, with the reason, if the place is neither a folder nor a regular file with one name: a
/// file with a second name may belong to another folder as well. `path` is for the error's text.
Status make_private(const Fd& place, const std::string& path);
Status give_to(const Fd& place, const std::string& path, uint32_t owner);
/// Why `make_private` and `give_to` leave a thing of this status alone; empty if they do not.
std::string reason_to_leave(const FileStatus& status);

/// A second name for the same file, in place of whatever had it. A copy where the file system has no links.
Status link_file(const std::string& path, const std::string& second);

/// Regular files below `folder`, relative, sorted. kInvalid for a link or anything else that is no file or folder;
/// kExhausted past `most` files.
Result<std::vector<std::string>> list_files(const std::string& folder, size_t most);
/// Whether there is a regular file of this relative name below `folder`; a name with `..` or a leading slash has none.
/// kInvalid if it, or a folder on the way to it, is a link or a special file.
Result<bool> has_plain_file(const std::string& folder, const std::string& name);
/// Names directly in `folder`, sorted; none if the folder cannot be read.
std::vector<std::string> list_folder(const std::string& folder);
/// The same; kNotFound, kDenied or kInternal if the folder cannot be read.
Result<std::vector<std::string>> read_folder(const std::string& folder);
/// Regular files below `folder`, all together; links are not followed.
struct TreeSize {
  uint64_t files = 0, bytes = 0;
};
TreeSize size_of_tree(const std::string& folder);

/// A lock on the file of this name, which is made if it is not there. The lock ends with its descriptor or its process.
/// A link of this name is not followed: it is an error.
/// kConflict if another process has it, or if another process removed or replaced the file meanwhile.
Result<Fd> lock_file(const std::string& path);

/// Whether code can be loaded from files there: not on a noexec mount, and writable.
bool can_hold_code(const std::string& folder);

std::string absolute(const std::string& path);
/// Where the links of a path lead; the path itself if nothing is there.
std::string resolved(const std::string& path);

}  // namespace quern::os
