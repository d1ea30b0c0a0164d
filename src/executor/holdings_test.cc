// SPDX-License-Identifier: Apache-2.0
#include "executor/holdings.h"

#include <gtest/gtest.h>

#include <thread>

#include "executor/told_test.h"
#include "hal/fake/fake_driver.h"
#include "os/clock.h"

namespace quern::executor {
namespace {

constexpr uint64_t kLoaded = 1, kChunk = Loader::kChunkBytes;
using State = DeviceObject::State;

class HoldingsTest : public testing::Test {
 protected:
  void SetUp() override { open(4 * kChunk, false); }
  void TearDown() override { release(); }

  void open(uint64_t memory_bytes, bool in_place) {
    holdings_.reset();
    device_.reset();
    driver_ = std::move(*hal::fake::create_driver(faults_));
    hal::DeviceOptions options;
    options.memory_bytes = memory_bytes;
    device_ = std::move(*driver_->open(options));
    holdings_ = std::move(*Holdings::create(*device_, in_place, told_.tell(), [this](const Error& why) {
      broken_.with([&](std::string& text) { text = why.text; });
    }));
  }

  static Bytes pattern(uint64_t size) {
    Bytes bytes(size);
    for (uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / kChunk);
    return bytes;
  }
  void load(uint64_t id, uint64_t size) {
    holdings_->load_object({id, size}, *os::immutable_copy("object", pattern(size)));
  }
  void load_program() {
    hal::Source source;
    source.text = "kernel void copy(global const uchar* input, global uchar* output, uint n) {}";
    const Bytes binary = *(*device_->build(source))->binary();
    ASSERT_TRUE(holdings_->load_program({kLoaded, binary.size()}, *os::immutable_copy("binary", binary)).ok());
  }
  // A plan whose only buffer is this object.
  Status prepare(uint64_t id, uint64_t object, uint64_t size) {
    ipc::BoundPlan bound;
    PlannedBuffer& buffer = bound.plan.buffers.emplace_back();
    buffer.role = Role::kConstant;
    buffer.size_bytes = size;
    bound.binding.programs = {kLoaded};
    bound.binding.objects = {object};
    bound.binding.placement.places.resize(1);
    const Bytes bytes = ipc::encode(bound.plan, bound.binding);
    return holdings_->prepare_plan({id, bytes.size()}, *os::immutable_copy("plan", bytes));
  }
  std::shared_ptr<DeviceObject> constant_of(uint64_t plan) { return holdings_->plan(plan)->constants[0]; }
  Bytes contents(hal::Buffer& buffer) {
    Bytes bytes(buffer.size_bytes());
    auto queue = std::move(*device_->create_queue());
    const auto point = queue->read(buffer, 0, bytes);
    EXPECT_TRUE(queue->timeline().wait(*point, Duration::forever()).ok());
    return bytes;
  }

  // No byte reaches the device until `release`.
  void hold() { faults_->held_write_bytes = 1; }
  void release() {
    faults_->held_write_bytes = UINT64_MAX;
    ASSERT_TRUE(device_->create_queue().value()->flush().ok());
  }
  // The loader has begun: it has memory.
  void until_allocated() {
    until([&] { return faults_->bytes_until_failure.load() != UINT64_MAX; });
  }
  template <class F>
  void until(F is_so) {
    while (!is_so()) std::this_thread::yield();  // the test's own time limit ends what never comes
  }
  void expect_loaded(uint64_t id) {
    const auto loaded = told_.next<ipc::Loaded>();
    EXPECT_EQ(loaded.kind, ipc::Loaded::Kind::kObject);
    EXPECT_EQ(loaded.id, id);
    EXPECT_TRUE(loaded.ok) << loaded.text;
  }
  std::string expect_failed(uint64_t id, ErrorCode code) {
    const auto loaded = told_.next<ipc::Loaded>();
    EXPECT_EQ(loaded.id, id);
    EXPECT_FALSE(loaded.ok);
    EXPECT_EQ(name_of(loaded.code), name_of(code)) << loaded.text;
    return loaded.text;
  }

