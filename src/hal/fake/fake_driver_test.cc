// SPDX-License-Identifier: Apache-2.0
#include "hal/fake/fake_driver.h"

#include <gtest/gtest.h>

#include "hal/fake/signatures.h"

namespace quern::hal::fake {
namespace {

struct World {
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::unique_ptr<Driver> driver = std::move(create_driver(faults)).value();
  std::unique_ptr<Device> device = std::move(driver->open({})).value();

  std::unique_ptr<Kernel> kernel(const std::string& text, const std::string& entry) {
    return std::move((*device->build({text, "", {}}))->create_kernel(entry)).value();
  }
};

constexpr const char* kSaxpy =
    "__kernel void saxpy(__global const float* x, __global const float* y, __global float* z, float alpha, uint n) {}";

TEST(Signatures, AreReadAsACompilerReportsThem) {
  auto entries = read_signatures(
      "// kernel void no(int x) {}\n/* kernel */\n#define K kernel\n"
      "void edge(__global float* a, uint n) { if (n) { a[0] = 1; } }\n"
      "__kernel __attribute__((reqd_work_group_size(8, 4, 1)))\nvoid one(__global const float* restrict a,\n"
      "  constant uint *b, __local int* c, const unsigned int d, float4 e) { __local float tile[32]; }\n"
      "kernel void two(void) {}\nkernel void three();\n");
  ASSERT_TRUE(entries.ok()) << entries.error().text;
  ASSERT_EQ(entries->size(), 2u);
  const std::vector<ArgumentInfo> expected = {{"a", "float*", AddressSpace::kGlobal, true},
                                              {"b", "uint*", AddressSpace::kConstant, true},
                                              {"c", "int*", AddressSpace::kLocal, false},
                                              {"d", "uint", AddressSpace::kPrivate, false},
                                              {"e", "float4", AddressSpace::kPrivate, false}};
  EXPECT_EQ((*entries)[0].arguments, expected);
  EXPECT_EQ((*entries)[0].required_group_size, (Size3{8, 4, 1}));
  EXPECT_EQ((*entries)[0].local_memory_bytes, 128u);
  EXPECT_EQ((*entries)[1].name, "two");
  EXPECT_TRUE((*entries)[1].arguments.empty());
}

TEST(Signatures, ThatAreWrongAreRefused) {
  for (const char* text : {"kernel", "kernel void", "kernel int f() {}", "kernel void f(", "kernel void f(int) {}",
                           "kernel void f(int a,) {}", "kernel void f(int a, , int b) {}", "kernel void f(int a)",
                           "kernel void f(a[3]) {}", "kernel void f() { ( } )", "}", "/* no end", "", "#error no"})
    EXPECT_FALSE(read_signatures(text).ok()) << text;
}

TEST(Fake, RefusesWhatItHasNoHostVersionOf) {
  World world;
  auto built = world.device->build({"kernel void unheard_of(global int* x) {}", "", {}});
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().text, "fake: no host version of unheard_of");
}

TEST(Fake, FailsTheLaunchThatWasOrdered) {
  World world;
  auto kernel = world.kernel(kSaxpy, "saxpy");
  auto buffer = *world.device->allocate(64), target = *world.device->allocate(64);
  const Argument arguments[] = {buffer.get(), buffer.get(), target.get(), *scalar_of(Dtype::kFp32, 2.0),
                                *scalar_of(Dtype::kUint32, int64_t{16})};
  auto queue = std::move(world.device->create_queue()).value();
  world.faults->fail_launch = 3;
  const Launch launch = {.kernel = kernel.get(), .arguments = arguments, .global = {16, 1, 1}};
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue->launch(launch).ok() || i == 3);
  EXPECT_EQ(queue->timeline().wait(3, Duration::forever()).error().code, ErrorCode::kFaulted);
  EXPECT_EQ(queue->timeline().reached().error().code, ErrorCode::kFaulted);
  EXPECT_EQ(queue->timeline().last_reached(), 2u) << "the third failed";
  auto other = std::move(world.device->create_queue()).value();
  EXPECT_TRUE(other->timeline().wait(*other->launch(launch), Duration::forever()).ok());
}

TEST(Fake, CountsTimesThatCannotBeTrueByQueue) {
  World world;
  auto kernel =
      world.kernel("kernel void misdated(global const uchar* input, global uchar* output, uint n) {}", "misdated");
  auto buffer = *world.device->allocate(64), target = *world.device->allocate(64);
  const Argument arguments[] = {buffer.get(), target.get(), *scalar_of(Dtype::kUint32, int64_t{64})};
  auto queue = std::move(world.device->create_queue()).value(), other = std::move(world.device->create_queue()).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue->launch({.kernel = kernel.get(), .arguments = arguments}).ok());
  EXPECT_TRUE(queue->timeline().wait(3, Duration::forever()).ok());
  EXPECT_EQ(queue->corrected_timings(), 3u);
  EXPECT_EQ(other->corrected_timings(), 0u);
}

