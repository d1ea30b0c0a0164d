// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/result.h"
#include "executor/device_object.h"
#include "executor/loader.h"
#include "hal/device.h"
#include "ipc/bound_plan.h"
#include "ipc/frames.h"
#include "os/fd.h"
#include "os/guarded.h"
#include "os/shared_memory.h"

namespace quern::executor {

/// A segment of an arena, mapped. Stays mapped while a lane has a piece of it imported.
struct MappedSegment {
  bool writable = false;
  os::Mapping mapping;
};

/// A plan with what it needs, with its programs. Lanes add what is theirs.
struct PreparedPlan {
  // Constant after construction.
  Plan plan;
  ipc::PlanBinding binding;
  std::vector<std::shared_ptr<hal::Program>> programs;  ///< by PlannedLaunch::program
  uint32_t bound_buffers = 0;                           ///< inputs and outputs
  // Until it is dropped, which it is while no run uses it: what it holds of the device goes at once, even if a lane
  // that is busy with another plan lets go of the rest later.
  std::vector<std::shared_ptr<DeviceObject>> constants;          ///< per buffer; null: none, or it could not be loaded
  os::Guarded<std::vector<std::shared_ptr<hal::Buffer>>> views;  ///< of constants, that lanes made
};

/// The answer to what was asked for.
ipc::Loaded loaded(ipc::Loaded::Kind kind, uint64_t id, const Status& status);

/// What the daemon put into this executor, by the ids it gave. The control thread adds and drops, the loader brings
/// constants; lanes look up and keep what they use alive themselves.
class Holdings {
 public:
  /// Takes Loaded of objects, and Dropped, from the control thread or the loader's; returns once the frame is sent.
  using Tell = std::function<void(const ipc::Frame& frame)>;

  /// `in_place`: constants and tensors are used where they lie, where the device can. `broken`: called on the loader's
  /// thread if its queue fails; the process is to end.
  static Result<std::unique_ptr<Holdings>> create(hal::Device& device, bool in_place, Tell tell, Loader::Broken broken);

  Status map_segment(const ipc::MapSegment& frame, os::Fd fd);
  /// Told when it is there, or cannot be: at once or later. No lane learns of it before it was told.
  void load_object(const ipc::LoadObject& frame, os::Fd fd);
  /// Also tells the fault handler where the program's code lies.
  Status load_program(const ipc::LoadProgram& frame, os::Fd fd);
  /// Its constants may be loading. One that is not here at all failed to load: every run of the plan will say so.
  Status prepare_plan(const ipc::PreparePlan& frame, os::Fd fd);
  void drop_segment(uint32_t id);
  /// Told when its memory is free: at once, or when the loader has stopped copying it. Plans that use it are dropped
  /// before.
  void drop_object(uint64_t id);
  void drop_program(uint64_t id);
  void drop_plan(uint64_t id);

  std::shared_ptr<MappedSegment> segment(uint32_t id) const;
  std::shared_ptr<PreparedPlan> plan(uint64_t id) const;
  /// An object that a run is bound to. It may be loading, and its frame may not have been taken yet.
  std::shared_ptr<DeviceObject> object(uint64_t id, uint64_t size_bytes);
  /// What a run left on the device is an object from now on.
  void add_object(uint64_t id, std::shared_ptr<hal::Buffer> buffer, std::shared_ptr<const void> memory);
  bool in_place() const { return in_place_; }
  hal::Device& device() const { return device_; }

 private:
  struct Tables {
    std::map<uint32_t, std::shared_ptr<MappedSegment>> segments;
    std::map<uint64_t, std::shared_ptr<DeviceObject>> objects;  ///< ready, loading, or expected
    std::set<uint64_t> loading;                                 ///< that the loader has, dropped ones too
    std::set<uint64_t> failed;                                  ///< the latest: a run that comes late is told, too
    std::map<uint64_t, std::shared_ptr<hal::Program>> programs;
    std::map<uint64_t, std::shared_ptr<PreparedPlan>> plans;
  };

  Holdings(hal::Device& device, bool in_place, Tell tell);
  static void note_failed(Tables& tables, uint64_t id);
  Status begin_load(const ipc::LoadObject& frame, const os::Fd& fd);
  /// On the loader's thread.
  void load_ended(Loader::Load load, Result<std::shared_ptr<hal::Buffer>> buffer);

  static constexpr size_t kMostFailed = 1024;  // more than runs can be on their way

  // Constant after construction.
  hal::Device& device_;
  bool in_place_;
  Tell tell_;
  // Guards itself.
  os::Guarded<Tables> tables_;
  // Goes first: its thread uses all of the above.
  std::unique_ptr<Loader> loader_;  ///< null where nothing is copied
};

}  // namespace quern::executor
