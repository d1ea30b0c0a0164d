// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
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
  /// Makes the folder if need be, and clears away what an interrupted `put` left behind.
  static Result<ObjectStore> open(const std::string& folder);

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

  /// Nothing happens if there is none.
  void remove(std::string_view hash);

  /// Removes every object but these; how many it were.
  size_t collect(const std::set<std::string>& keep);

 private:
  explicit ObjectStore(std::string folder) : folder_(std::move(folder)) {}
  std::string path_of(std::string_view hash) const;
  bool holds(const std::string& path, std::span<const std::byte> bytes) const;

  std::string folder_;
};

}  // namespace quern::daemon
