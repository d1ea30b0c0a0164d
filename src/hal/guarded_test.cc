// SPDX-License-Identifier: Apache-2.0
#include "hal/guarded.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hal/fake/fake_driver.h"

namespace quern::hal {
namespace {

constexpr uint8_t kPoison = 0x7b;

struct GuardedWorld {
  std::unique_ptr<Driver> driver = create_guarded_driver(std::move(fake::create_driver()).value(), kPoison);
  std::unique_ptr<Device> device = std::move(driver->open({})).value();
  std::unique_ptr<Queue> queue = std::move(device->create_queue()).value();
  std::unique_ptr<Program> program;
  std::unique_ptr<Kernel> add;

  GuardedWorld() {
    const std::string text = "kernel void suite_add(global const int* in, global int* out, int value) {}";
    program = std::move(device->build({text, "", {}})).value();
    add = std::move(program->create_kernel("suite_add")).value();
  }
  // out[i] = in[i] + 1 for i below `count`.
  Result<uint64_t> launch(Buffer& in, Buffer& out, uint64_t count) {
    const Argument arguments[] = {&in, &out, *scalar_of(Dtype::kInt32, int64_t{1})};
    return queue->launch({.kernel = add.get(), .arguments = arguments, .global = {count, 1, 1}, .local = {1, 1, 1}});
  }
  Result<Bytes> read(Buffer& buffer) {
    Bytes bytes(buffer.size_bytes());
    QUERN_TRY(const uint64_t point, queue->read(buffer, 0, bytes));
    QUERN_TRY(queue->flush());
    QUERN_TRY(queue->timeline().wait(point, Duration::forever()));
    return bytes;
  }
};

TEST(GuardedDriver, PoisonsWhatIsNotWritten) {
  GuardedWorld world;
  auto arena = *world.device->allocate(1024);
  auto view = *world.device->view(arena, 256, 100);
  const auto bytes = world.read(*view);
  ASSERT_TRUE(bytes.ok()) << bytes.error().text;
  EXPECT_EQ(std::count(bytes->begin(), bytes->end(), std::byte{kPoison}), 100);
}

TEST(GuardedDriver, LetsKernelsWriteAllOfTheirBuffers) {
  GuardedWorld world;
  auto arena = *world.device->allocate(1024);
  auto in = *world.device->view(arena, 0, 400), out = *world.device->view(arena, 512, 400);
  const std::vector<int32_t> values(100, 41);
  ASSERT_TRUE(world.queue->write(*in, 0, std::as_bytes(std::span(values))).ok());
  ASSERT_TRUE(world.launch(*in, *out, 100).ok());
  const auto bytes = world.read(*out);
  ASSERT_TRUE(bytes.ok()) << bytes.error().text;
  const auto* numbers = reinterpret_cast<const int32_t*>(bytes->data());
  EXPECT_EQ(std::count(numbers, numbers + 100, 42), 100);
}

TEST(GuardedDriver, NamesWhoWroteBehindABuffer) {
  GuardedWorld world;
  auto arena = *world.device->allocate(2048);
  auto in = *world.device->view(arena, 0, 1024), out = *world.device->view(arena, 1024, 256);
  const std::vector<int32_t> values(256, 0x01020304);
  ASSERT_TRUE(world.queue->write(*in, 0, std::as_bytes(std::span(values))).ok());
  ASSERT_TRUE(world.launch(*in, *out, 64 + 61).ok());
  const auto found = world.launch(*in, *out, 1);
  ASSERT_FALSE(found.ok()) << "the next submission tells";
  EXPECT_EQ(found.error().code, ErrorCode::kFaulted);
  EXPECT_EQ(finding_in("function f: " + found.error().text),
            (GuardFinding{"suite_add", 1, true, 256, 256, 256 + 61 * 4 - 1}));
  EXPECT_TRUE(world.launch(*in, *out, 1).ok()) << "it is told once";
  EXPECT_TRUE(world.read(*out).ok());
}

TEST(GuardedDriver, WatchesWhatWasWrittenWhole) {
  GuardedWorld world;
  auto in = *world.device->allocate(400), out = *world.device->allocate(396);
  const std::vector<int32_t> values(100);
  ASSERT_TRUE(world.queue->write(*in, 0, std::as_bytes(std::span(values))).ok());
  ASSERT_TRUE(world.queue->write(*out, 0, std::as_bytes(std::span(values)).first(396)).ok());
  auto tail = *world.device->view(out, 256, 140);
  ASSERT_TRUE(world.launch(*in, *tail, 36).ok());
  const auto found = world.read(*out);
  ASSERT_FALSE(found.ok()) << "a view ends with its whole here";
  EXPECT_EQ(finding_in(found.error().text), (GuardFinding{"suite_add", 1, true, 396, 396, 399}));
}

TEST(GuardFinding, ReadsBack) {
  const GuardFinding finding{"k", 3, false, 100, -8, -5};
  EXPECT_EQ(finding_in("before: " + to_text(finding) + " behind"), finding);
  EXPECT_FALSE(finding_in("function f: its run failed"));
  EXPECT_FALSE(finding_in("guards: argument=x"));
}

}  // namespace
}  // namespace quern::hal
