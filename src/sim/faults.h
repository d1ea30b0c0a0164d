// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/prng.h"
#include "sim/agenda.h"
#include "sim/model.h"
#include "sim/world.h"

namespace quern::sim {

/// In the order of FaultModel's fields.
enum class Fault : uint8_t {
  kExecutorLoss,
  kKernelFault,
  kHang,
  kFailedRun,
  kDeviceLoss,
  kSlowLoad,
  kFailedLoad,
  kFailedStart,
  kLateEvent,
  kLostMemory,
  kRestart,
  kCancel,
  kRemoval,
  kSlowFetch,
  kFailedFetch,
  kNoRoom,
  kHostMemory,
  kLease,
  kProgramLoss,
  kSilence,
  kIgnoredGate,
  kWrongProfile,
  kNewKernel,
  kSettings,
  kFailedLaunch,
  kUnclearLoss,
};
struct FaultRow {
  std::string_view name;  ///< of the field
  double FaultModel::*rate;
};
/// One per Fault.
std::span<const FaultRow> fault_rows();

/// When what goes wrong, and how often it did. Each kind comes by itself, as a Poisson process, until
/// FaultModel::until. What can strike at once does; what waits for the next load, fetch, start or report is armed here
/// and taken by the one it strikes. Only what really struck is counted.
class Faults {
 public:
  Faults(const FaultModel& model, uint64_t seed, Agenda& agenda);

  /// Put the next of this kind on the agenda, if it comes in time.
  void plan_next(Time now, Fault fault);
  void arm(Fault fault) { ++armed_[index(fault)]; }
  /// True for the one that an armed fault strikes; it is counted.
  bool strikes(Fault fault) {
    if (armed_[index(fault)] == 0) return false;
    --armed_[index(fault)];
    count(fault);
    return true;
  }
  void disarm() { armed_ = {}; }
  void count(Fault fault) { ++counts_[index(fault)]; }
  /// Of those that struck at least once.
  FaultCounts counts() const;
  /// In [least, most).
  Duration draw_between(Duration least, Duration most);
  uint64_t draw_below(uint64_t bound) { return prng_.below(bound); }

 private:
  static constexpr size_t kKinds = 26;
  static size_t index(Fault fault) { return static_cast<size_t>(fault); }

  FaultModel model_;
  Prng prng_;
  Agenda& agenda_;
  std::array<uint64_t, kKinds> armed_{}, counts_{};
};

}  // namespace quern::sim
