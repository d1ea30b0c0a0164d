// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace quern::daemon {

/// A kernel of a function on a device, for showing to people. Times are those of a work-group, where the size of groups
/// is known, else of the launch; 0 while there are no samples.
struct KernelProfile {
  std::string entry;  ///< empty: a program's own business
  uint64_t identity = 0;
  std::string device;   ///< empty: it was timed nowhere yet
  uint64_t groups = 0;  ///< of a launch; 0: the driver picks their size
  uint64_t samples = 0;
  bool is_rough = false;  ///< none of them: all its times are one, that it took at the most
  double mean_ps = 0, spread_ps = 0;
  uint64_t p10_ps = 0, p50_ps = 0, p90_ps = 0;
  uint64_t launch_ns = 0;  ///< of the whole launch: half of them took less
  bool sliceable = false;
  std::string reason;          ///< why it is not
  bool delays_urgent = false;  ///< it is launched whole and takes longer than FunctionProfile::bound
  Duration age;                ///< of its last sample
};

/// How long a function pauses on a device, after one of its kernels or between its runs.
struct GapProfile {
  std::string device;
  bool is_between_runs = false;
  std::string after;          ///< the entry of the kernel; empty: between runs, or it is not known
  uint64_t after_kernel = 0;  ///< its identity
  uint64_t samples = 0;       ///< of which there are the following
  Duration mean, p10, p50, p90;
  bool is_known = false, is_stable = false;  ///< there are enough to predict the next; nearly all are nearly as long
};

struct FunctionProfile {
  std::string function, version;  ///< a program has no version
  /// What may be on a device when someone more urgent comes: a kernel that takes longer and cannot be sliced makes that
  /// one wait.
  Duration bound;
  std::vector<KernelProfile> kernels;  ///< in the order of the manifest, their sizes and the devices
  std::vector<GapProfile> gaps;
};

}  // namespace quern::daemon
