// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <numeric>

#include "hal/cts/suite.h"
#include "hal/sliced.h"

namespace quern::hal::cts {
namespace {

class Launches : public Suite {
 protected:
  Scalar number(Dtype dtype, int64_t value) { return *scalar_of(dtype, value); }

  // Launches suite_index into a grid larger than the range, and checks every cell in and outside of it.
  void check_range(uint32_t dimensions, Size3 offset, Size3 global, Size3 local) {
    const uint64_t width = offset[0] + global[0] + 1, height = offset[1] + global[1] + 1;
    const uint64_t cells = width * height * (offset[2] + global[2]);
    auto lane = queue();
    auto out = filled(*lane, std::vector<uint32_t>(4 * cells, 7));
    auto index = kernel("suite_index");
    const Argument arguments[] = {out.get(), number(Dtype::kUint32, static_cast<int64_t>(width)),
                                  number(Dtype::kUint32, static_cast<int64_t>(height))};
    finish(*lane, lane->launch({index.get(), arguments, dimensions, offset, global, local}));
    const auto result = contents<uint32_t>(*lane, *out);
    for (uint64_t i = 0; i < cells; ++i) {
      const Size3 id = {i % width, i / width % height, i / width / height};
      bool is_in = true;
      for (int d = 0; d < 3; ++d) is_in &= id[d] >= offset[d] && id[d] < offset[d] + global[d];
      ASSERT_EQ(result[4 * i], is_in ? id[0] + 1000 * id[1] + 1000000 * id[2] : 7) << id[0] << " " << id[1];
      if (!is_in) continue;
      ASSERT_EQ(result[4 * i + 3], offset[0]);
      if (local[0] == 0) continue;
      ASSERT_EQ(result[4 * i + 1], (id[0] - offset[0]) % local[0]);
      ASSERT_EQ(result[4 * i + 2], local[0] * std::max<uint64_t>(1, local[1]) * std::max<uint64_t>(1, local[2]));
    }
  }

  // Launches `entry` whole and in random slices, with what it reads, what it writes, and `rest` behind them.
  void check_slices(const std::string& entry, const std::vector<Argument>& rest, uint32_t dimensions, Size3 global,
                    Size3 local) {
    const auto& entries = program().entries();
    const auto info = std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.name == entry; });
    ASSERT_NE(info, entries.end());
    // Where the driver cannot tell, nobody slices.
    if (!info->unsliceable.empty()) return;
    auto lane = queue();
    std::vector<uint32_t> values(1024);
    std::iota(values.begin(), values.end(), 100);
    const auto nothing = std::vector<uint32_t>(1024, 7);
    auto in = filled(*lane, values), out = allocate(4096);
    auto one = kernel(entry);
    std::vector<Argument> arguments;
    if (info->arguments[0].is_const) arguments.emplace_back(in.get());
    arguments.emplace_back(out.get());
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const Launch whole = {one.get(), arguments, dimensions, {0, 0, 0}, global, local};
    finish(*lane, lane->write(*out, 0, bytes_of(nothing)));
    finish(*lane, lane->launch(whole));
    const auto expected = contents<uint32_t>(*lane, *out);
    EXPECT_NE(expected, nothing);
    Prng prng(11);
    for (int round = 0; round < 10; ++round) {
      finish(*lane, lane->write(*out, 0, bytes_of(nothing)));
      const auto slices = random_slices(whole, prng);
      EXPECT_GT(slices.size(), 1u);
      for (const Launch& slice : slices) QUERN_ASSERT_OK(lane->launch(slice));
      ASSERT_EQ(contents<uint32_t>(*lane, *out), expected) << entry << ", round " << round;
    }
  }
};

TEST_F(Launches, GoToAPartOfTheUnits) {
  const Caps& caps = device().caps();
  EXPECT_FALSE(device().create_queue(caps.units + 1).ok());
  EXPECT_TRUE(device().create_queue(caps.units).ok());
  if (!caps.partitions) {
    EXPECT_EQ(device().create_queue(1).ok(), caps.units == 1);
    return;
  }
  ASSERT_GT(caps.units, 1u);
  // The parts that are counted on: of 1, 2, 4, ... units, at each multiple of that.
  for (uint32_t size = 1; size < caps.units; size *= 2)
    for (uint32_t first = 0; first + size <= caps.units; first += size)
      EXPECT_TRUE(device().create_queue(size, first).ok()) << size << " from " << first;
  auto whole = queue();
  auto part = device().create_queue(1);
  ASSERT_TRUE(part.ok()) << part.error().text;
  auto out = filled(*whole, std::vector<uint32_t>(4 * 64, 7));
  auto index = kernel("suite_index");
  const Argument arguments[] = {out.get(), number(Dtype::kUint32, 64), number(Dtype::kUint32, 1)};
  finish(**part, (*part)->launch({index.get(), arguments, 1, {0, 0, 0}, {64, 1, 1}, {8, 1, 1}}));
  const auto result = contents<uint32_t>(*whole, *out);
  for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(result[4 * i], i);
  EXPECT_GT((*part)->device_time_ns(), 0u);
}

