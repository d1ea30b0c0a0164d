// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "hal/device.h"
#include "ipc/frames.h"
#include "ipc/plan_frame.h"
#include "os/event.h"
#include "os/fd.h"
#include "os/guarded.h"
#include "os/shared_memory.h"

namespace quern::executor {

/// A segment of an arena, mapped. Stays mapped while a lane has a piece of it imported.
struct MappedSegment {
  bool writable = false;
  os::Mapping mapping;
};

/// A constant on the device: one copy for all plans and lanes. `mapping` is empty where the device has its own copy.
struct DeviceObject {
  os::Mapping mapping;
  std::shared_ptr<hal::Buffer> buffer;
};

/// A plan with what it needs, checked against its program. Immutable; lanes add what is theirs.
struct PreparedPlan {
  ipc::PlanFrame frame;
  std::shared_ptr<hal::Program> program;
  std::map<uint64_t, std::shared_ptr<DeviceObject>> constants;  ///< by object id
  uint32_t bound_buffers = 0;                                   ///< inputs and outputs
};

/// What the daemon put into this executor, by the ids it gave. The control thread adds and drops; lanes look up and
/// keep what they use alive themselves.
class Holdings {
 public:
  /// `in_place`: constants and tensors are used where they lie, where the device can.
  Holdings(hal::Device& device, bool in_place);

  Status map_segment(const ipc::MapSegment& frame, os::Fd fd);
  Status load_object(const ipc::LoadObject& frame, os::Fd fd);
  /// Also tells the fault handler where the program's code lies.
  Status load_program(const ipc::LoadProgram& frame, os::Fd fd);
  Status prepare_plan(const ipc::PreparePlan& frame, os::Fd fd);
  void drop_segment(uint32_t id);
  void drop_object(uint64_t id);
  void drop_program(uint64_t id);
  void drop_plan(uint64_t id);

  /// Device memory. Where there is none, but lanes have yet to let go of plans that were dropped, waits for them first.
  /// Any thread; a lane gives a short limit, for it may be the one that is waited for.
  Result<std::shared_ptr<hal::Buffer>> allocate(uint64_t size_bytes, Duration limit);

  std::shared_ptr<MappedSegment> segment(uint32_t id) const;
  std::shared_ptr<PreparedPlan> plan(uint64_t id) const;
  bool in_place() const { return in_place_; }
  hal::Device& device() const { return device_; }

 private:
  struct Tables {
    std::map<uint32_t, std::shared_ptr<MappedSegment>> segments;
    std::map<uint64_t, std::shared_ptr<DeviceObject>> objects;
    std::map<uint64_t, std::shared_ptr<hal::Program>> programs;
    std::map<uint64_t, std::shared_ptr<PreparedPlan>> plans;
  };
  /// Plans on their way out. Shared with the plans, whose last holder may be a lane.
  struct Departures {
    explicit Departures(os::Event e) : event(std::move(e)) {}
    std::atomic<uint64_t> dropped{0}, freed{0};
    os::Event event;  ///< signalled when one is freed
  };
  // Constant after construction.
  hal::Device& device_;
  bool in_place_;
  std::shared_ptr<Departures> departures_;
  os::Guarded<Tables> tables_;
};

}  // namespace quern::executor
