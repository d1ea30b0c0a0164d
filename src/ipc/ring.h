// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

/// One-way rings of records between two processes, each index in memory that only its owner can write.
///
/// A ring has three parts: `RingHead` and the data, written by the producer, and `RingTail`, written by the consumer.
/// Each part lies in the shared memory of its writer and is mapped read-only by the other, who copies out first and
/// checks afterwards: a stranger can stop or spoil its own half, and nothing else.
///
/// Whoever writes into a ring that was read to its end starts again at the first byte. So a ring touches as much memory
/// as ever waited in it, and one whose consumer keeps up stays within a few cache lines.
namespace quern::ipc {

struct alignas(64) RingHead {
  std::atomic<uint64_t> written{0};  ///< bytes ever written, or passed over
  /// Where it last started again: all before it is read or passed over. Stored before `written`, and only while the
  /// consumer has nothing to read.
  std::atomic<uint64_t> start{0};
};
struct alignas(64) RingTail {
  std::atomic<uint64_t> read{0};      ///< bytes ever read
  std::atomic<uint32_t> sleeping{0};  ///< 1: the consumer sleeps and wants a wake-up
};

/// The largest record; a ring holds at least four.
constexpr size_t kLargestRecord = 60 * 1024;

class RingProducer {
 public:
  /// `data.size()` is a power of two.
  RingProducer(RingHead& head, const RingTail& tail, std::span<std::byte> data);

  /// kExhausted if there is no room; kUnavailable if the consumer's index makes no sense.
  Status push(std::span<const std::byte> record);
  /// True if the consumer sleeps (or is about to) and must be woken; ask after the push.
  bool consumer_sleeps() const;
  /// For records that matter less than others.
  bool is_half_full() const;

 private:
  /// Not read yet; more than there is room for if the consumer's index makes no sense.
  uint64_t waiting(uint64_t read) const {
    return read > written_ ? UINT64_MAX : written_ - (read < start_ ? start_ : read);
  }

  RingHead& head_;
  const RingTail& tail_;
  std::span<std::byte> data_;
  uint64_t written_ = 0, start_ = 0;  ///< our own copies: nobody else's memory decides where we write
};

class RingConsumer {
 public:
  RingConsumer(const RingHead& head, RingTail& tail, std::span<const std::byte> data);

  bool empty() const;
  /// The next record, copied into `into`; false if there is none; an error if the producer wrote nonsense, after
  /// which the ring is of no more use.
  Result<bool> pop(Bytes& into);

  /// Announces that the caller will sleep; false if a record came meanwhile, and then it must not.
  bool prepare_sleep();
  void woke();

 private:
  const RingHead& head_;
  RingTail& tail_;
  std::span<const std::byte> data_;
  uint64_t read_ = 0;
};

}  // namespace quern::ipc