  std::shared_ptr<hal::fake::Faults> faults_ = std::make_shared<hal::fake::Faults>();
  std::unique_ptr<hal::Driver> driver_;
  std::unique_ptr<hal::Device> device_;
  Told told_;
  os::Guarded<std::string> broken_;  ///< why the loader's queue failed
  std::unique_ptr<Holdings> holdings_;
};

TEST_F(HoldingsTest, AnObjectIsCopiedInChunks) {
  const Duration delay = Duration::millis(2);
  faults_->copy_delay_ns = delay.ns;  // of each
  load_program();
  const uint64_t size = 2 * kChunk + 100;
  const Time began = os::now();
  load(7, size);
  ASSERT_TRUE(prepare(1, 7, size).ok());
  expect_loaded(7);
  EXPECT_GE((os::now() - began).ns, 3 * delay.ns);
  const auto object = constant_of(1);
  until([&] { return object->state() == State::kReady; });
  EXPECT_TRUE(contents(*object->buffer()) == pattern(size));
}

TEST_F(HoldingsTest, FramesAreTakenWhileAnObjectLoads) {
  hold();
  load(7, kChunk);
  load_program();
  ASSERT_TRUE(prepare(1, 7, kChunk).ok());
  EXPECT_EQ(constant_of(1)->state(), State::kLoading);
  EXPECT_TRUE(told_.empty());
  release();
  expect_loaded(7);
}

TEST_F(HoldingsTest, ObjectsAreLoadedInOrder) {
  hold();
  for (const uint64_t id : {3, 1, 2}) load(id, 4096);
  release();
  for (const uint64_t id : {3, 1, 2}) expect_loaded(id);
}

TEST_F(HoldingsTest, ALoadThatIsDroppedStopsAtTheNextChunkAndItsMemoryIsFree) {
  hold();
  load(1, 4 * kChunk);  // all that the device has
  until_allocated();
  holdings_->drop_object(1);
  load(2, 4 * kChunk);
  release();
  EXPECT_EQ(expect_failed(1, ErrorCode::kCancelled), "object: was dropped while it was loaded");
  EXPECT_EQ(told_.next<ipc::Dropped>().object, 1U);
  expect_loaded(2);
  EXPECT_TRUE(told_.empty());
}

TEST_F(HoldingsTest, ALoadThatWaitsCanBeDropped) {
  hold();
  load(1, kChunk);
  load(2, kChunk);
  holdings_->drop_object(2);
  release();
  expect_loaded(1);
  expect_failed(2, ErrorCode::kCancelled);
  EXPECT_EQ(told_.next<ipc::Dropped>().object, 2U);
}

TEST_F(HoldingsTest, ADropIsAnsweredWhenTheMemoryIsFree) {
  constexpr uint64_t kAll = 64 << 10;
  open(kAll, false);
  load_program();
  for (uint64_t id = 1; id <= 100; ++id) {
    load(id, kAll);
    ASSERT_TRUE(prepare(id, id, kAll).ok());
    const auto kept = holdings_->plan(id);  // as a lane would
    expect_loaded(id);
    holdings_->drop_plan(id);
    holdings_->drop_object(id);
    EXPECT_EQ(told_.next<ipc::Dropped>().object, id);
    EXPECT_TRUE(device_->allocate(kAll).ok());
  }
  holdings_->drop_object(99);  // of which nobody heard
  EXPECT_EQ(told_.next<ipc::Dropped>().object, 99U);
}

TEST_F(HoldingsTest, AnObjectWithoutRoomIsExhaustedAndTheNextIsTried) {
  load_program();
  load(1, 5 * kChunk);
  expect_failed(1, ErrorCode::kExhausted);
  load(2, kChunk);
  expect_loaded(2);
  // Its plan is prepared all the same: every run of it says what is missing.
  ASSERT_TRUE(prepare(1, 1, kChunk).ok());
  EXPECT_EQ(constant_of(1), nullptr);
  holdings_->drop_object(1);
  EXPECT_EQ(told_.next<ipc::Dropped>().object, 1U);
}

TEST_F(HoldingsTest, ACopyThatFailsIsToldToTheProcessWhichIsToEnd) {
  faults_->fail_copy = 1;
  load(1, kChunk);
  expect_failed(1, ErrorCode::kUnavailable);
  EXPECT_EQ(broken_.with([](const std::string& text) { return text; }), "command: fails by order of a test");
}

TEST_F(HoldingsTest, AnObjectInPlaceIsThereAtOnceAndTakesNoMemory) {
  open(kChunk, true);
  hold();
  load_program();
  load(1, 2 * kChunk);
  ASSERT_FALSE(told_.empty());
  expect_loaded(1);
  ASSERT_TRUE(prepare(1, 1, 2 * kChunk).ok());
  EXPECT_EQ(constant_of(1)->state(), State::kReady);
  EXPECT_EQ(constant_of(1)->buffer()->size_bytes(), 2 * kChunk);
  EXPECT_TRUE(device_->allocate(kChunk).ok());
  holdings_->drop_plan(1);
  holdings_->drop_object(1);
  EXPECT_EQ(told_.next<ipc::Dropped>().object, 1U);
}

TEST_F(HoldingsTest, WhatIsNotSealedOrTooSmallIsRefused) {
  holdings_->load_object({1, 4096}, os::Fd());
  expect_failed(1, ErrorCode::kInvalid);
  holdings_->load_object({2, 4096}, *os::create_shared_memory("open", 4096));
  expect_failed(2, ErrorCode::kInvalid);
  load_program();
  load(3, 4096);
  expect_loaded(3);
  EXPECT_EQ(prepare(1, 3, 8192).error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace quern::executor
