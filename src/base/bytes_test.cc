// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

enum class Colour : uint8_t { kRed, kBlue };

TEST(Bytes, ReadsBackWhatWasWritten) {
  ByteWriter writer;
  writer.put(uint32_t{7});
  writer.put(-5.5);
  writer.put(Colour::kBlue);
  writer.put(true);
  writer.put_text("text");
  writer.put_text("");
  writer.raw(as_bytes_of("raw"));
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.get<uint32_t>(), 7u);
  EXPECT_EQ(reader.get<double>(), -5.5);
  EXPECT_EQ(reader.get<Colour>(), Colour::kBlue);
  EXPECT_TRUE(reader.get<bool>());
  EXPECT_EQ(reader.get_text(), "text");
  EXPECT_EQ(reader.get_text(), "");
  EXPECT_FALSE(reader.at_end());
  EXPECT_EQ(as_text(reader.raw(3)), "raw");
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(reader.at_end());
}

TEST(Bytes, IsLittleEndian) {
  ByteWriter writer;
  writer.put(uint32_t{0x01020304});
  EXPECT_EQ(as_text(writer.bytes()), "\x04\x03\x02\x01");
}

TEST(Bytes, NeverReadsPastTheEndAndStaysFailed) {
  const Bytes bytes(3, std::byte{1});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<uint8_t>(), 0u) << "though there is one";
  EXPECT_EQ(reader.get_text(), "");
  EXPECT_TRUE(reader.raw(0).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(Bytes, KeepsToLimits) {
  ByteWriter writer;
  writer.put_text("hello");
  EXPECT_EQ(ByteReader(writer.bytes()).get_text(5), "hello");
  ByteReader too_long(writer.bytes());
  EXPECT_EQ(too_long.get_text(4), "");
  EXPECT_FALSE(too_long.ok());
  ByteReader too_many(writer.bytes());
  EXPECT_EQ(too_many.get_count(4), 0u);
  EXPECT_FALSE(too_many.ok());
  ByteWriter lie;
  lie.put(uint32_t{0xffffffff});
  ByteReader liar(lie.bytes());
  EXPECT_EQ(liar.get_text(SIZE_MAX), "");
  EXPECT_FALSE(liar.ok());
}

TEST(Bytes, ABoolIsTrueForAnyByteButZero) {
  const Bytes bytes = {std::byte{2}, std::byte{0}};
  ByteReader reader(bytes);
  EXPECT_TRUE(reader.get<bool>());
  EXPECT_FALSE(reader.get<bool>());
}

}  // namespace
}  // namespace quern