// Kernels that are long enough to be seen beside each other: in one part they never are, in two they can be.
TEST_F(Launches, InOtherPartsDoNotWait) {
  if (!device().caps().partitions) GTEST_SKIP() << "the device has no partitions";
  constexpr uint32_t kLong = 12'000'000;  // some 20 ms
  const auto overlap = [&](uint32_t first, uint32_t second) {
    auto one = device().create_queue(1, first), two = device().create_queue(1, second);
    EXPECT_TRUE(one.ok() && two.ok());
    auto spins = kernel("suite_spin"), also_spins = kernel("suite_spin");
    auto out = allocate(64 * sizeof(uint32_t)), other = allocate(64 * sizeof(uint32_t));
    const auto point = spin(**one, *spins, *out, kLong), other_point = spin(**two, *also_spins, *other, kLong);
    EXPECT_TRUE((*one)->flush().ok() && (*two)->flush().ok());
    finish(**one, point);
    finish(**two, other_point);
    const auto a = (*one)->timing(*point), b = (*two)->timing(*other_point);
    return a && b && a->start_ns < b->end_ns && b->start_ns < a->end_ns;
  };
  bool did = false;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(overlap(1, 1));
    did |= overlap(0, 1);
  }
  EXPECT_TRUE(did);
}

// Launches of one kernel that are there at once, in some queues as a whole and in one a slice of it.
TEST_F(Launches, OfOneKernelInManyQueuesMayDiffer) {
  if (!device().caps().launch_offset) GTEST_SKIP() << "the device has no launch offset";
  struct Lane {
    std::shared_ptr<Queue> queue;
    std::shared_ptr<Kernel> kernel;
    std::shared_ptr<Buffer> out;
  };
  std::vector<Lane> lanes;
  for (int i = 0; i < 5; ++i) lanes.push_back({queue(), kernel("suite_spin"), allocate(128 * sizeof(uint32_t))});
  for (int round = 0; round < 30; ++round) {
    std::vector<Result<uint64_t>> points;
    for (size_t i = 0; i < lanes.size(); ++i) {
      const Argument arguments[] = {lanes[i].out.get(), number(Dtype::kUint32, 3000)};
      const uint64_t begin = i + 1 == lanes.size() ? 64 : 0;
      points.push_back(lanes[i].queue->launch(
          {lanes[i].kernel.get(), arguments, 1, {begin, 0, 0}, {128 - begin, 1, 1}, {64, 1, 1}}));
    }
    for (const Lane& lane : lanes) QUERN_ASSERT_OK(lane.queue->flush());
    for (size_t i = 0; i < lanes.size(); ++i) finish(*lanes[i].queue, points[i]);
  }
}

TEST_F(Launches, CoverTheirRange) {
  check_range(1, {0, 0, 0}, {1, 1, 1}, {0, 0, 0});
  check_range(1, {0, 0, 0}, {1000, 1, 1}, {0, 0, 0});
  check_range(1, {0, 0, 0}, {640, 1, 1}, {64, 0, 0});
  check_range(2, {0, 0, 0}, {17, 13, 1}, {0, 0, 0});
  check_range(2, {0, 0, 0}, {16, 8, 1}, {4, 2, 1});
  check_range(3, {0, 0, 0}, {16, 8, 4}, {8, 4, 2});
}

TEST_F(Launches, StartAtTheirOffset) {
  if (!device().caps().launch_offset) GTEST_SKIP() << "the device has no launch offset";
  check_range(1, {100, 0, 0}, {64, 1, 1}, {64, 1, 1});
  check_range(1, {100, 0, 0}, {33, 1, 1}, {0, 0, 0});
  check_range(2, {4, 3, 0}, {8, 6, 1}, {4, 2, 1});
  check_range(3, {8, 1, 2}, {8, 8, 2}, {8, 4, 2});
}

