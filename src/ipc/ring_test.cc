// SPDX-License-Identifier: Apache-2.0
#include "ipc/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>

#include "base/prng.h"

namespace quern::ipc {
namespace {

struct Shared {
  RingHead head;
  RingTail tail;
  alignas(64) std::byte data[256 * 1024];
};

Bytes pattern(uint64_t seed, size_t size) {
  Prng prng(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(prng.next());
  return bytes;
}

TEST(Ring, RecordsOfEverySizeComeOutAsTheyWentInAcrossManyWraps) {
  auto shared = std::make_unique<Shared>();
  RingProducer producer(shared->head, shared->tail, shared->data);
  RingConsumer consumer(shared->head, shared->tail, shared->data);
  Prng prng(1);
  Bytes got;
  uint64_t pushed = 0, popped = 0;
  std::vector<size_t> sizes;
  while (popped < 20000) {
    const size_t size = prng.below(8) == 0 ? prng.below(kLargestRecord + 1) : prng.below(200);
    if (pushed < 20000 && prng.below(3) && producer.push(pattern(pushed, size)).ok()) {
      sizes.push_back(size);
      ++pushed;
      continue;
    }
    auto popped_one = consumer.pop(got);
    ASSERT_TRUE(popped_one.ok());
    if (!*popped_one) continue;
    ASSERT_EQ(got, pattern(popped, sizes[popped]));
    ++popped;
  }
}

TEST(Ring, OneThatIsReadToItsEndStartsAgainAtItsFirstByte) {
  auto shared = std::make_unique<Shared>();
  RingProducer producer(shared->head, shared->tail, shared->data);
  RingConsumer consumer(shared->head, shared->tail, shared->data);
  Bytes got;
  for (uint64_t i = 0; i < 10000; ++i) {
    const std::vector<size_t> sizes = i % 2 == 0 ? std::vector<size_t>{200, 300} : std::vector<size_t>{200};
    for (const size_t size : sizes) ASSERT_TRUE(producer.push(pattern(i, size)).ok());
    for (const size_t size : sizes) {
      ASSERT_TRUE(*consumer.pop(got));
      ASSERT_EQ(got, pattern(i, size));
    }
    ASSERT_FALSE(*consumer.pop(got));
  }
  EXPECT_TRUE(std::all_of(shared->data + 1024, std::end(shared->data), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Ring, AllOfItsRoomIsThereAfterItStartedAgain) {
  auto shared = std::make_unique<Shared>();
  RingProducer producer(shared->head, shared->tail, shared->data);
  RingConsumer consumer(shared->head, shared->tail, shared->data);
  const auto records_that_fit = [&] {
    int count = 0;
    while (producer.push(Bytes(1000)).ok()) ++count;
    return count;
  };
  const int at_first = records_that_fit();
  Bytes got;
  for (int i = 0; i < at_first; ++i) ASSERT_TRUE(*consumer.pop(got));
  EXPECT_FALSE(producer.is_half_full());
  ASSERT_TRUE(producer.push(Bytes(8)).ok());
  ASSERT_TRUE(*consumer.pop(got));
  EXPECT_EQ(records_that_fit(), at_first);
  for (int i = 0; i < at_first; ++i) ASSERT_TRUE(*consumer.pop(got));
  EXPECT_FALSE(*consumer.pop(got));
}

TEST(Ring, AFullRingRefusesAndTakesAgainOnceRead) {
  auto shared = std::make_unique<Shared>();
  RingProducer producer(shared->head, shared->tail, shared->data);
  RingConsumer consumer(shared->head, shared->tail, shared->data);
  const Bytes record(kLargestRecord);
  int count = 0;
  while (producer.push(record).ok()) ++count;
  EXPECT_GE(count, 4);
  Bytes got;
  ASSERT_TRUE(*consumer.pop(got));
  ASSERT_TRUE(*consumer.pop(got));
  EXPECT_TRUE(producer.push(record).ok());
}

TEST(Ring, AWriterThatLiesIsAnErrorAndNeverReadPastTheData) {
  const uint64_t lies[] = {1, 7, 8, 16, 4096, sizeof(Shared::data), sizeof(Shared::data) + 8, ~0ULL, ~0ULL - 7};
  for (uint64_t lie : lies) {
    for (uint32_t size : {0U, 8U, 1U << 20, ~0U, ~0U - 1}) {
      auto shared = std::make_unique<Shared>();
      std::memcpy(shared->data, &size, sizeof size);
      shared->head.written.store(lie);
      shared->head.start.store(size);  // a lie, too
      RingConsumer consumer(shared->head, shared->tail, shared->data);
      Bytes got;
      for (int i = 0; i < 4; ++i) {
        const auto popped = consumer.pop(got);
        if (!popped.ok() || !*popped) break;
        ASSERT_LE(got.size(), kLargestRecord);
      }
    }
  }
}

TEST(Ring, AReaderThatLiesStopsTheWriterOnly) {
  auto shared = std::make_unique<Shared>();
  RingProducer producer(shared->head, shared->tail, shared->data);
  ASSERT_TRUE(producer.push(Bytes(100)).ok());
  shared->tail.read.store(~0ULL);
  const Status pushed = producer.push(Bytes(100));
  ASSERT_FALSE(pushed.ok());
  EXPECT_EQ(pushed.error().code, ErrorCode::kUnavailable);
}

TEST(Ring, ASleeperIsAlwaysSeenOrSeesTheRecord) {
  auto shared = std::make_unique<Shared>();
  RingProducer producer(shared->head, shared->tail, shared->data);
  RingConsumer consumer(shared->head, shared->tail, shared->data);
  constexpr int kRounds = 20000;
  std::atomic<int> wakes{0};
  std::thread writer([&] {
    for (int i = 0; i < kRounds; ++i) {
      while (!producer.push(Bytes(8)).ok()) std::this_thread::yield();
      if (producer.consumer_sleeps()) {
        ++wakes;
        wakes.notify_one();
      }
    }
  });
  Bytes got;
  int taken = 0, seen = 0;
  while (taken < kRounds) {
    const auto popped = consumer.pop(got);
    ASSERT_TRUE(popped.ok());
    if (*popped) {
      ++taken;
      continue;
    }
    // Would hang here if a record could slip in between the look and the sleep.
    if (consumer.prepare_sleep()) wakes.wait(seen);
    consumer.woke();
    seen = wakes.load();
  }
  writer.join();
}

}  // namespace
}  // namespace quern::ipc
