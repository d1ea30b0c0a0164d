// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>
#include <utility>

namespace quern::os {

/// A value behind a lock: it can be touched only inside `with`. Keep what happens there short; never call out.
template <class T>
class Guarded {
 public:
  template <class... A>
  explicit Guarded(A&&... arguments) : value_(std::forward<A>(arguments)...) {}

  template <class F>
  decltype(auto) with(F&& work) {
    std::lock_guard lock(mutex_);
    return std::forward<F>(work)(value_);
  }
  template <class F>
  decltype(auto) with(F&& work) const {
    std::lock_guard lock(mutex_);
    return std::forward<F>(work)(value_);
  }

 private:
  mutable std::mutex mutex_;
  T value_;
};

}  // namespace quern::os
