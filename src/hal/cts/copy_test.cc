// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "hal/cts/suite.h"

namespace quern::hal::cts {
namespace {

class Copy : public Suite {};

TEST_F(Copy, WriteAndReadAtOffsets) {
  auto lane = queue();
  std::vector<uint8_t> values(1000);
  std::iota(values.begin(), values.end(), 0);
  auto buffer = filled(*lane, std::vector<uint8_t>(4096, 9));
  QUERN_ASSERT_OK(lane->write(*buffer, 13, bytes_of(values)));
  std::vector<uint8_t> back(1002);
  finish(*lane, lane->read(*buffer, 12, std::as_writable_bytes(std::span(back))));
  EXPECT_EQ(back.front(), 9);
  EXPECT_EQ(back.back(), 9);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), back.begin() + 1));
}

TEST_F(Copy, BetweenBuffersAndWithinOne) {
  auto lane = queue();
  std::vector<uint32_t> values(1024);
  std::iota(values.begin(), values.end(), 0);
  auto a = filled(*lane, values);
  auto b = filled(*lane, std::vector<uint32_t>(1024, 0));
  QUERN_ASSERT_OK(lane->copy(*a, 400, *b, 800, 1200));
  QUERN_ASSERT_OK(lane->copy(*b, 800, *b, 0, 400));
  const auto back = contents<uint32_t>(*lane, *b);
  EXPECT_EQ(back[0], 100u);
  EXPECT_EQ(back[99], 199u);
  EXPECT_EQ(back[100], 0u);
  EXPECT_EQ(back[200], 100u);
  EXPECT_EQ(back[499], 399u);
  EXPECT_EQ(back[500], 0u);
}

TEST_F(Copy, FillRepeatsThePattern) {
  auto lane = queue();
  auto buffer = allocate(4096);
  for (size_t size : {1u, 2u, 4u, 8u, 16u}) {
    std::vector<uint8_t> pattern(size);
    std::iota(pattern.begin(), pattern.end(), 1);
    QUERN_ASSERT_OK(lane->fill(*buffer, 0, 4096, std::as_bytes(std::span("", 1))));
    QUERN_ASSERT_OK(lane->fill(*buffer, 64, 512, bytes_of(pattern)));
    const auto back = contents<uint8_t>(*lane, *buffer);
    EXPECT_EQ(back[63], 0);
    EXPECT_EQ(back[576], 0);
    for (size_t i = 0; i < 512; ++i) ASSERT_EQ(back[64 + i], pattern[i % size]) << size << " " << i;
  }
}

TEST_F(Copy, WhatDoesNotFitIsRefused) {
  auto lane = queue();
  auto buffer = allocate(64);
  auto other = allocate(64);
  std::vector<uint8_t> values(65);
  const auto bytes = bytes_of(values);
  auto writable = std::as_writable_bytes(std::span(values));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->write(*buffer, 0, bytes));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->write(*buffer, 64, bytes.first(1)));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->write(*buffer, std::numeric_limits<uint64_t>::max(), bytes.first(2)));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->write(*buffer, 0, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->read(*buffer, 1, writable.first(64)));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->copy(*buffer, 32, *other, 0, 33));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->copy(*buffer, 0, *other, 32, 33));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->copy(*buffer, 0, *buffer, 16, 32));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->fill(*buffer, 0, 64, bytes.first(3)));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->fill(*buffer, 2, 60, bytes.first(4)));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->fill(*buffer, 0, 6, bytes.first(4)));
  // None of these was submitted.
  auto point = lane->write(*buffer, 0, bytes.first(64));
  QUERN_ASSERT_OK(point);
  EXPECT_EQ(*point, 1u);
  finish(*lane, point);
}

}  // namespace
}  // namespace quern::hal::cts
