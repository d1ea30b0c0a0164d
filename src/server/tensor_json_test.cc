// SPDX-License-Identifier: Apache-2.0
#include "server/tensor_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/prng.h"

namespace quern::server {
namespace {

// The one element a text gives, as T; an error as its text.
template <class T>
std::pair<T, std::string> real(Dtype dtype, std::string_view text) {
  T value{};
  const std::vector<int64_t> shape = {1};
  TensorReader reader("x", dtype, shape, std::as_writable_bytes(std::span(&value, 1)));
  reader.begin_array() && reader.put_real(text) && reader.end_array();
  return {value, reader.error() ? reader.error()->text : ""};
}

TEST(TensorJson, FractionsAreRoundedOnce) {
  EXPECT_EQ(real<float>(Dtype::kFp32, "0.1").first, 0.1f);
  // Just above the middle of two floats: by way of a double it would be the middle, and go down to even.
  EXPECT_EQ(real<float>(Dtype::kFp32, "1.00000005960464477540").first, std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(real<float>(Dtype::kFp32, "1e-60").first, 0.0f);
  EXPECT_TRUE(std::signbit(real<float>(Dtype::kFp32, "-1e-60").first));
  EXPECT_EQ(real<float>(Dtype::kFp32, "1e-45").first, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(real<double>(Dtype::kFp64, "1e-400").first, 0.0);
  EXPECT_EQ(real<double>(Dtype::kFp64, "2.2250738585072011e-308").first, 2.2250738585072011e-308);
  EXPECT_EQ(real<float>(Dtype::kFp32, "1e39").second, "input x: element 0: 1e39 is no FP32");
  EXPECT_EQ(real<double>(Dtype::kFp64, "1e309").second, "input x: element 0: 1e309 is no FP64");
  EXPECT_EQ(real<float>(Dtype::kFp32, "18446744073709551616").first, 18446744073709551616.0f);
}

TEST(TensorJson, WholeNumbers) {
  EXPECT_EQ(real<int64_t>(Dtype::kInt64, "1e3").first, 1000);
  EXPECT_EQ(real<uint8_t>(Dtype::kUint8, "255.0").first, 255);
  EXPECT_NE(real<uint8_t>(Dtype::kUint8, "256.0").second, "");
  EXPECT_NE(real<int64_t>(Dtype::kInt64, "1.5").second, "");
  EXPECT_NE(real<int64_t>(Dtype::kInt64, "9007199254740993.0").second, "");
  EXPECT_NE(real<uint64_t>(Dtype::kUint64, "18446744073709551616").second, "");
}

TEST(TensorJson, Ranges) {
  struct Case {
    Dtype dtype;
    int64_t least;
    int64_t most;
  };
  for (const Case& c : {Case{Dtype::kInt8, -128, 127}, Case{Dtype::kUint8, 0, 255}, Case{Dtype::kInt16, -32768, 32767},
                        Case{Dtype::kUint16, 0, 65535}, Case{Dtype::kInt32, -2147483648LL, 2147483647},
                        Case{Dtype::kUint32, 0, 4294967295LL}, Case{Dtype::kBool, 0, 1}}) {
    for (const int64_t value : {c.least - 1, c.least, c.most, c.most + 1}) {
      uint64_t bits = 0;
      const std::vector<int64_t> shape = {1};
      TensorReader reader("x", c.dtype, shape, std::as_writable_bytes(std::span(&bits, 1)).first(size_of(c.dtype)));
      EXPECT_EQ(reader.begin_array() && reader.put_int64(value), value >= c.least && value <= c.most)
          << name_of(c.dtype) << " " << value;
    }
  }
}

TEST(TensorJson, NestingFollowsTheShape) {
  const std::vector<int64_t> shape = {2, 3};
  std::vector<uint8_t> into(6);
  // '[', ']' and digits, as a parser would tell them.
  const auto feed = [&](std::string_view text) {
    TensorReader reader("x", Dtype::kUint8, shape, std::as_writable_bytes(std::span(into)));
    for (const char c : text)
      if (!(c == '[' ? reader.begin_array() : c == ']' ? reader.end_array() : reader.put_int64(c - '0'))) break;
    return reader.error() ? reader.error()->text : "";
  };
  EXPECT_EQ(feed("[123456]"), "");
  EXPECT_EQ(into, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(feed("[[654][321]]"), "");
  EXPECT_EQ(into, (std::vector<uint8_t>{6, 5, 4, 3, 2, 1}));
  for (const char* text : {"[12345]", "[1234567]", "[[12][34][56]]", "[[123]]", "[[123][456][7]]", "[[[123][456]]]",
                           "[1[23456]]", "[[123]456]", "[[12][3456]]", "[]", "[[][]]"})
    EXPECT_NE(feed(text), "") << text;
}

TEST(TensorJson, EveryValueComesBack) {
  Prng prng(7);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bits = prng.next();
    double number;
    std::memcpy(&number, &bits, 8);
    float small;
    std::memcpy(&small, &bits, 4);
    if (!std::isfinite(number) || !std::isfinite(small)) continue;
    std::string text;
    ASSERT_TRUE(append_tensor(text, "y", Dtype::kFp64, std::as_bytes(std::span(&number, 1))).ok());
    EXPECT_EQ(real<double>(Dtype::kFp64, text.substr(1, text.size() - 2)).first, number) << text;
    text.clear();
    ASSERT_TRUE(append_tensor(text, "y", Dtype::kFp32, std::as_bytes(std::span(&small, 1))).ok());
    EXPECT_EQ(real<float>(Dtype::kFp32, text.substr(1, text.size() - 2)).first, small) << text;
  }
}

TEST(TensorJson, Written) {
  const auto show = [](Dtype dtype, auto... values) {
    const std::array array = {values...};
    std::string text;
    EXPECT_TRUE(append_tensor(text, "y", dtype, std::as_bytes(std::span(array))).ok());
    return text;
  };
  EXPECT_EQ(show(Dtype::kFp32, 1.0f, -0.0f, 0.1f, 1e20f), "[1.0,-0.0,0.1,1e+20]");
  EXPECT_EQ(show(Dtype::kUint64, ~uint64_t{0}), "[18446744073709551615]");
  EXPECT_EQ(show(Dtype::kInt8, int8_t{-128}, int8_t{65}), "[-128,65]");
  EXPECT_EQ(show(Dtype::kBool, uint8_t{0}, uint8_t{1}, uint8_t{7}), "[false,true,true]");
  const double nan = std::nan("");
  std::string text;
  const Status status = append_tensor(text, "y", Dtype::kFp64, std::as_bytes(std::span(&nan, 1)));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text,
            "output y: element 0 is NaN, which JSON cannot say; ask for binary (\"binary_data\": true)");
}

}  // namespace
}  // namespace quern::server
