// SPDX-License-Identifier: Apache-2.0
#include "hal/sliced.h"

#include <gtest/gtest.h>

#include <numeric>

#include "hal/fake/fake_driver.h"

namespace quern::hal {
namespace {

TEST(RandomSlices, MakeUpTheWholeInOrder) {
  Prng prng(1);
  bool was_cut_in_two = false, was_cut_into_most = false;
  for (int round = 0; round < 1000; ++round) {
    Launch whole;
    whole.dimensions = 1 + static_cast<uint32_t>(prng.below(3));
    whole.local = {1 + prng.below(8), 1, 1};
    for (uint32_t i = 0; i < whole.dimensions; ++i) {
      whole.local[i] = 1 + prng.below(8);
      whole.global[i] = whole.local[i] * (1 + prng.below(i == 1 ? 40 : 20));
    }
    const auto slices = random_slices(whole, prng);
    ASSERT_GE(slices.size(), 1u);
    ASSERT_LE(slices.size(), kMostSlices);
    was_cut_in_two |= slices.size() == 2;
    was_cut_into_most |= slices.size() == kMostSlices;
    uint64_t most = 0;
    for (uint32_t i = 0; i < 3; ++i) most = std::max(most, whole.global[i] / whole.local[i]);
    EXPECT_EQ(slices.size() > 1, most > 1);
    // They differ in one dimension, and there each begins where the one before ended.
    Size3 next = {0, 0, 0};
    for (const Launch& slice : slices)
      for (uint32_t i = 0; i < 3; ++i) {
        ASSERT_GT(slice.global[i], 0u);
        ASSERT_EQ(slice.global[i] % whole.local[i], 0u);
        ASSERT_EQ(slice.local[i], whole.local[i]);
        if (slice.global[i] == whole.global[i]) {
          ASSERT_EQ(slice.offset[i], 0u);
        } else {
          ASSERT_EQ(whole.global[i] / whole.local[i], most);
          ASSERT_EQ(slice.offset[i], next[i]);
        }
        next[i] = slice.offset[i] + slice.global[i];
      }
    EXPECT_EQ(next, whole.global);
  }
  EXPECT_TRUE(was_cut_in_two && was_cut_into_most);
}

TEST(RandomSlices, LeaveAloneWhatTheDriverSizes) {
  Prng prng(1);
  const Launch whole = {.kernel = nullptr, .arguments = {}, .global = {1000, 1, 1}};
  ASSERT_EQ(random_slices(whole, prng).size(), 1u);
  EXPECT_EQ(random_slices(whole, prng)[0].global, whole.global);
}

struct World {
  std::unique_ptr<Driver> driver = create_sliced_driver(std::move(fake::create_driver()).value(), 7);
  std::unique_ptr<Device> device = std::move(driver->open({})).value();
  std::unique_ptr<Queue> queue = std::move(device->create_queue()).value();
  std::unique_ptr<Program> program;

  std::unique_ptr<Kernel> kernel(const std::string& text, const std::string& entry) {
    program = std::move(device->build({text, "", {}})).value();
    return std::move(program->create_kernel(entry)).value();
  }
};

TEST(SlicedDriver, CutsWhatCanBeSliced) {
  World world;
  auto add = world.kernel("kernel void suite_add(global const int* in, global int* out, int value) {}", "suite_add");
  std::vector<int32_t> values(640), result(640);
  std::iota(values.begin(), values.end(), 0);
  auto in = *world.device->allocate(2560), out = *world.device->allocate(2560);
  ASSERT_TRUE(world.queue->write(*in, 0, std::as_bytes(std::span(values))).ok());
  const Argument arguments[] = {in.get(), out.get(), *scalar_of(Dtype::kInt32, int64_t{1})};
  const auto point =
      world.queue->launch({.kernel = add.get(), .arguments = arguments, .global = {640, 1, 1}, .local = {64, 1, 1}});
  ASSERT_TRUE(point.ok());
  EXPECT_GT(*point, 2u);
  const auto read = world.queue->read(*out, 0, std::as_writable_bytes(std::span(result)));
  ASSERT_TRUE(world.queue->timeline().wait(*read, Duration::forever()).ok());
  for (int32_t i = 0; i < 640; ++i) ASSERT_EQ(result[i], i + 1);
}

TEST(SlicedDriver, LaunchesAllElseAsItIs) {
  World world;
  auto index = world.kernel("kernel void suite_index(global uint* out, uint width, uint height) {}", "suite_index");
  auto out = *world.device->allocate(16 * 640);
  const Argument arguments[] = {out.get(), *scalar_of(Dtype::kUint32, int64_t{640}),
                                *scalar_of(Dtype::kUint32, int64_t{1})};
  const auto point =
      world.queue->launch({.kernel = index.get(), .arguments = arguments, .global = {640, 1, 1}, .local = {64, 1, 1}});
  ASSERT_TRUE(point.ok());
  EXPECT_EQ(*point, 1u);
  EXPECT_TRUE(world.queue->timeline().wait(1, Duration::forever()).ok());
  EXPECT_FALSE(world.queue->launch({}).ok());
}

TEST(SlicedDriver, TakesAsManyLaunchesAsAQueue) {
  World world;
  auto add = world.kernel("kernel void suite_add(global const int* in, global int* out, int value) {}", "suite_add");
  auto in = *world.device->allocate(64), out = *world.device->allocate(64);
  const Argument arguments[] = {in.get(), out.get(), *scalar_of(Dtype::kInt32, int64_t{1})};
  uint64_t last = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto point =
        world.queue->launch({.kernel = add.get(), .arguments = arguments, .global = {16, 1, 1}, .local = {1, 1, 1}});
    ASSERT_TRUE(point.ok()) << i << ": " << point.error().text;
    last = *point;
  }
  EXPECT_TRUE(world.queue->timeline().wait(last, Duration::forever()).ok());
}

}  // namespace
}  // namespace quern::hal
