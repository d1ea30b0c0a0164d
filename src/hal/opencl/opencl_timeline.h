// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "hal/opencl/device_clock.h"
#include "hal/opencl/opencl_device.h"
#include "hal/opencl/waiting_thread.h"
#include "hal/queue.h"
#include "hal/timeline.h"
#include "os/event.h"
#include "os/guarded.h"

namespace quern::hal::opencl {

/// Why a timeline failed: set once, and shared with the queues that wait for it.
class Failure {
 public:
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  Error error() const {
    return error_.with([](const Error& error) { return error; });
  }
  /// The first one stays.
  void set(Error error) {
    error_.with([&](Error& mine) {
      if (is_set_.load(std::memory_order_relaxed)) return;
      mine = std::move(error);
      is_set_.store(true, std::memory_order_release);
    });
  }

 private:
  std::atomic<bool> is_set_{false};
  os::Guarded<Error> error_;
};

/// The events of the last submissions of one in-order queue. What has ended is turned into numbers and its event is
/// released, whenever someone asks.
class OpenclTimeline final : public Timeline {
 public:
  static Result<std::unique_ptr<OpenclTimeline>> create(OpenclDevice& device, cl_command_queue queue);
  ~OpenclTimeline() override;

  Result<uint64_t> reached() override;
  uint64_t last_reached() override;
  Status wait(uint64_t point, Duration limit) override;
  void fail(Error error) override { failure_->set(std::move(error)); }

  /// kExhausted if as much as timings are kept of is under way; the error once failed.
  Status can_submit();
  /// Takes `event` over and returns its point. `units`: how many a launch can use at once; 0: no launch. `before`: a
  /// time before the driver was given the launch. The thread that submits.
  uint64_t submitted(cl_event event, uint32_t units, Time before);
  /// What is submitted from now on fails if `other` has failed by the time it ends.
  void depend_on(std::shared_ptr<const Failure> other);
  /// Hands all that was submitted to the device.
  Status flush();
  /// After a submission was refused with `code`: fails the timeline if the queue takes nothing at all any more, as when
  /// a context is lost. A kernel that is too large for the device is refused too, and breaks nothing.
  void probe(cl_int code);
  /// The thread that the driver computes on while this queue has work; null where the driver needs none.
  WaitingThread* waiting_thread() { return waiting_.get(); }
  /// Retained; null if the point was reached.
  Result<Handle<cl_event>> event_of(uint64_t point);

  /// Takes in what has ended; true if launches were among it. Any thread.
  bool advance();

  std::optional<Interval> timing(uint64_t point);
  uint64_t device_time_ns();
  uint64_t corrected_timings();
  std::shared_ptr<const Failure> failure() const { return failure_; }

 private:
  OpenclTimeline(OpenclDevice& device, cl_command_queue queue, os::Event woken);
  Status find_clock();
  /// Measures the clock again if the last measurement is too old and the clock can be asked.
  static void read_clock(const OpenclDevice& device, DeviceClock& clock, Time now);
  /// Also brings the accounts up to date.
  void look();
  /// The driver said `code` instead of waiting. If no submission shows an error, the first one that has not ended
  /// failed.
  void fail_next(cl_int code);
  Status wait_at_most(uint64_t point, Duration limit);

  struct Slot {
    cl_event event = nullptr;
    Interval interval;
    uint32_t units = 0;  // of a launch: how many it can use at once; 0: no launch
    Time before, after;  // of a launch: between them the driver was given it; `after` only if `clock_by_commands_`
  };
  struct Dependency {
    uint64_t after = 0;
    std::shared_ptr<const Failure> failure;
  };
  struct State {
    std::vector<Slot> slots;  // by point modulo kTimingsKept
    uint64_t submitted = 0, reached = 0;
    uint64_t launches_under_way = 0;
    uint64_t wall_ns = 0;  // of all launches, START to END
    DeviceClock clock;
    std::deque<Dependency> dependencies;
  };
  /// Outlives the queue, if the vendor calls back late.
  struct Bell {
    os::Event event;
  };
  static void CL_CALLBACK ring(cl_event, cl_int, void* bell);

  // Constant after construction.
  OpenclDevice& device_;
  cl_command_queue queue_;
  uint64_t account_;                // in the device's meter
  bool clock_by_commands_ = false;  // the clock cannot be asked: launches relate it to ours
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::shared_ptr<Bell> bell_;
  // Copies of what the state says, for those who only look.
  std::atomic<uint64_t> submitted_{0}, reached_{0};
  std::atomic<std::thread::id> submitter_;
  // The thread that waits.
  uint64_t belled_ = 0;  // the last point that rings
  os::Guarded<State> state_;
  std::unique_ptr<WaitingThread> waiting_;  // ends first
};

}  // namespace quern::hal::opencl
