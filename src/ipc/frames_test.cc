// SPDX-License-Identifier: Apache-2.0
#include "ipc/frames.h"

#include <gtest/gtest.h>

#include "ipc/ring.h"

namespace quern::ipc {
namespace {

TEST(Frames, EveryControlFrameComesBackAsItWas) {
  Start start;
  start.device = {"opencl", "Portable", "libOpenCL.so", 3, {1, 2}, 1 << 20, false, "folder"};
  start.lanes = 2;
  const auto back = decode(encode(Frame(start)));
  ASSERT_TRUE(back.ok());
  const auto& got = std::get<Start>(*back);
  EXPECT_EQ(got.device.cores, start.device.cores);
  EXPECT_EQ(got.device.cache_folder, "folder");
  EXPECT_EQ(got.device.platform, "Portable");
  EXPECT_EQ(got.device.library, "libOpenCL.so");
  EXPECT_FALSE(got.device.in_place);
  EXPECT_EQ(got.lanes, 2U);

  Loaded loaded{Loaded::Kind::kPlan, 9, false, ErrorCode::kExhausted, "no room"};
  const auto loaded_back = decode(encode(Frame(loaded)));
  ASSERT_TRUE(loaded_back.ok());
  EXPECT_EQ(std::get<Loaded>(*loaded_back).text, "no room");
  EXPECT_EQ(std::get<Loaded>(*loaded_back).code, ErrorCode::kExhausted);

  Hello hello;
  hello.caps.worker_classes = true;
  hello.caps.timestamps = 1;
  const auto hello_back = decode(encode(Frame(hello)));
  ASSERT_TRUE(hello_back.ok());
  EXPECT_TRUE(std::get<Hello>(*hello_back).caps.worker_classes);
  EXPECT_EQ(std::get<Hello>(*hello_back).caps.timestamps, 1);

  const auto dropped = decode(encode(Frame(Dropped{11})));
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(std::get<Dropped>(*dropped).object, 11U);

  EXPECT_TRUE(std::holds_alternative<AskFlight>(*decode(encode(Frame(AskFlight{})))));
  const auto flight = decode(encode(Frame(Flight{{{7, 3, -5, 9}}})));
  ASSERT_TRUE(flight.ok());
  const auto& launch = std::get<Flight>(*flight).launches.at(0);
  EXPECT_EQ(launch.run, 7U);
  EXPECT_EQ(launch.number, 3U);
  EXPECT_EQ(launch.since_ns, -5);
  EXPECT_EQ(launch.used_ns, 9);
}

TEST(Frames, DiscoveredDevicesComeBackAsTheyWere) {
  Discovered::Found one;
  one.index = 3;
  one.name = "cpu";
  one.kind = Discovered::Found::Kind::kOther;
  one.units = 8;
  one.memory_bytes = uint64_t{5} << 32;
  one.platform = "P";
  one.version = "3.1";
  one.unsliceable = "no clang";
  one.undivided = "one unit";
  one.clock = "timer";
  one.classes = true;
  one.error = "too old";
  Discovered::Found other;
  other.in_place = true;
  const auto back = decode(encode(Frame(Discovered{{one, other}})));
  ASSERT_TRUE(back.ok());
  const auto& got = std::get<Discovered>(*back).devices;
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].index, 3U);
  EXPECT_EQ(got[0].name, "cpu");
  EXPECT_EQ(got[0].kind, Discovered::Found::Kind::kOther);
  EXPECT_EQ(got[0].units, 8U);
  EXPECT_EQ(got[0].memory_bytes, uint64_t{5} << 32);
  EXPECT_EQ(got[0].platform, "P");
  EXPECT_EQ(got[0].version, "3.1");
  EXPECT_EQ(got[0].unsliceable, "no clang");
  EXPECT_EQ(got[0].undivided, "one unit");
  EXPECT_EQ(got[0].clock, "timer");
  EXPECT_TRUE(got[0].classes);
  EXPECT_FALSE(got[0].in_place);
  EXPECT_EQ(got[0].error, "too old");
  EXPECT_FALSE(got[1].classes);
  EXPECT_TRUE(got[1].in_place);
}