TEST(Fake, FailsAllocationsThatWereOrdered) {
  World world;
  world.faults->bytes_until_failure = 256;
  auto first = world.device->allocate(256);
  EXPECT_TRUE(first.ok());
  EXPECT_EQ(world.device->allocate(1).error().code, ErrorCode::kExhausted);
}

TEST(Fake, CopiesSlowlyIfOrdered) {
  World world;
  world.faults->copy_delay_ns = Duration::millis(5).ns;
  auto queue = std::move(world.device->create_queue()).value();
  auto buffer = *world.device->allocate(64);
  const std::vector<std::byte> bytes(64);
  auto point = queue->write(*buffer, 0, bytes);
  EXPECT_EQ(queue->timeline().wait(*point, Duration::micros(100)).error().code, ErrorCode::kDeadline);
  EXPECT_TRUE(queue->timeline().wait(*point, Duration::forever()).ok());
}

TEST(Fake, StopsAndGoesOnIfOrdered) {
  World world;
  world.faults->is_stopped = true;
  auto queue = std::move(world.device->create_queue()).value();
  auto buffer = *world.device->allocate(64);
  const std::vector<std::byte> bytes(64);
  auto point = queue->write(*buffer, 0, bytes);
  EXPECT_EQ(queue->timeline().wait(*point, Duration::millis(2)).error().code, ErrorCode::kDeadline);
  world.faults->is_stopped = false;
  ASSERT_TRUE(queue->flush().ok());
  EXPECT_TRUE(queue->timeline().wait(*point, Duration::forever()).ok());
}

TEST(Fake, HoldsLargeWritesIfOrderedWhileOthersGoOn) {
  World world;
  world.faults->held_write_bytes = 64;
  auto held = std::move(world.device->create_queue()).value(), other = std::move(world.device->create_queue()).value();
  auto buffer = *world.device->allocate(64);
  const std::vector<std::byte> bytes(64);
  auto point = held->write(*buffer, 0, bytes);
  EXPECT_TRUE(other->timeline().wait(*other->write(*buffer, 0, std::span(bytes).first(63)), Duration::forever()).ok());
  EXPECT_EQ(*held->timeline().reached(), 0u);
  world.faults->held_write_bytes = 65;
  ASSERT_TRUE(held->flush().ok());
  EXPECT_TRUE(held->timeline().wait(*point, Duration::forever()).ok());
}

TEST(Fake, GivesOutMemoryThatIsPoisonedOrZero) {
  for (const bool is_zero : {false, true}) {
    auto faults = std::make_shared<Faults>();
    faults->fresh_memory_is_zero = is_zero;
    auto driver = std::move(create_driver(faults)).value();
    auto device = std::move(driver->open({})).value();
    EXPECT_EQ(device->caps().fresh_memory_is_zero, is_zero);
    auto queue = std::move(device->create_queue()).value();
    auto buffer = *device->allocate(1 << 20);
    std::vector<uint8_t> seen(1 << 20);
    auto point = queue->read(*buffer, 0, std::as_writable_bytes(std::span(seen)));
    ASSERT_TRUE(queue->timeline().wait(*point, Duration::forever()).ok());
    EXPECT_EQ(seen, std::vector<uint8_t>(1 << 20, is_zero ? 0 : kPoison));
  }
}

TEST(Fake, HangsUntilTheDeviceEnds) {
  World world;
  auto kernel = world.kernel("kernel void hang(void) {}", "hang");
  auto queue = std::move(world.device->create_queue()).value();
  auto point = queue->launch({.kernel = kernel.get(), .arguments = {}});
  ASSERT_TRUE(point.ok());
  EXPECT_EQ(queue->timeline().wait(*point, Duration::millis(2)).error().code, ErrorCode::kDeadline);
  queue.reset();
}

TEST(Fake, FailsByOrderOfTheKernel) {
  World world;
  auto kernel = world.kernel("kernel void fail(void) {}", "fail");
  auto queue = std::move(world.device->create_queue()).value();
  auto point = queue->launch({.kernel = kernel.get(), .arguments = {}});
  EXPECT_EQ(queue->timeline().wait(*point, Duration::forever()).error().code, ErrorCode::kFaulted);
}

TEST(FakeDeathTest, FaultsForReal) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        World world;
        auto kernel = world.kernel("kernel void fault_store(global uint* x) {}", "fault_store");
        auto queue = std::move(world.device->create_queue()).value();
        auto buffer = *world.device->allocate(64);
        const Argument arguments[] = {buffer.get()};
        auto point = queue->launch({.kernel = kernel.get(), .arguments = arguments});
        (void)queue->timeline().wait(*point, Duration::forever());
      },
      "");
}

}  // namespace
}  // namespace quern::hal::fake
