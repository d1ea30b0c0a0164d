// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/profile_records.h"
#include "daemon/shelves.h"
#include "ipc/bound_plan.h"
#include "ipc/frames.h"

namespace quern::daemon {

/// How long kernels take, learned while they serve, and which kernels a function has. Belongs to the strand.
///
/// A kernel is told by its identity (its program, entry, sizes and shapes), so that versions of a function share what
/// did not change. Only undisturbed samples count: a time with another's work in it says no more of this kernel than
/// what it takes at the most, and that only as long as there is no other.
class Profiles {
 public:
  /// Bounds what launchers can make us remember; see Shelves for who loses what. Some 30 MB if all of it is used.
  static constexpr size_t kMostKernels = 65536;
  explicit Profiles(size_t most = kMostKernels) : times_(most), functions_(most) {}

  /// What a launcher at this place tells. Samples that make no sense are passed over.
  void add(const KernelPlace& place, std::span<const ipc::DeviceUsed::Sample> samples, int64_t now_s);

  /// A plan of this function is about to be sent to that place: its kernels are the function's from now on, and each
  /// launch is told what a group of it took before.
  void prepare(const FunctionVersion& function, const KernelPlace& place, const Plan& plan, ipc::PlanBinding& binding);

  /// The median; 0 if it was never seen there undisturbed.
  uint64_t group_ps(const KernelPlace& place, uint64_t identity) const;
  /// How long so many groups of it will take, or do at the most; 0 if it was never seen there.
  uint64_t expected_ns(const KernelPlace& place, uint64_t identity, uint64_t groups) const;
  /// Null if it was never seen there.
  const KernelTimes* find(const KernelPlace& place, uint64_t identity) const { return times_.find(place, identity); }
  /// Whether a plan of this function had that kernel.
  bool is_of(const FunctionVersion& function, uint64_t identity) const { return functions_.find(function, identity); }
  /// In the order of the manifest, and of their sizes.
  std::vector<FunctionKernelRecord> kernels_of(const FunctionVersion& function) const;
  /// All that was seen there.
  std::vector<KernelRecord> kernels_at(const KernelPlace& place) const;

  /// The function is gone. Times stay: another version may have the same kernels.
  void forget(const FunctionVersion& function) { functions_.forget(function); }

  /// What changed since it was taken, at most so many of each kind; without gaps, which the core has.
  ProfileRecords take_changed(size_t most);
  /// What was kept, the oldest first. It comes back as if it had just been learned, but is not changed.
  void load(const ProfileRecords& records);

 private:
  struct FunctionKernel {
    uint32_t kernel = 0;
    uint64_t groups = 0;
  };
  Shelves<KernelPlace, KernelTimes> times_;
  Shelves<FunctionVersion, FunctionKernel> functions_;
};

/// The work-groups of a launch; 0 where the driver picks their size.
uint64_t groups_of(const PlannedLaunch& launch);

}  // namespace quern::daemon
