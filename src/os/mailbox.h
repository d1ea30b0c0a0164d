// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "os/event.h"

namespace quern::os {

/// Many threads post, one drains. Bounded: `post` says no when full. The reader sleeps on `event()`, which is
/// signalled only when the box goes from empty to not empty.
template <class T>
class Mailbox {
 public:
  Mailbox(Event event, size_t capacity) : event_(std::move(event)), capacity_(capacity) {}

  /// False, and `item` is untouched, if it is full.
  [[nodiscard]] bool post(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
      if (items_.size() > 1) return true;
      maybe_filled_.store(true, std::memory_order_release);
    }
    event_.signal();
    return true;
  }

  /// All that was posted, in order; `into` is emptied first and swapped in, so that no memory is allocated per call.
  void drain(std::vector<T>& into) {
    into.clear();
    if (!maybe_filled_.load(std::memory_order_acquire)) return;
    event_.drain();
    std::lock_guard lock(mutex_);
    std::swap(items_, into);
    maybe_filled_.store(false, std::memory_order_release);
  }

  /// The reader was woken by `event()`. A signal may come after what it tells of was drained already; left standing, it
  /// would wake a reader that polls again and again, for nothing.
  void woken() { event_.drain(); }

  bool maybe_filled() const { return maybe_filled_.load(std::memory_order_acquire); }
  const Event& event() const { return event_; }

 private:
  // Constant after construction.
  Event event_;
  size_t capacity_;
  // A hint for readers that spin; the lock decides.
  std::atomic<bool> maybe_filled_{false};
  // Guarded by mutex_.
  std::mutex mutex_;
  std::vector<T> items_;
};

}  // namespace quern::os
