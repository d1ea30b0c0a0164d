// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace quern {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double number(Dtype dtype, uint64_t bits) { return number_of(Scalar{dtype, bits}); }

TEST(Dtype, NamesReadBack) {
  for (int i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(dtype_of(name_of(dtype)), dtype);
    EXPECT_EQ(dtype_of_protocol(protocol_name_of(dtype)), dtype);
    if (dtype != Dtype::kBf16) {
      EXPECT_EQ(dtype_of_npy(npy_name_of(dtype)), dtype);
    }
  }
  EXPECT_EQ(npy_name_of(Dtype::kBf16), "");
  EXPECT_EQ(dtype_of_npy(""), std::nullopt);
  EXPECT_EQ(dtype_of("FP32"), std::nullopt);
  EXPECT_EQ(dtype_of_protocol("BYTES"), std::nullopt);
  EXPECT_EQ(size_of(Dtype::kBool), 1u);
  EXPECT_EQ(size_of(Dtype::kBf16), 2u);
  EXPECT_EQ(size_of(Dtype::kUint64), 8u);
  EXPECT_TRUE(is_float(Dtype::kFp16));
  EXPECT_FALSE(is_float(Dtype::kUint64));
  EXPECT_TRUE(is_signed(Dtype::kInt8));
  EXPECT_FALSE(is_signed(Dtype::kBool));
}

TEST(Dtype, IntegersHoldTheirRangeAndNoMore) {
  struct Range {
    Dtype dtype;
    int64_t low, high;
  };
  for (const Range& range : {Range{Dtype::kBool, 0, 1}, Range{Dtype::kInt8, -128, 127}, Range{Dtype::kUint8, 0, 255},
                             Range{Dtype::kInt16, -32768, 32767}, Range{Dtype::kUint16, 0, 65535},
                             Range{Dtype::kInt32, INT32_MIN, INT32_MAX}, Range{Dtype::kUint32, 0, UINT32_MAX}}) {
    for (int64_t value : {range.low, range.high}) {
      ASSERT_TRUE(scalar_of(range.dtype, value)) << name_of(range.dtype);
      EXPECT_EQ(number_of(*scalar_of(range.dtype, value)), static_cast<double>(value));
      EXPECT_EQ(scalar_of(range.dtype, static_cast<double>(value)), scalar_of(range.dtype, value));
      EXPECT_EQ(scalar_of(range.dtype, value)->bits >> (8 * size_of(range.dtype)), 0u) << "the rest is zero";
    }
    EXPECT_FALSE(scalar_of(range.dtype, range.low - 1)) << name_of(range.dtype);
    EXPECT_FALSE(scalar_of(range.dtype, range.high + 1)) << name_of(range.dtype);
    for (double value : {0.5, std::nan(""), kInfinity, -kInfinity, 1e300}) EXPECT_FALSE(scalar_of(range.dtype, value));
  }
  EXPECT_FALSE(scalar_of(Dtype::kUint64, int64_t{-1}));
  EXPECT_EQ(scalar_of(Dtype::kUint64, 0x1p63)->bits, uint64_t{1} << 63);
  EXPECT_FALSE(scalar_of(Dtype::kUint64, 0x1p64));
  EXPECT_FALSE(scalar_of(Dtype::kInt64, 0x1p63));
  EXPECT_EQ(scalar_of(Dtype::kInt64, -0x1p63)->bits, uint64_t{1} << 63);
}