TEST(Frames, ADiscoveredDeviceOfAnUnknownKindIsRefused) {
  Discovered::Found one;
  one.kind = static_cast<Discovered::Found::Kind>(4);
  EXPECT_FALSE(decode(encode(Frame(Discovered{{one}}))).ok());
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

TEST(Frames, EveryCommandOfALaneComesBackAsItWas) {
  RunCommand run;
  run.run = 5;
  run.plan = 6;
  run.lane_bytes = uint64_t{3} << 30;
  run.profile = true;
  ByteWriter writer;
  encode(Command(run), writer);
  Command back;
  ASSERT_TRUE(decode(writer.bytes(), back).ok());
  const auto& got = std::get<RunCommand>(back);
  EXPECT_EQ(got.run, 5U);
  EXPECT_EQ(got.plan, 6U);
  EXPECT_EQ(got.lane_bytes, uint64_t{3} << 30);
  EXPECT_TRUE(got.profile);

  writer.clear();
  encode(Command(TrimCommand{}), writer);
  ASSERT_TRUE(decode(writer.bytes(), back).ok());
  EXPECT_TRUE(std::holds_alternative<TrimCommand>(back));
}

TEST(Frames, WorkersComeBackAsTheyWere) {
  const auto back = decode(encode(Frame(Workers{{7, 9}})));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::get<Workers>(*back).workers, (std::vector<int32_t>{7, 9}));
}

TEST(Frames, EveryEventOfALaneComesBackAsItWas) {
  RunEnded ended;
  ended.run = 5;
  ended.ok = false;
  ended.no_room = true;
  ended.ends_executor = true;
  ended.code = ErrorCode::kExhausted;
  ended.text = "no room";
  ended.waited_ns = 17;
  ended.rounds = {1, 2};
  ended.kernels = {{3, 4}};
  ByteWriter writer;
  encode(ended, writer);
  const auto back = decode_lane_event(writer.bytes());
  ASSERT_TRUE(back.ok());
  const auto& got = std::get<RunEnded>(*back);
  EXPECT_EQ(got.run, 5U);
  EXPECT_FALSE(got.ok);
  EXPECT_TRUE(got.no_room);
  EXPECT_TRUE(got.ends_executor);
  EXPECT_EQ(got.code, ErrorCode::kExhausted);
  EXPECT_EQ(got.text, "no room");
  EXPECT_EQ(got.waited_ns, 17);
  EXPECT_EQ(got.rounds, ended.rounds);
  ASSERT_EQ(got.kernels.size(), 1U);
  EXPECT_EQ(got.kernels[0].time_ns, 4U);

  writer.clear();
  encode(LaneTrimmed{}, writer);
  const auto trimmed = decode_lane_event(writer.bytes());
  ASSERT_TRUE(trimmed.ok());
  EXPECT_TRUE(std::holds_alternative<LaneTrimmed>(*trimmed));
}

TEST(Frames, EveryCutAndEveryAddedByteOfAnEventIsDamage) {
  RunEnded ended;
  ended.text = "why";
  ByteWriter writer;
  encode(ended, writer);
  Bytes bytes = writer.take();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_lane_event(std::span(bytes).first(size)).ok()) << size;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_lane_event(bytes).ok());
  bytes.pop_back();
  bytes[0] = std::byte{2};
  EXPECT_FALSE(decode_lane_event(bytes).ok()) << "of an unknown kind";
  bytes[0] = std::byte{1};
  EXPECT_FALSE(decode_lane_event(bytes).ok()) << "LaneTrimmed has no fields";
}

TEST(Frames, AnEventWithAnUnknownCodeIsRefused) {
  RunEnded ended;
  ended.run = 5;
  ended.code = static_cast<ErrorCode>(50);
  ByteWriter writer;
  encode(ended, writer);
  EXPECT_FALSE(decode_lane_event(writer.bytes()).ok());
}

// Whatever a run tells of itself fits one record of its lane's ring.
TEST(Frames, TheLargestEndOfARunFitsARecord) {
  RunEnded ended;
  ended.text.assign(4096, 'x');
  ended.rounds.assign(16, ~uint64_t{0});
  ended.kernels.assign(RunEnded::kMostKernels, {~uint32_t{0}, ~uint64_t{0}});
  ByteWriter writer;
  encode(ended, writer);
  EXPECT_LE(writer.bytes().size(), kLargestRecord);
  const auto back = decode_lane_event(writer.bytes());
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(std::get<RunEnded>(*back).kernels.size(), RunEnded::kMostKernels);
}

}  // namespace
}  // namespace quern::ipc