TEST_F(Launches, CanHaveSizesNobodyBuiltFor) {
  check_range(1, {0, 0, 0}, {96, 1, 1}, {32, 1, 1});
  check_range(2, {2, 0, 0}, {10, 10, 1}, {5, 2, 1});
}

TEST_F(Launches, CanBeLarge) { check_range(1, {0, 0, 0}, {131072, 1, 1}, {64, 1, 1}); }

TEST_F(Launches, InSlicesDoWhatTheWholeDoes) {
  if (!device().caps().launch_offset) GTEST_SKIP() << "the device has no launch offset";
  check_slices("suite_add", {number(Dtype::kInt32, 5)}, 1, {640, 1, 1}, {64, 1, 1});
  check_slices("suite_add", {number(Dtype::kInt32, 5)}, 1, {1000, 1, 1}, {1, 1, 1});
  check_slices("suite_reverse", {LocalMemory{256}}, 1, {1024, 1, 1}, {64, 1, 1});
  check_slices("suite_table", {}, 1, {1024, 1, 1}, {64, 1, 1});
  check_slices("suite_spin", {number(Dtype::kUint32, 10)}, 1, {1024, 1, 1}, {64, 1, 1});
  check_slices("suite_groups", {number(Dtype::kUint32, 1024)}, 1, {1024, 1, 1}, {64, 1, 1});
  check_slices("suite_groups", {number(Dtype::kUint32, 32)}, 2, {32, 32, 1}, {4, 2, 1});
  check_slices("suite_groups", {number(Dtype::kUint32, 64)}, 2, {64, 16, 1}, {4, 2, 1});
  check_slices("suite_groups", {number(Dtype::kUint32, 8)}, 3, {8, 128, 1}, {8, 4, 1});
}

TEST_F(Launches, PassEveryScalar) {
  auto lane = queue();
  auto out = allocate(9 * sizeof(uint64_t));
  auto scalars = kernel("suite_scalars");
  const Argument arguments[] = {out.get(),
                                number(Dtype::kInt8, -2),
                                number(Dtype::kUint8, 254),
                                number(Dtype::kInt16, -300),
                                number(Dtype::kUint16, 65000),
                                number(Dtype::kInt32, -70000),
                                number(Dtype::kUint32, 4000000000),
                                number(Dtype::kInt64, -(int64_t{1} << 40)),
                                number(Dtype::kUint64, int64_t{1} << 60),
                                *scalar_of(Dtype::kFp32, 1.5)};
  finish(*lane, lane->launch({.kernel = scalars.get(), .arguments = arguments}));
  const auto result = contents<uint64_t>(*lane, *out);
  const std::vector<uint64_t> expected = {0xfe,
                                          254,
                                          uint16_t(-300),
                                          65000,
                                          uint32_t(-70000),
                                          4000000000,
                                          uint64_t(-(int64_t{1} << 40)),
                                          uint64_t{1} << 60,
                                          std::bit_cast<uint32_t>(1.5f)};
  EXPECT_EQ(result, expected);
}

TEST_F(Launches, SeeTheArgumentsOfTheirTime) {
  // One kernel object, set anew while earlier launches may still wait: each has its own values.
  auto lane = queue();
  auto add = kernel("suite_add");
  auto in = filled(*lane, std::vector<int32_t>(256, 1000));
  std::vector<std::shared_ptr<Buffer>> outs;
  for (int i = 0; i < 20; ++i) {
    outs.push_back(allocate(1024));
    const Argument arguments[] = {in.get(), outs.back().get(), number(Dtype::kInt32, i / 2)};
    QUERN_ASSERT_OK(lane->launch({.kernel = add.get(), .arguments = arguments, .global = {256, 1, 1}}));
  }
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(contents<int32_t>(*lane, *outs[i]), std::vector<int32_t>(256, 1000 + i / 2)) << i;
}

TEST_F(Launches, UseLocalMemory) {
  auto lane = queue();
  std::vector<uint32_t> values(640);
  std::iota(values.begin(), values.end(), 0);
  auto in = filled(*lane, values), out = allocate(2560);
  auto reverse = kernel("suite_reverse");
  const Argument arguments[] = {in.get(), out.get(), LocalMemory{256}};
  finish(*lane,
         lane->launch({.kernel = reverse.get(), .arguments = arguments, .global = {640, 1, 1}, .local = {64, 1, 1}}));
  const auto result = contents<uint32_t>(*lane, *out);
  for (uint32_t i = 0; i < 640; ++i) ASSERT_EQ(result[i], i / 64 * 64 + 63 - i % 64);
}

