// SPDX-License-Identifier: Apache-2.0
#include "ipc/frames.h"

#include <gtest/gtest.h>

namespace quern::ipc {
namespace {

TEST(Frames, EveryControlFrameComesBackAsItWas) {
  Start start;
  start.device = {"opencl", 3, {1, 2}, 1 << 20, false, "folder"};
  start.lanes = 2;
  const auto back = decode(encode(Frame(start)));
  ASSERT_TRUE(back.ok());
  const auto& got = std::get<Start>(*back);
  EXPECT_EQ(got.device.cores, start.device.cores);
  EXPECT_EQ(got.device.cache_folder, "folder");
  EXPECT_FALSE(got.device.in_place);
  EXPECT_EQ(got.lanes, 2U);

  Loaded loaded{Loaded::Kind::kPlan, 9, false, ErrorCode::kExhausted, "no room"};
  const auto loaded_back = decode(encode(Frame(loaded)));
  ASSERT_TRUE(loaded_back.ok());
  EXPECT_EQ(std::get<Loaded>(*loaded_back).text, "no room");
  EXPECT_EQ(std::get<Loaded>(*loaded_back).code, ErrorCode::kExhausted);
}

TEST(Frames, EveryCutAndEveryAddedByteIsDamage) {
  const Bytes whole = encode(Frame(Hello{{"opencl", "cpu", "key"}, {1, 2, 3}}));
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(decode(std::span(whole).first(size)).ok()) << size;
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer).ok());
  Bytes unknown = whole;
  unknown[0] = std::byte{200};
  EXPECT_FALSE(decode(unknown).ok());
}

TEST(Frames, ACommandFitsItsRecordAtItsLargest) {
  RunCommand run;
  run.bindings.resize(256);
  run.scalars.resize(4096);
  ByteWriter writer;
  encode(Command(run), writer);
  EXPECT_LE(writer.bytes().size(), size_t{48} * 1024);
  Command back;
  ASSERT_TRUE(decode(writer.bytes(), back).ok());
  EXPECT_EQ(std::get<RunCommand>(back).scalars.size(), 4096U);
}

TEST(Frames, AnEventWithAnUnknownCodeIsRefused) {
  RunEnded ended;
  ended.run = 5;
  ended.code = static_cast<ErrorCode>(50);
  ByteWriter writer;
  encode(ended, writer);
  EXPECT_FALSE(decode_run_ended(writer.bytes()).ok());
}

}  // namespace
}  // namespace quern::ipc
