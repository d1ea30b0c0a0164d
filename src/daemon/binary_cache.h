// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace quern::daemon {

/// A compiled program with what the compiler saw of it.
struct BinaryContent {
  Bytes binary;
  Bytes signatures;  ///< as ipc::encode wrote them
};

/// Compiled programs in a folder that servers of one operator share, by the key of the build. Files are written whole
/// and carry their own hash; what is damaged is not there.
class BinaryCache {
 public:
  /// An empty folder name: a cache that holds nothing.
  explicit BinaryCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<BinaryContent> get(const std::string& key) const;
  void put(const std::string& key, const BinaryContent& content) const;

 private:
  std::string folder_;
};

}  // namespace quern::daemon
