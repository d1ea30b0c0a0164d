// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "os/fd.h"

namespace quern::daemon {

/// Immutable bytes on disk, addressed by their SHA-256: `FOLDER/ab/abcdef…`.
///
/// An object is there whole or not at all, also after kill -9 or a power cut, and what is read is what was written: the
/// hash is checked on every read. The store is its folder and nothing else, so any number of threads may call it at a
/// time; `remove` and `collect` are for whoever knows that nobody is about to use the object. One process at a time
/// may have it open: State holds the lock.
class ObjectStore {
 public:
  /// Makes the folder if need be, and clears away what an interrupted `put` left behind. `before_disk`, for tests,
  /// comes before every access to bytes, and may block.
  static Result<ObjectStore> open(const std::string& folder, std::function<void()> before_disk = {});

  /// The hash. Bytes that are there already are compared, not written again; a damaged object is replaced.
  Result<std::string> put(std::span<const std::byte> bytes);
  /// For who knows the hash already: it is not made again.
  Status put(const std::string& hash, std::span<const std::byte> bytes);

  /// kNotFound if there is none, kInternal if the disk no longer holds what was written: both texts name the object.
  Result<Bytes> get(std::string_view hash) const;
  /// The same, to the end of a file (a memfd is one) of which it must make exactly `size` bytes. After an error, what
  /// was appended means nothing.
  Status copy_to(std::string_view hash, uint64_t size, const os::Fd& file) const;

  /// Whether there is a file for it; says nothing about its bytes.
  bool has(std::string_view hash) const;
  /// Of its file; 0 if there is none.
  uint64_t size_of(std::string_view hash) const;

  /// Nothing happens if there is none.
  void remove(std::string_view hash);

  /// Takes the names of all objects but these away, at once. The files that are left of them, for whoever has the time
  /// to remove them (os::remove_file); what is not removed goes at the next `open`.
  std::vector<std::string> set_aside(const std::set<std::string>& keep);
  /// The same for one object, without a look at any other. Nothing if there is none.
  std::optional<std::string> set_one_aside(std::string_view hash);

 private:
  friend class ObjectWriter;
  ObjectStore(std::string folder, std::function<void()> before_disk)
      : folder_(std::move(folder)), before_disk_(std::move(before_disk)) {}
  std::string path_of(std::string_view hash) const;
  bool holds(const std::string& path, std::span<const std::byte> bytes) const;
  /// A file that is no object yet, or none any more.
  std::string new_temporary() const;
  void wait_for_disk() const {
    if (before_disk_) before_disk_();
  }

  std::string folder_;
  std::function<void()> before_disk_;
};

/// An object on its way in: written to disk as its bytes come, and an object of the store once it is kept. What is not
/// kept is gone with this. One thread at a time.
class ObjectWriter {
 public:
  explicit ObjectWriter(ObjectStore store) : store_(std::move(store)) {}
  ~ObjectWriter();
  ObjectWriter(const ObjectWriter&) = delete;

  Status add(std::span<const std::byte> bytes);
  /// The hash of all that was added; the same every time, and nothing is added after the first.
  const std::string& hash();
  uint64_t size_bytes() const { return size_bytes_; }
  /// All was added: gives its descriptor back until `keep`, so that an upload of many objects needs one at a time.
  void rest();
  /// It is in the store, on disk, when this returns. What is there whole already stays; a damaged object is replaced.
  Status keep();

 private:
  Status open_file();

  ObjectStore store_;
  std::string path_;  ///< empty: there is no file yet, or none any more
  os::Fd file_;
  Sha256 sum_;
  std::string hash_;
  uint64_t size_bytes_ = 0, begun_bytes_ = 0;  ///< all, and what the disk was asked to begin with
};

}  // namespace quern::daemon
