// SPDX-License-Identifier: Apache-2.0
#include "model/onnx/wire.h"

#include <limits>

namespace quern::model::onnx {

bool WireReader::fail(std::string_view problem) {
  if (problem_.empty()) problem_ = problem;
  return false;
}

bool WireReader::varint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (left_.empty()) return fail("the bytes end within a number");
    const auto byte = std::to_integer<uint64_t>(left_.front());
    left_ = left_.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return fail("a number has more than 10 bytes");
}

bool WireReader::fixed(size_t size, uint64_t& value) {
  if (left_.size() < size) return fail("the bytes end within a number");
  value = 0;
  std::memcpy(&value, left_.data(), size);
  left_ = left_.subspan(size);
  return true;
}

bool WireReader::next(Field& field) {
  if (!ok() || left_.empty()) return false;
  uint64_t key = 0;
  if (!varint(key)) return false;
  field = {};
  if (key >> 3 == 0 || key >> 3 > std::numeric_limits<uint32_t>::max()) return fail("a field number is out of range");
  field.number = static_cast<uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      return varint(field.value);
    case 1:
      field.wire = Wire::kFixed64;
      return fixed(8, field.value);
    case 5:
      field.wire = Wire::kFixed32;
      return fixed(4, field.value);
    case 2: {
      field.wire = Wire::kBytes;
      uint64_t size = 0;
      if (!varint(size)) return false;
      if (size > left_.size()) return fail("a length runs past the end");
      field.bytes = left_.first(size);
      left_ = left_.subspan(size);
      return true;
    }
    default:
      return fail("a field has a wire type that ONNX does not use");
  }
}

}  // namespace quern::model::onnx
