// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace quern::sim {

/// Records by ids that count up, as those of requests, runs and executors do; they need not come quite in order.
/// Finding one is two look-ups in vectors; memory grows with the records that live, and with 4 bytes for every id from
/// the oldest of them on. A record moves when another is added.
template <class T>
class IdTable {
 public:
  T* find(uint64_t id) {
    if (id < first_ || id - first_ >= slots_.size()) return nullptr;
    const uint32_t slot = slots_[id - first_];
    return slot == kNone ? nullptr : &records_[slot];
  }
  /// `id` is not there.
  T& add(uint64_t id) {
    if (live_ == 0) slots_.clear(), first_ = id, gone_ = 0;
    QUERN_CHECK((id < first_ ? first_ - id : id - first_) < kWidest, "sim: ids do not count up");
    if (id < first_) {
      slots_.insert(slots_.begin(), first_ - id, kNone);
      first_ = id, gone_ = 0;
    }
    if (id - first_ >= slots_.size()) slots_.resize(id - first_ + 1, kNone);
    gone_ = std::min<size_t>(gone_, id - first_);
    QUERN_CHECK(slots_[id - first_] == kNone, "sim: an id is used twice");
    uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(records_.size());
      records_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
      records_[slot] = T{};
    }
    slots_[id - first_] = slot;
    ++live_;
    return records_[slot];
  }
  void erase(uint64_t id) {
    uint32_t& slot = slots_[id - first_];
    free_.push_back(slot);
    slot = kNone;
    --live_;
    while (gone_ < slots_.size() && slots_[gone_] == kNone) ++gone_;
    if (gone_ > 64 && gone_ > slots_.size() / 2) {
      slots_.erase(slots_.begin(), slots_.begin() + static_cast<ptrdiff_t>(gone_));
      first_ += gone_;
      gone_ = 0;
    }
  }
  /// All that live, in the order of their ids.
  template <class F>
  void each(F&& work) const {
    for (const uint32_t slot : slots_)
      if (slot != kNone) work(records_[slot]);
  }
  void clear() {
    slots_.clear(), records_.clear(), free_.clear();
    first_ = gone_ = live_ = 0;
  }
  size_t size() const { return live_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kWidest = uint64_t{1} << 32;

  std::vector<uint32_t> slots_;  ///< of `first_` and those after it
  std::vector<T> records_;
  std::vector<uint32_t> free_;
  uint64_t first_ = 0;
  size_t gone_ = 0;  ///< at the front of `slots_`
  size_t live_ = 0;
};

}  // namespace quern::sim
