// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "hal/buffer.h"
#include "os/event.h"
#include "os/guarded.h"

namespace quern::executor {

/// A constant or a passing tensor on the device, or on its way there: one copy for all plans and lanes. Its memory goes
/// with its last owner.
class DeviceObject {
 public:
  enum class State : uint8_t { kLoading, kReady, kFailed };

  explicit DeviceObject(uint64_t size_bytes) : size_bytes_(size_bytes) {}

  // Any thread.

  uint64_t size_bytes() const { return size_bytes_; }
  /// Leaves kLoading once, and then stays.
  State state() const { return state_.load(std::memory_order_acquire); }
  /// Once it is ready; null before.
  const std::shared_ptr<hal::Buffer>& buffer() const { return buffer_; }

  /// From now until `unwatch`, `wake` is signalled when it is no longer loading.
  void watch(const os::Event& wake);
  void unwatch(const os::Event& wake);

  /// Nobody wants it any more: who loads it may stop.
  void abandon() { is_abandoned_ = true; }
  bool is_abandoned() const { return is_abandoned_; }

  // Who loads it, one of them and once.

  /// `memory`: where the buffer lies in memory of the host, if it is used in place.
  void become_ready(std::shared_ptr<hal::Buffer> buffer, std::shared_ptr<const void> memory = {});
  void fail() { settle(State::kFailed); }

 private:
  void settle(State state);

  // Constant after construction.
  uint64_t size_bytes_;
  // Written before the state is, read afterwards. The buffer goes before the memory that it uses.
  std::shared_ptr<const void> memory_;
  std::shared_ptr<hal::Buffer> buffer_;
  // Each guards itself.
  std::atomic<State> state_{State::kLoading};
  std::atomic<bool> is_abandoned_{false};
  os::Guarded<std::vector<const os::Event*>> watchers_;
};

}  // namespace quern::executor
