// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quern {

/// SHA-256 as 64 hex digits: the name of an object, the version of a function, a key as we keep it.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);
inline constexpr size_t kSha256Digits = 64;

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

/// FNV-1a over numbers and texts, each with its length: the same in every build and on every machine. Tells things
/// apart; keeps nobody from making two that are alike.
class Fnv1a {
 public:
  Fnv1a& add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    return add(uint64_t{text.size()});
  }
  Fnv1a& add(uint64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(number >> (8 * i)));
    return *this;
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  uint64_t value_ = 0xcbf29ce484222325;
};

/// The digits of a version that people see and type: the first 12 of its hash.
inline std::string short_version(std::string_view hash) { return std::string(hash.substr(0, 12)); }

}  // namespace quern
