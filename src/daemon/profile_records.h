// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

/// What was learned while serving, as it is kept: profiles.h learns it, state.h stores it.
namespace quern::daemon {

/// One version of a function; or a program, which has no version.
struct FunctionVersion {
  std::string tenant, name, version;
  auto operator<=>(const FunctionVersion&) const = default;
};

/// Where a kernel was timed, and by whose word: a domain, for its executors tell, or a program as TENANT/NAME. Nobody's
/// word counts for another.
struct KernelPlace {
  std::string owner, device;
  auto operator<=>(const KernelPlace&) const = default;
};

/// How long a kernel takes per work-group, in picoseconds: of many kernels that is less than a nanosecond. Where the
/// driver picks the size of groups, the whole launch is one.
struct KernelTimes {
  uint64_t samples = 0;               ///< that were undisturbed, ever; 0: see is_rough
  uint64_t groups = 0;                ///< of the last one: a launch, or a slice of one
  double mean_ps = 0, spread_ps = 0;  ///< the older a sample the less it counts; the spread is a standard deviation
  std::vector<uint64_t> last_ps;      ///< the oldest first, at most kLast of them
  int64_t seen_s = 0;                 ///< when, as os::wall_seconds tells

  static constexpr size_t kLast = 32;

  void add(uint64_t of_groups, uint64_t group_ps, int64_t now_s);
  /// Others' work may be in that time: until there is a better one, the shortest such is what it takes at the most.
  void add_disturbed(uint64_t of_groups, uint64_t group_ps, int64_t now_s);
  bool is_rough() const { return samples == 0; }
  /// Of the last ones: a tenth, half and nine tenths of them took less. Zeros if there are none.
  struct Quantiles {
    uint64_t p10 = 0, p50 = 0, p90 = 0;
  };
  Quantiles quantiles() const;
  bool operator==(const KernelTimes&) const = default;
};

struct KernelRecord {
  KernelPlace place;
  uint64_t identity = 0;  ///< of the kernel: ipc::PlanBinding::Launch
  KernelTimes times;
  bool operator==(const KernelRecord&) const = default;
};

/// A kernel that a function was seen to have.
struct FunctionKernelRecord {
  FunctionVersion function;
  uint64_t identity = 0;
  uint32_t kernel = 0;  ///< in its manifest
  uint64_t groups = 0;  ///< of a launch; 0: the driver picks their size
  bool operator==(const FunctionKernelRecord&) const = default;
};

/// The last gaps of a function on a device, after one of its kernels or between its runs, the oldest first:
/// sched::GapsKnown.
struct GapsRecord {
  FunctionVersion function;
  std::string device;
  uint64_t after = 0;
  std::vector<Duration> gaps;
  bool operator==(const GapsRecord&) const = default;
};

struct ProfileRecords {
  std::vector<KernelRecord> kernels;
  std::vector<FunctionKernelRecord> function_kernels;
  std::vector<GapsRecord> gaps;
  bool empty() const { return kernels.empty() && function_kernels.empty() && gaps.empty(); }
  bool operator==(const ProfileRecords&) const = default;
};

}  // namespace quern::daemon