TEST(Dtype, WholeNumbersBeyondInt64AreExact) {
  EXPECT_EQ(scalar_of(Dtype::kUint64, UINT64_MAX), (Scalar{Dtype::kUint64, UINT64_MAX}));
  EXPECT_EQ(scalar_of(Dtype::kUint64, (uint64_t{1} << 63) + 1)->bits, (uint64_t{1} << 63) + 1);
  EXPECT_EQ(scalar_of(Dtype::kInt8, uint64_t{127})->bits, 127u);
  EXPECT_FALSE(scalar_of(Dtype::kInt8, uint64_t{128}));
  EXPECT_FALSE(scalar_of(Dtype::kInt64, uint64_t{1} << 63));
  EXPECT_FALSE(scalar_of(Dtype::kBool, UINT64_MAX));
  EXPECT_EQ(number_of(*scalar_of(Dtype::kFp64, UINT64_MAX)), 0x1p64);
  EXPECT_EQ(number_of(*scalar_of(Dtype::kFp32, UINT64_MAX)), 0x1p64);
  // 2^63 + 2^55 is the middle of two bf16; the 1 behind it is lost on the way through fp64.
  EXPECT_EQ(number_of(*scalar_of(Dtype::kBf16, (uint64_t{1} << 63) + (uint64_t{1} << 55) + 1)), 0x1p63 + 0x1p56);
  EXPECT_EQ(range_of(Dtype::kInt8), "-128 to 127");
  EXPECT_EQ(range_of(Dtype::kInt64), "-9223372036854775808 to 9223372036854775807");
  EXPECT_EQ(range_of(Dtype::kUint64), "0 to 18446744073709551615");
  EXPECT_EQ(range_of(Dtype::kFp32), "");
}

TEST(Dtype, ScalarsAreComparedExactly) {
  const uint64_t odd = (uint64_t{1} << 53) + 1;
  const Scalar whole{Dtype::kInt64, odd}, same{Dtype::kUint64, odd}, next{Dtype::kUint64, odd + 1};
  const Scalar real = *scalar_of(Dtype::kFp64, 0x1p53), minus{Dtype::kInt64, UINT64_MAX};
  EXPECT_TRUE(compare_scalars(whole, same) == 0);
  EXPECT_TRUE(compare_scalars(whole, next) < 0);
  EXPECT_TRUE(compare_scalars(whole, real) > 0) << "a double would round 2^53 + 1 to 2^53";
  EXPECT_TRUE(compare_scalars(real, whole) < 0);
  EXPECT_TRUE(compare_scalars(minus, {Dtype::kUint64, UINT64_MAX}) < 0) << "-1 has the same bits";
  EXPECT_TRUE(compare_scalars({Dtype::kUint64, UINT64_MAX}, *scalar_of(Dtype::kFp64, 0x1p64)) < 0);
  EXPECT_TRUE(compare_scalars({Dtype::kUint64, 0}, *scalar_of(Dtype::kFp64, -0.5)) > 0);
  EXPECT_TRUE(compare_scalars({Dtype::kInt64, uint64_t{1} << 63}, *scalar_of(Dtype::kFp64, -0x1p63)) == 0);
  EXPECT_TRUE(compare_scalars({Dtype::kInt8, 2}, *scalar_of(Dtype::kFp64, 2.5)) < 0);
  EXPECT_TRUE(compare_scalars({Dtype::kInt8, 0xfe}, *scalar_of(Dtype::kFp64, -2.5)) > 0);
  EXPECT_TRUE(compare_scalars({Dtype::kBool, 1}, *scalar_of(Dtype::kFp64, 1.0)) == 0);
  EXPECT_TRUE(compare_scalars(whole, *scalar_of(Dtype::kFp64, kInfinity)) < 0);
  EXPECT_TRUE(compare_scalars(whole, *scalar_of(Dtype::kFp64, -kInfinity)) > 0);
  EXPECT_TRUE(compare_scalars(whole, *scalar_of(Dtype::kFp64, std::nan(""))) == std::partial_ordering::unordered);
  EXPECT_TRUE(compare_scalars(*scalar_of(Dtype::kFp32, std::nan("")), whole) == std::partial_ordering::unordered);
  EXPECT_TRUE(compare_scalars(*scalar_of(Dtype::kFp32, 0.5), *scalar_of(Dtype::kFp64, 0.5)) == 0);
  EXPECT_EQ(text_of(whole), "9007199254740993");
  EXPECT_EQ(text_of(minus), "-1");
  EXPECT_EQ(text_of({Dtype::kInt8, 0xfe}), "-2");
  EXPECT_EQ(text_of({Dtype::kUint64, UINT64_MAX}), "18446744073709551615");
  EXPECT_EQ(text_of(*scalar_of(Dtype::kFp64, 0.5)), "0.5");
}

