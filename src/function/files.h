// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace quern {

/// A file whose bytes are kept elsewhere: `Files` has only its head, which says what tensors are in it.
struct LargeFile {
  /// The elements of one tensor, or all of a file without a header.
  struct Slice {
    uint64_t offset = 0, size_bytes = 0;
    std::string sha256 = {};
    bool operator==(const Slice&) const = default;
  };
  uint64_t size_bytes = 0;
  std::string sha256;         ///< of all of it
  std::vector<Slice> slices;  ///< ascending, none within another
  bool operator==(const LargeFile&) const = default;
};

/// The files of a function's folder by relative path, as a tar brought them.
struct Files : std::map<std::string, Bytes, std::less<>> {
  using map::map;
  std::map<std::string, LargeFile, std::less<>> large;  ///< those of which only the head is here
  std::set<std::string, std::less<>> links;             ///< names that the tar had as links: nothing of them is here
};

}  // namespace quern
