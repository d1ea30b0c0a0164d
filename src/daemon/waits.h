// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace quern::daemon {

/// Why a request waits.
enum class Cause : uint8_t {
  kQueue,     ///< for its turn, behind earlier work of its own tenant
  kFairness,  ///< for its turn, while others had theirs
  kMemory,    ///< it has a place, and what is to leave for it is still there
  kSetup,     ///< it has a place, and what it needs is being brought
  kUrgent,    ///< at its gate: someone more urgent is on the device
  kQuota,     ///< at its gate: its function has used its share, of time or of units
};
constexpr size_t kCauses = 6;

/// As in JSON: queue, fairness, memory, setup, urgent, quota.
std::string_view name_of(Cause cause);

/// How long a request waited, by cause. No moment is in two of them; what is in none it was served.
struct Waits {
  std::array<Duration, kCauses> time{};
  /// Of kUrgent, by function; "" is whoever its tenant may not know, and those past kMostNamed.
  struct Urgent {
    std::string function;
    Duration time;
  };
  std::vector<Urgent> urgent;

  Duration of(Cause cause) const { return time[static_cast<size_t>(cause)]; }
  /// Nothing for what is not positive.
  void add(Cause cause, Duration more);
  void add_urgent(const std::string& function, Duration more);
  void add(const Waits& other);
  /// At its gate, whatever closed it.
  Duration gated() const { return of(Cause::kUrgent) + of(Cause::kQuota); }

  static constexpr size_t kMostNamed = 8;
};

/// A kernel that could not be cut into slices, and kept others waiting who were more urgent.
struct WholeKernel {
  std::string entry;
  std::string why;  ///< it cannot be cut, as Binary::unsliceable has it
  Duration held;    ///< the longest that it was on the device although its gate was closed
};

}  // namespace quern::daemon
