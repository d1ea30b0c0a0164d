// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sched/scheduler.h"

namespace quern::sched {

/// How long launchers pause: the last gaps of each function on each device, after each of its kernels and between its
/// runs.
class Gaps {
 public:
  /// Between the end of a run and the next request.
  static constexpr uint64_t kBetweenRuns = Scheduler::kBetweenRuns;
  /// No gap, but what lies between the end of one and the first START after it: to launch takes so long.
  static constexpr uint64_t kLaunching = UINT64_MAX - 2;
  static constexpr size_t kMostPositions = 1024;  ///< of one function on one device; the rest is unknown

  struct Prediction {
    bool is_known = false;               ///< there were enough of them
    bool is_stable = false;              ///< nearly all are nearly as long
    Duration median = {0}, early = {0};  ///< half of them, and nine of ten, are at least so long
    Duration spread = {0};               ///< of the half of them in the middle
  };

  void add(DeviceId device, FunctionId function, uint64_t after, Duration gap);
  Prediction of(DeviceId device, FunctionId function, uint64_t after) const;
  void forget(FunctionId function);
  std::vector<Scheduler::GapsSeen> seen(FunctionId function) const;

 private:
  static constexpr size_t kKept = 16, kLeast = 4;
  struct History {
    std::array<int64_t, kKept> ns{};
    uint32_t count = 0;  // ever
  };
  using Positions = std::map<uint64_t, History>;
  std::map<FunctionId, std::map<DeviceId, Positions>> histories_;
};

/// How long launchers work from the end of one gap to the next.
class Bursts {
 public:
  struct Prediction {
    Duration length;
    uint64_t after = 0;  ///< where the gap is that follows
  };

  /// Since the gap after `since`.
  void add(DeviceId device, FunctionId function, uint64_t since, Duration length, uint64_t after);
  /// Where most of them are alike.
  std::optional<Prediction> of(DeviceId device, FunctionId function, uint64_t since) const;
  void forget(FunctionId function);

 private:
  Gaps lengths_;
  std::map<FunctionId, std::map<DeviceId, std::map<uint64_t, uint64_t>>> after_;
};

}  // namespace quern::sched
