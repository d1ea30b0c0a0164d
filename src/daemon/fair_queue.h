// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quern::daemon {

/// Work of tenants for a few threads that may block. Tenants take turns, and none has all of the threads: what is left
/// is there for another. Bounded, in all and per tenant. Any thread.
template <class T>
class FairQueue {
 public:
  struct Limits {
    size_t waiting = 32, waiting_of_tenant = 8;
    size_t running_of_tenant = 1;  ///< threads that work for a tenant at a time
  };
  struct Item {
    std::string tenant;
    T work;
  };

  explicit FairQueue(Limits limits) : limits_(limits) {}

  /// False, and `work` is untouched, if too much waits or it is closed.
  [[nodiscard]] bool push(const std::string& tenant, T&& work) {
    std::lock_guard lock(mutex_);
    Line& line = lines_[tenant];
    if (is_closed_ || waiting_ >= limits_.waiting || line.items.size() >= limits_.waiting_of_tenant) return false;
    add(tenant, line, std::move(work));
    return true;
  }
  /// For what was taken out and has to go on: it is let in beyond the limits. False if it is closed.
  [[nodiscard]] bool push_again(const std::string& tenant, T&& work) {
    std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    add(tenant, lines_[tenant], std::move(work));
    return true;
  }
  /// Blocks; nothing once it is closed, or once it is finishing and empty. Whoever gets something says when it is
  /// `done`.
  std::optional<Item> pop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (is_closed_) return std::nullopt;
      const auto next = std::find_if(turns_.begin(), turns_.end(), [&](const std::string& tenant) {
        return lines_[tenant].running < limits_.running_of_tenant;
      });
      if (next == turns_.end()) {
        if (is_finishing_ && waiting_ == 0) return std::nullopt;
        changed_.wait(lock);
        continue;
      }
      Item item{*next, {}};
      turns_.erase(next);
      Line& line = lines_[item.tenant];
      item.work = std::move(line.items.front());
      line.items.pop_front();
      ++line.running;
      --waiting_;
      if (!line.items.empty()) turns_.push_back(item.tenant);
      return item;
    }
  }
  void done(const std::string& tenant) {
    std::lock_guard lock(mutex_);
    Line& line = lines_[tenant];
    if (--line.running == 0 && line.items.empty()) lines_.erase(tenant);
    changed_.notify_all();
  }
  /// What waits and is `wanted`, out of its line.
  template <class Wanted>
  std::vector<T> take_out(Wanted wanted) {
    std::lock_guard lock(mutex_);
    std::vector<T> taken;
    for (auto& [tenant, line] : lines_)
      for (auto it = line.items.begin(); it != line.items.end();) {
        if (!wanted(*it)) {
          ++it;
          continue;
        }
        taken.push_back(std::move(*it));
        it = line.items.erase(it);
        --waiting_;
      }
    std::erase_if(turns_, [&](const std::string& tenant) { return lines_[tenant].items.empty(); });
    return taken;
  }
  /// What waits is still given out, in its turn; then those who wait get nothing.
  void finish() {
    std::lock_guard lock(mutex_);
    is_finishing_ = true;
    changed_.notify_all();
  }
  /// All that wait get nothing; what is left comes back.
  std::vector<T> close() {
    {
      std::lock_guard lock(mutex_);
      is_closed_ = true;
      changed_.notify_all();
    }
    return take_out([](const T&) { return true; });
  }

 private:
  struct Line {
    std::deque<T> items;
    size_t running = 0;
  };

  void add(const std::string& tenant, Line& line, T&& work) {
    if (line.items.empty()) turns_.push_back(tenant);
    line.items.push_back(std::move(work));
    ++waiting_;
    changed_.notify_all();
  }

  // Constant after construction.
  const Limits limits_;
  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Line> lines_;  ///< of tenants with work, waiting or running
  std::deque<std::string> turns_;      ///< those with work that waits, in the order of their turns
  size_t waiting_ = 0;
  bool is_closed_ = false, is_finishing_ = false;
};

}  // namespace quern::daemon
