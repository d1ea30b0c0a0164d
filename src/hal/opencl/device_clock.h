// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>

#include "base/time.h"
#include "hal/queue.h"

namespace quern::hal::opencl {

/// The timestamps of one command, on the device's clock.
struct Stamps {
  int64_t queued_ns = 0, start_ns = 0, end_ns = 0;
};

/// Turns timestamps of a device into times of our steady clock, and never into impossible ones.
///
/// The offset between the clocks comes from brackets: a timestamp of the device, and two times of ours between which it
/// was taken. The offset is right to half the width of its bracket. The clocks may drift by 500 parts in a million
/// against each other, so a narrow bracket is worth a new one after kGoodFor. One thread at a time.
class DeviceClock {
 public:
  /// The drift in this time is 5 us.
  static constexpr Duration kGoodFor = Duration::millis(10);
  /// An interval that is off by more was corrected because a clock is wrong, not because it is inexact.
  static constexpr Duration kTolerance = Duration::micros(20);

  bool is_known() const { return width_ns_ != kNever; }
  bool is_stale(Time now) const { return !is_known() || now - read_ > kGoodFor; }

  /// The offset is known from elsewhere: what is added to a timestamp to get a time of ours.
  void set(Duration to_steady, Time now);
  /// The device's clock was at `device_ns` between two times of ours. Taken if the old offset is stale, or less exact.
  void saw(Time before, int64_t device_ns, Time after);
  /// A command that was handed to the driver between `before` and `after`, and whose end was seen at `seen`. Its QUEUED
  /// counts only if it fits the other stamps: Intel's runtime (2026.22) gives 0 for a marker. Else all of the command
  /// lies between `before` and `seen`, which is less exact.
  void saw_command(Time before, Time after, Time seen, const Stamps& stamps);

  /// When a launch ran. It lies between `submitted` and `seen`, and begins no earlier than the launch before it ended:
  /// stamps that say otherwise are moved, or cut if they are longer than that. Those that were off by more than
  /// kTolerance are counted, and make the offset stale.
  Interval place(const Stamps& stamps, Time submitted, Time seen);

  /// Intervals that could not be believed.
  uint64_t corrected() const { return corrected_; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  int64_t to_steady_ns_ = 0;
  int64_t width_ns_ = kNever;  // of the bracket
  Time read_;
  int64_t last_end_ns_ = 0;  // of the launch before, on our clock
  uint64_t corrected_ = 0;
};

}  // namespace quern::hal::opencl