// Every value of the two small floats, against an independent way to the same number: fp32 has bf16 as its upper half,
// and fp16 is checked by its neighbours.
TEST(Dtype, Bf16IsTheUpperHalfOfFp32) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float expected = std::bit_cast<float>(bits << 16);
    const double value = number(Dtype::kBf16, bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(scalar_of(Dtype::kBf16, value)->bits, 0x7fc0u);
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(scalar_of(Dtype::kBf16, value)->bits, bits) << "the round trip, signed zero too";
    }
  }
}

void check_ties(Dtype dtype, uint32_t infinity_bits) {
  for (uint32_t bits = 0; bits < infinity_bits; ++bits) {
    const double low = number(dtype, bits);
    // Above the largest number, infinity stands where the next one would be.
    const double high = bits + 1 < infinity_bits ? number(dtype, bits + 1) : 2 * low - number(dtype, bits - 1);
    ASSERT_LT(low, high);
    const double middle = (low + high) / 2;
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (uint32_t sign : {0u, 0x8000u}) {
      const double s = sign ? -1 : 1;
      ASSERT_EQ(scalar_of(dtype, s * low)->bits, bits | sign);
      ASSERT_EQ(scalar_of(dtype, s * middle)->bits, even | sign) << bits;
      ASSERT_EQ(scalar_of(dtype, s * std::nextafter(middle, 0))->bits, bits | sign) << bits;
      ASSERT_EQ(scalar_of(dtype, s * std::nextafter(middle, kInfinity))->bits, (bits + 1) | sign) << bits;
    }
  }
  EXPECT_EQ(scalar_of(dtype, kInfinity)->bits, infinity_bits);
  EXPECT_EQ(scalar_of(dtype, -kInfinity)->bits, infinity_bits | 0x8000);
  EXPECT_EQ(number(dtype, infinity_bits), kInfinity);
  EXPECT_TRUE(std::isnan(number(dtype, infinity_bits + 1)));
}

TEST(Dtype, Fp16RoundsToNearestEven) {
  check_ties(Dtype::kFp16, 0x7c00);
  EXPECT_EQ(number(Dtype::kFp16, 0x3c00), 1.0);
  EXPECT_EQ(number(Dtype::kFp16, 0x7bff), 65504.0);
  EXPECT_EQ(number(Dtype::kFp16, 0x0001), 0x1p-24);
  EXPECT_EQ(scalar_of(Dtype::kFp16, 1e-300)->bits, 0u);
}

TEST(Dtype, Bf16RoundsToNearestEven) { check_ties(Dtype::kBf16, 0x7f80); }

TEST(Dtype, WholeNumbersAreRoundedOnce) {
  // 2^62 + 2^54 is the middle of two bf16; the 1 behind it is lost on the way through fp64.
  const int64_t above_middle = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  EXPECT_EQ(number_of(*scalar_of(Dtype::kBf16, above_middle)), 0x1p62 + 0x1p55);
  EXPECT_EQ(number_of(*scalar_of(Dtype::kBf16, -above_middle)), -(0x1p62 + 0x1p55));
  EXPECT_EQ(number_of(*scalar_of(Dtype::kBf16, above_middle - 1)), 0x1p62);
  EXPECT_EQ(number_of(*scalar_of(Dtype::kBf16, INT64_MIN)), -0x1p63);
  const int64_t above_middle_fp32 = (int64_t{1} << 62) + (int64_t{1} << 38) + 1;
  EXPECT_EQ(number_of(*scalar_of(Dtype::kFp32, above_middle_fp32)), 0x1p62 + 0x1p39);
  EXPECT_EQ(number_of(*scalar_of(Dtype::kFp64, INT64_MAX)), 0x1p63);
  EXPECT_EQ(number_of(*scalar_of(Dtype::kFp16, int64_t{65519})), 65504.0);
}

}  // namespace
}  // namespace quern
