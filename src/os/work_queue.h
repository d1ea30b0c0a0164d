// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace quern::os {

/// Work for a few threads that may block: many push, many pop. Bounded.
template <class T>
class WorkQueue {
 public:
  explicit WorkQueue(size_t capacity) : capacity_(capacity) {}

  /// False, and `item` is untouched, if it is full or closed.
  [[nodiscard]] bool push(T&& item) {
    std::lock_guard lock(mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    filled_.notify_all();
    return true;
  }
  /// Blocks; nothing once it is closed. Who `yields` gets something only while nobody else waits for it.
  std::optional<T> pop(bool yields = false) {
    std::unique_lock lock(mutex_);
    if (!yields) ++waiting_;
    filled_.wait(lock, [&] { return closed_ || (!items_.empty() && (!yields || waiting_ == 0)); });
    if (!yields) --waiting_;
    if (items_.size() > 1) filled_.notify_all();
    if (closed_) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }
  /// How many wait that do not yield.
  size_t waiting() const {
    std::lock_guard lock(mutex_);
    return waiting_;
  }
  /// All that wait get nothing; what is left comes back to the caller.
  std::vector<T> close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    filled_.notify_all();
    std::vector<T> left(std::make_move_iterator(items_.begin()), std::make_move_iterator(items_.end()));
    items_.clear();
    return left;
  }

 private:
  // Constant after construction.
  size_t capacity_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<T> items_;
  size_t waiting_ = 0;  ///< of those that do not yield
  bool closed_ = false;
};

}  // namespace quern::os