TEST_F(Launches, UseTheRequiredSize) {
  auto lane = queue();
  auto out = filled(*lane, std::vector<uint32_t>(64, 0));
  auto required = kernel("suite_required");
  const Argument arguments[] = {out.get()};
  const Launch good = {.kernel = required.get(), .arguments = arguments, .dimensions = 2, .global = {8, 8, 1}};
  finish(*lane, lane->launch(good));
  EXPECT_EQ(contents<uint32_t>(*lane, *out), std::vector<uint32_t>(64, 8));
  Launch wrong = good;
  wrong.local = {2, 4, 1};
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->launch(wrong));
  wrong = good;
  wrong.global = {6, 8, 1};
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->launch(wrong));
}

TEST_F(Launches, ReadConstantMemory) {
  auto lane = queue();
  std::vector<uint32_t> values(16);
  std::iota(values.begin(), values.end(), 100);
  auto table = filled(*lane, values), out = allocate(256);
  auto look = kernel("suite_table");
  const Argument arguments[] = {table.get(), out.get()};
  finish(*lane, lane->launch({.kernel = look.get(), .arguments = arguments, .global = {64, 1, 1}}));
  EXPECT_EQ(contents<uint32_t>(*lane, *out)[37], 105u);
}

TEST_F(Launches, WithWrongArgumentsAreRefused) {
  auto lane = queue();
  auto buffer = allocate(1024);
  auto add = kernel("suite_add"), reverse = kernel("suite_reverse");
  const Scalar value = number(Dtype::kInt32, 1);
  const auto code_of = [&](Kernel& kernel, const std::vector<Argument>& arguments) {
    return lane->launch({.kernel = &kernel, .arguments = arguments, .global = {64, 1, 1}, .local = {64, 1, 1}});
  };
  Buffer* const none = nullptr;
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {buffer.get(), buffer.get()}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {buffer.get(), buffer.get(), value, value}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {buffer.get(), none, value}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {buffer.get(), value, value}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {buffer.get(), buffer.get(), buffer.get()}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {buffer.get(), buffer.get(), LocalMemory{4}}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*add, {buffer.get(), buffer.get(), number(Dtype::kInt64, 1)}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*reverse, {buffer.get(), buffer.get(), LocalMemory{0}}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*reverse, {buffer.get(), buffer.get(), buffer.get()}));
  const uint64_t most = device().caps().local_memory_bytes;
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, code_of(*reverse, {buffer.get(), buffer.get(), LocalMemory{most + 1}}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid,
                    code_of(*reverse, {buffer.get(), buffer.get(), LocalMemory{std::numeric_limits<uint64_t>::max()}}));
  // None of these was submitted, and the kernel still works.
  auto other = allocate(1024);
  auto point = code_of(*add, {buffer.get(), other.get(), value});
  QUERN_ASSERT_OK(point);
  EXPECT_EQ(*point, 1u);
  finish(*lane, point);
}

TEST_F(Launches, WithWrongSizesAreRefused) {
  auto lane = queue();
  auto in = allocate(1024), out = allocate(1024);
  auto add = kernel("suite_add");
  const Argument arguments[] = {in.get(), out.get(), number(Dtype::kInt32, 1)};
  const auto launch = [&](uint32_t dimensions, Size3 offset, Size3 global, Size3 local) {
    return lane->launch({add.get(), arguments, dimensions, offset, global, local});
  };
  const auto& caps = device().caps();
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(0, {}, {64, 1, 1}, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(4, {}, {64, 1, 1}, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(1, {}, {0, 1, 1}, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(1, {}, {64, 2, 1}, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(1, {}, {65, 1, 1}, {64, 1, 1}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(2, {}, {64, 64, 1}, {64, 0, 1}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(1, {}, {uint64_t{caps.max_group_size} * 2, 1, 1},
                                                {uint64_t{caps.max_group_size} * 2, 1, 1}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(1, {}, {kHuge, 1, 1}, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(3, {}, {uint64_t{1} << 32, uint64_t{1} << 32, 2}, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, launch(1, {kHuge, 0, 0}, {64, 1, 1}, {}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->launch(Launch{}));
  EXPECT_EQ(*lane->timeline().reached(), 0u);
}

}  // namespace
}  // namespace quern::hal::cts
