// SPDX-License-Identifier: Apache-2.0
//
// A record is a u32 size, a u32 that is zero, and the bytes padded to 8. A record never wraps: where it would, a size
// of kSkip sends the reader to the start. Indices count bytes for ever and are taken modulo the size. To start again is
// to pass over the rest of a round that nobody waits in: it takes no room, and `start` tells the reader.
#include "ipc/ring.h"

#include <bit>
#include <cstring>

namespace quern::ipc {
namespace {
constexpr uint32_t kSkip = ~0U;
constexpr size_t kHeader = 8;
size_t padded(size_t size) { return kHeader + (size + 7) / 8 * 8; }
}  // namespace

RingProducer::RingProducer(RingHead& head, const RingTail& tail, std::span<std::byte> data)
    : head_(head), tail_(tail), data_(data) {
  QUERN_CHECK(std::has_single_bit(data.size()) && data.size() >= 4 * kLargestRecord, "ring size");
}

Status RingProducer::push(std::span<const std::byte> record) {
  QUERN_CHECK(record.size() <= kLargestRecord, "record size");
  const uint64_t read = tail_.read.load(std::memory_order_acquire);
  if (waiting(read) > data_.size()) return unavailable("ring: the reader's index makes no sense");
  const uint64_t round = data_.size() - 1;
  // The reader looks at `start` only once there is something to read, that is after this push.
  if (read == written_ && (written_ & round) != 0) {
    written_ = start_ = (written_ | round) + 1;
    head_.start.store(start_, std::memory_order_relaxed);
  }
  const size_t at = written_ & round;
  const size_t to_end = data_.size() - at;
  const size_t need = padded(record.size());
  const size_t skip = need > to_end ? to_end : 0;
  if (skip + need > data_.size() - waiting(read)) return exhausted("ring: is full");
  std::byte* place = data_.data() + at;
  if (skip) {
    std::memcpy(place, &kSkip, sizeof kSkip);
    place = data_.data();
  }
  const uint32_t header[2] = {static_cast<uint32_t>(record.size()), 0};
  std::memcpy(place, header, sizeof header);
  if (!record.empty()) std::memcpy(place + kHeader, record.data(), record.size());
  written_ += skip + need;
  // Sequentially consistent with the load in consumer_sleeps() and with prepare_sleep(): of "record there" and
  // "consumer sleeps" at least one side sees the other's store.
  head_.written.store(written_, std::memory_order_seq_cst);
  return {};
}

bool RingProducer::is_half_full() const {
  const uint64_t read = tail_.read.load(std::memory_order_acquire);
  return waiting(read) > data_.size() / 2;
}

bool RingProducer::consumer_sleeps() const { return tail_.sleeping.load(std::memory_order_seq_cst) != 0; }

RingConsumer::RingConsumer(const RingHead& head, RingTail& tail, std::span<const std::byte> data)
    : head_(head), tail_(tail), data_(data) {
  QUERN_CHECK(std::has_single_bit(data.size()) && data.size() >= 4 * kLargestRecord, "ring size");
}

bool RingConsumer::empty() const { return head_.written.load(std::memory_order_acquire) == read_; }

Result<bool> RingConsumer::pop(Bytes& into) {
  const uint64_t written = head_.written.load(std::memory_order_acquire);
  if (written == read_) return false;
  const uint64_t start = head_.start.load(std::memory_order_relaxed);
  if (start > read_ && start - read_ < data_.size() && (start & (data_.size() - 1)) == 0) read_ = start;
  if (written <= read_ || written - read_ > data_.size()) return invalid("ring: the writer's index makes no sense");
  uint64_t available = written - read_;
  size_t at = read_ & (data_.size() - 1);
  uint32_t size = 0;
  std::memcpy(&size, data_.data() + at, sizeof size);
  if (size == kSkip) {
    const size_t to_end = data_.size() - at;
    if (to_end > available) return invalid("ring: a skip goes past what was written");
    read_ += to_end;
    available -= to_end;
    at = 0;
    if (available == 0) return invalid("ring: a skip with nothing behind it");
    std::memcpy(&size, data_.data(), sizeof size);
  }
  // `size` is a copy: whatever the writer does to its memory from here on, these checks hold.
  if (size > kLargestRecord || padded(size) > available || at + padded(size) > data_.size())
    return invalid("ring: a record goes past what was written");
  into.assign(data_.begin() + static_cast<ptrdiff_t>(at + kHeader),
              data_.begin() + static_cast<ptrdiff_t>(at + kHeader + size));
  read_ += padded(size);
  tail_.read.store(read_, std::memory_order_release);
  return true;
}

bool RingConsumer::prepare_sleep() {
  tail_.sleeping.store(1, std::memory_order_seq_cst);
  if (head_.written.load(std::memory_order_seq_cst) == read_) return true;
  tail_.sleeping.store(0, std::memory_order_relaxed);
  return false;
}

void RingConsumer::woke() { tail_.sleeping.store(0, std::memory_order_relaxed); }

}  // namespace quern::ipc
