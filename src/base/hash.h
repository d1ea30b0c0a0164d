// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quern {

/// SHA-256 as 64 hex digits: the name of an object, the version of a function, a key as we keep it.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

/// The same of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  /// Of all that was added; the last call.
  std::string take();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

/// The digits of a version that people see and type: the first 12 of its hash.
inline std::string short_version(std::string_view hash) { return std::string(hash.substr(0, 12)); }

}  // namespace quern
