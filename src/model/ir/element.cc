// SPDX-License-Identifier: Apache-2.0
#include "model/ir/element.h"

#include <bit>

namespace quern::model::ir::detail {

float fp16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));
  // 2^-24 is the smallest step of a number below 2^-14, which has no leading 1.
  if (magnitude < 0x400) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t fp16_of(double value) { return static_cast<uint16_t>(scalar_of(Dtype::kFp16, value)->bits); }
uint16_t bf16_of(double value) { return static_cast<uint16_t>(scalar_of(Dtype::kBf16, value)->bits); }

}  // namespace quern::model::ir::detail
