// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace quern {

using Bytes = std::vector<std::byte>;

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
/// A copy of it.
inline Bytes bytes_of(std::string_view text) {
  const std::span<const std::byte> bytes = as_bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

/// Appends little-endian numbers and length-prefixed text; the other half is ByteReader.
class ByteWriter {
 public:
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void put(T value) {
    raw({reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  void put_text(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    raw(as_bytes_of(text));
  }
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  std::span<const std::byte> bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }
  void clear() { bytes_.clear(); }

 private:
  Bytes bytes_;
};

/// Reads what a stranger wrote: never past the end, never more than a stated limit. After the first
/// thing that does not fit, everything reads as zero or empty and `ok()` is false; ask once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) T get() {
    if constexpr (std::is_same_v<T, bool>) return get<uint8_t>() != 0;  // any other byte is no bool
    T value{};
    if (auto piece = raw(sizeof(T)); ok_) std::memcpy(&value, piece.data(), sizeof(T));
    return value;
  }
  std::string get_text(size_t longest = 4096) {
    const auto size = get<uint32_t>();
    if (size > longest) ok_ = false;
    return std::string(as_text(raw(ok_ ? size : 0)));
  }
  /// The number of elements that follow, at most `most`.
  uint32_t get_count(uint32_t most) {
    const auto count = get<uint32_t>();
    if (count > most) ok_ = false;
    return ok_ ? count : 0;
  }
  std::span<const std::byte> raw(size_t size) {
    if (size > bytes_.size()) ok_ = false;
    if (!ok_) return {};
    auto piece = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return piece;
  }

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace quern
