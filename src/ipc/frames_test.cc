// SPDX-License-Identifier: Apache-2.0
#include "ipc/frames.h"

#include <gtest/gtest.h>

namespace quern::ipc {
namespace {

PlanFrame sample_plan() {
  PlanFrame plan;
  plan.program = 7;
  plan.buffers = {{PlanFrame::Role::kInput, false, 64, 0}, {PlanFrame::Role::kOutput, true, 64, 0}};
  plan.scalars = {Dtype::kFp32};
  PlanFrame::Launch launch;
  launch.entry = "saxpy";
  launch.global = {64, 1, 1};
  launch.arguments = {{PlanFrame::Argument::Kind::kBuffer, 0, 0},
                      {PlanFrame::Argument::Kind::kScalar, 0, 0},
                      {PlanFrame::Argument::Kind::kLocal, 0, 256}};
  plan.launches = {launch};
  return plan;
}

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

TEST(Frames, APlanIsCheckedAgainstItself) {
  EXPECT_TRUE(decode_plan(encode(sample_plan())).ok());
  auto plan = sample_plan();
  plan.launches[0].arguments[0].index = 2;
  EXPECT_FALSE(decode_plan(encode(plan)).ok());
  plan = sample_plan();
  plan.launches[0].arguments[1].index = 1;
  EXPECT_FALSE(decode_plan(encode(plan)).ok());
  plan = sample_plan();
  plan.launches[0].dimensions = 4;
  EXPECT_FALSE(decode_plan(encode(plan)).ok());
  plan = sample_plan();
  plan.buffers[0].size_bytes = 0;
  EXPECT_FALSE(decode_plan(encode(plan)).ok());
  plan = sample_plan();
  plan.scalars[0] = static_cast<Dtype>(99);
  EXPECT_FALSE(decode_plan(encode(plan)).ok());
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

TEST(Frames, ALongListThatIsNotThereCostsNothing) {
  // A count of 4096 launches with no bytes behind it.
  ByteWriter writer;
  writer.put(uint64_t{1});
  writer.put(uint32_t{0});
  writer.put(uint32_t{0});
  writer.put(uint32_t{4096});
  EXPECT_FALSE(decode_plan(writer.bytes()).ok());
  ByteWriter larger;
  larger.put(uint64_t{1});
  larger.put(~uint32_t{0});
  EXPECT_FALSE(decode_plan(larger.bytes()).ok());
}

}  // namespace
}  // namespace quern::ipc
