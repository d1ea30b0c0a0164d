// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace quern::model::onnx {

using Span = std::span<const std::byte>;

/// How a field is encoded. Groups (3 and 4) are deprecated, no ONNX file has them, and they are refused.
enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a protobuf message.
struct Field {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;  ///< of a varint or a fixed number; little-endian bits
  Span bytes;          ///< of Wire::kBytes: a part of the message, not a copy

  std::string_view text() const { return as_text(bytes); }
};

/// Takes one protobuf message apart, field by field, without copying. The message is a stranger's: every length is
/// checked against the bytes that are there. After the first field that does not fit, `next` returns false for good and
/// `problem` says why.
class WireReader {
 public:
  explicit WireReader(Span message) : begin_(message.data()), left_(message) {}

  /// Reads the next field. Returns false at the end of the message and after a problem.
  bool next(Field& field);
  /// Nothing is wrong so far.
  bool ok() const { return problem_.empty(); }
  /// What is wrong, as a clause: "a length runs past the end". Empty if nothing is.
  std::string_view problem() const { return problem_; }
  /// Where in the message the reader stands, in bytes.
  size_t offset() const { return static_cast<size_t>(left_.data() - begin_); }

 private:
  bool varint(uint64_t& value);
  bool fixed(size_t size, uint64_t& value);
  bool fail(std::string_view problem);

  const std::byte* begin_;
  Span left_;
  std::string_view problem_;
};

/// Calls `take` with every number of a repeated field of varints, which a file may write packed (one field of bytes) or
/// as one field each. Returns false if a packed field ends within a number, or if `take` returns false.
template <class Take>
bool each_varint(const Field& field, Take take) {
  if (field.wire == Wire::kVarint) return take(field.value);
  if (field.wire != Wire::kBytes) return false;
  uint64_t value = 0;
  int shift = 0;
  for (const std::byte byte : field.bytes) {
    if (shift > 63) return false;
    value |= (std::to_integer<uint64_t>(byte) & 0x7f) << shift;
    shift += 7;
    if ((byte & std::byte{0x80}) != std::byte{0}) continue;
    if (!take(value)) return false;
    value = 0;
    shift = 0;
  }
  return shift == 0;
}

/// The same of a repeated field of numbers of `sizeof(Bits)` bytes each: uint32_t for floats, uint64_t for doubles.
template <class Bits, class Take>
bool each_fixed(const Field& field, Take take) {
  if (field.wire == (sizeof(Bits) == 4 ? Wire::kFixed32 : Wire::kFixed64)) return take(static_cast<Bits>(field.value));
  if (field.wire != Wire::kBytes || field.bytes.size() % sizeof(Bits) != 0) return false;
  for (size_t at = 0; at < field.bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, field.bytes.data() + at, sizeof bits);
    if (!take(bits)) return false;
  }
  return true;
}

}  // namespace quern::model::onnx
