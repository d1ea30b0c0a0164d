// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "executor/holdings.h"
#include "hal/device.h"
#include "ipc/bound_plan.h"
#include "ipc/frames.h"
#include "ipc/ring.h"
#include "ipc/shared_page.h"
#include "launcher/permit.h"
#include "os/event.h"

namespace quern::executor {

/// One in-order queue of an executor, with a thread, rings and a gate of its own, and memory that its runs compute in,
/// one after the other. Reads a command, binds its buffers, waits before every launch for the constants of that launch
/// and for the gate, and says how it ended; it decides nothing.
class Lane {
 public:
  struct Links {
    const ipc::DaemonPage::Lane& daemon;
    ipc::ExecutorPage::Lane& own;
    const os::Event& wake;              ///< the daemon signals it after a command or a grant
    const os::Event& daemon_wake;       ///< signalled after an event, if the daemon sleeps
    std::atomic<uint32_t>& busy_lanes;  ///< of this executor: a lane that spins gives way to them
    bool shares_core = false;           ///< the thread of the lane is on the cores of the device
  };

  static Result<std::unique_ptr<Lane>> create(Holdings& holdings, Links links);

  /// The thread's work. Returns an error, and only then: kFaulted when a queue failed, after which nothing more can be
  /// launched and the process is to end; another code when a ring makes no sense any more.
  Status serve();

  /// The first launch of its run that has not ended; nothing if all have. Any thread, also while the lane waits for it.
  std::optional<ipc::Flight::Launch> flight() const;

 private:
  using ViewKey = std::tuple<uint32_t, uint64_t, uint64_t>;  ///< buffer, offset, size
  /// How a launch can be divided, and how long it takes.
  struct Cut {
    uint32_t axis = 0;    ///< the dimension with the most groups
    uint64_t parts = 1;   ///< groups along it, where it can be launched in slices
    uint64_t step = 0;    ///< work-items of one
    uint64_t groups = 1;  ///< of one, in all dimensions
    double part_ns = 0;   ///< as seen lately; 0: never
  };
  /// What this lane keeps for a plan: kernels with their arguments, and views.
  struct Ready {
    std::shared_ptr<PreparedPlan> prepared;
    std::vector<std::unique_ptr<hal::Kernel>> kernels;  ///< made once, and shared where a plan has very many launches
    std::vector<uint32_t> kernel_of;                    ///< per launch, into `kernels`
    std::vector<Cut> cuts;                              ///< per launch
    std::map<ViewKey, hal::Buffer*> constant_views;     ///< that the plan owns
    /// Of the memory of this lane, and gone with it: per buffer its place, null if it is bound or constant (empty: not
    /// made yet); and views of those.
    std::vector<std::shared_ptr<hal::Buffer>> own;
    std::map<ViewKey, std::shared_ptr<hal::Buffer>> own_views;

    const Plan& plan() const { return prepared->plan; }
  };
  using ImportKey = std::tuple<uint32_t, uint64_t, uint64_t>;  ///< segment, offset, size
  struct Import {
    std::shared_ptr<MappedSegment> segment;
    std::shared_ptr<hal::Buffer> buffer;
  };
  /// Steps that are under way: those of the plan, or of a round of a repeat in it.
  struct Level {
    uint32_t next = 0, end = 0;       ///< that follow the one that is under way
    const PlannedStep* of = nullptr;  ///< the repeat; null: the plan
    uint64_t round = 0;               ///< of it, from 0
    bool is_check = false;            ///< what its until looks at is computed
  };
  struct InFlight {
    uint64_t point = 0, expected_ns = 0;
    uint32_t launch = 0;
    uint64_t first = 0, parts = 0;  ///< of its kernel
    uint64_t word = 0;              ///< of the gate, when it was launched
  };

  Lane(Holdings& holdings, Links links, std::unique_ptr<hal::Queue> queue);

  /// From now on launches go to so many units; 0: all. Nothing is in flight.
  Status use_units(uint32_t units, uint32_t first);

  Result<bool> next_command(Bytes& record);
  /// What the daemon sends while a run is in progress; false if the run is to stop.
  Result<bool> heed(uint64_t run);
  template <class Event>
  void report(const Event& event);
  void trim();
  /// False if the queue failed.
  bool run(const ipc::RunCommand& command, Time taken);
  Status execute(const ipc::RunCommand& command, ipc::RunEnded& ended);
  Result<Ready*> make_ready(uint64_t plan_id);
  Status bind(Ready& ready, const ipc::RunCommand& command);
  Result<std::shared_ptr<hal::Buffer>> import(uint32_t segment, uint64_t offset, uint64_t size, bool writable);
  Status copy_in(Ready& ready);
  Status copy_out(Ready& ready);
  Status bring_home(Ready& ready);

  // lane_objects.cc: inputs that are objects, and outputs that become some.
  Status bind_object(Ready& ready, size_t buffer);
  /// Room for what the run leaves behind.
  Status make_objects(Ready& ready);
  /// Once the kernels are in the queue: has it written there, too.
  Status fill_objects(Ready& ready);
  /// Once all has ended well.
  void leave_objects(Ready& ready);

  // lane_memory.cc: what the runs of this lane compute in.
  /// What stands for a buffer or view without elements, since no driver has buffers of no bytes.
  Result<hal::Buffer*> nothing();
  Status take_memory(Ready& ready, uint64_t lane_bytes);
  bool has_room_for(const std::vector<uint64_t>& arenas) const;
  Status allocate(const std::vector<uint64_t>& arenas, uint64_t lane_bytes);
  Status scrub();
  Status place(Ready& ready);
  void release_memory();

  // lane_constants.cc: constants and inputs that were still loading when the run began. False if the run was stopped
  // meanwhile.
  Status bind_constants(Ready& ready);
  Result<bool> await_constant(uint64_t run, uint32_t buffer);
  Result<bool> await_constants(uint64_t run, const PlannedLaunch& launch);
  Result<bool> await_constants(Ready& ready, uint64_t run);

  // lane_steps.cc: what a plan does, step by step. False if the run was stopped meanwhile.
  Result<bool> walk(Ready& ready, const ipc::RunCommand& command, Level level);
  Result<bool> launch(Ready& ready, const ipc::RunCommand& command, uint32_t index);
  Result<bool> fill(Ready& ready, const ipc::RunCommand& command, const PlannedFill& fill);
  Result<bool> copy(Ready& ready, const ipc::RunCommand& command, const PlannedCopy& copy);
  Result<bool> repeat(Ready& ready, const ipc::RunCommand& command, const PlannedStep& step);
  Result<bool> is_met(Ready& ready, const ipc::RunCommand& command, const PlannedUntil& until, uint64_t round);
  Result<hal::Buffer*> resolve(Ready& ready, const PlannedArgument& argument);

  // lane_gate.cc: what may be launched, and what ended.
  static Cut cut_of(const PlannedLaunch& launch, const ipc::PlanBinding::Launch& known, bool has_offset);
  /// Of a fill or copy of so many bytes.
  static Cut cut_of(uint64_t size_bytes);
  /// Waits while the gate is closed or the depth is reached; how many parts may be launched, 0 if the run was stopped
  /// meanwhile.
  Result<uint64_t> pass_gate(Ready& ready, uint64_t run, uint32_t launch, const Cut& cut, uint64_t parts);
  void linger(Duration most, const std::function<bool()>& is_over);
  void stand_back(bool stands_back);
  /// Until there is another grant, or the time of this one comes; false if the run was stopped meanwhile.
  Result<bool> wait_at_gate(uint64_t run, uint64_t word, const ipc::Grant& grant, bool is_early);
  uint64_t expected_ns(const Cut& cut, uint64_t parts) const;
  Status retire(Ready& ready, size_t keep);
  Status retire_ended(Ready& ready);
  /// Whether what ended last, whose times are known, was alone on the device.
  bool was_alone(uint64_t used_ns) const;
  void learn(Ready& ready, const InFlight& done, const hal::Interval& time, bool is_alone);
  /// Waits for all that is in flight, whatever becomes of it.
  Status drain();
  /// Why the queue of the run failed, if it did by the time all in flight had ended, and the entry of the launch that
  /// failed. A copy or fill has no entry: no kernel is to blame for it.
  struct Breakage {
    Error why;
    std::optional<std::string> entry;
  };
  std::optional<Breakage> breakage(uint64_t plan);
  void forget_segment(uint32_t segment);
  /// Something was submitted, and is in flight from now on. `made`: a moment before the vendor got it. A vendor may
  /// begin a launch before its call returns, and then another lane may come first to a clock that is read afterwards.
  void submitted(const InFlight& what, Time made);

  // lane_ahead.cc: what comes next, for who chooses among those that wait.
  static Level round_of(const Plan& plan, const PlannedStep& repeat, uint64_t round, bool is_check);
  static ipc::WorkReady::Kernel kernel_ahead(const Ready& ready, uint32_t launch, const Cut& cut, uint64_t parts);
  /// What follows the launch that is under way, after what `into` has already.
  void look_ahead(const Ready& ready, ipc::WorkReady& into) const;
  void tell_next(const Ready& ready, uint32_t launch, const Cut& cut, uint64_t parts);

  // lane_tell.cc: what is told of launches that ended.
  enum class Moment : uint8_t { kBatchEnd, kWait, kRunEnd };
  void note_ended(const Ready& ready, const InFlight& done, const hal::Interval& time, bool is_undisturbed);
  /// Nothing is in flight, and what comes next is not decided.
  void begin_pause();
  void tell_traced();
  void tell_used(Moment moment);

  // Constant after construction.
  Holdings& holdings_;
  Links links_;
  // Written by the lane's thread, read by any: see flight().
  static constexpr size_t kMostTimes = 512;  ///< more than a grant lets be in flight
  struct {
    std::atomic<hal::Queue*> queue{nullptr};
    std::atomic<uint64_t> first{0}, last{0};                 ///< points of the run in that queue; 0: none yet
    std::atomic<int64_t> used_ns{0};                         ///< START to END, of launches that were seen to end
    std::array<std::atomic<int64_t>, kMostTimes> made_ns{};  ///< by point
  } shown_;
  // The lane's thread only.
  bool stands_back_ = false;
  std::string broken_;  ///< why a queue failed; empty: none did
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<hal::Queue>>
      queues_;         ///< by units, 0 being all, and the first
  hal::Queue* queue_;  ///< of the run
  ipc::RingConsumer commands_;
  ipc::RingProducer events_;
  std::map<uint64_t, Ready> ready_;
  std::map<ImportKey, Import> imports_;
  std::vector<std::shared_ptr<hal::Buffer>> arenas_;  ///< the lane's memory: grows with its plans, until it is trimmed
  std::shared_ptr<hal::Buffer> nothing_;              ///< null until it is asked for
  std::deque<InFlight> in_flight_;
  std::vector<std::optional<hal::Interval>> times_;  ///< of launches that ended last
  uint64_t in_flight_ns_ = 0;
  size_t kernels_in_flight_ = 0;               ///< the rest are fills and copies
  uint64_t depth_ns_ = 0;                      ///< of the grant that let it through last
  bool may_launch_ = false;                    ///< it was let through, and did not launch since
  std::vector<hal::Buffer*> bound_;            ///< per buffer of the running plan; null: a constant still loads
  std::vector<std::byte*> host_;               ///< per buffer: where its tensor lies in the arena
  std::vector<const ipc::Binding*> bindings_;  ///< per buffer: where its tensor lies, if it is bound
  std::vector<std::shared_ptr<DeviceObject>> objects_;  ///< per buffer: what it is bound to, if that is an object
  std::vector<std::shared_ptr<hal::Buffer>> made_;      ///< per buffer: where it is to be left, where it is copied
  std::vector<uint32_t> names_;                         ///< per buffer: which one has its name, after swaps
  std::vector<std::shared_ptr<hal::Buffer>> in_use_;    ///< views that only this run needs
  std::array<std::byte, 8> element_;                    ///< that an until looks at
  std::vector<uint64_t> rounds_;                        ///< per report of the plan
  std::vector<ipc::RunEnded::Kernel> profile_;          ///< per kernel, if it was asked for
  std::vector<hal::Argument> arguments_;                ///< used again for every launch
  ByteWriter writer_;
  int64_t first_start_ns_ = 0, last_end_ns_ = 0, waited_ns_ = 0;
  bool has_constants_ = false;   ///< all of the running plan are there, and inputs that are objects
  bool trim_after_run_ = false;  ///< it was asked for meanwhile
  bool is_confirmed_ = false;    ///< a launch of this run has ended
  double scale_ = 1;             ///< how long the last launch took against what was expected of it
  std::vector<Level> path_;      ///< to the step that is under way
  ipc::WorkReady told_;          ///< what the daemon was told last of what comes next
  ipc::DeviceUsed used_;         ///< since it was told
  uint64_t last_identity_ = 0;   ///< of the kernel that ended last; 0: none of this run
  struct {
    uint64_t after = 0;  ///< 0: there is none
    int64_t at_ns = 0;
    uint64_t word = 0;  ///< of the gate
  } pause_;
  ipc::Traced traced_;           ///< not told yet
  int64_t told_used_ns_ = 0;     ///< when
  uint64_t told_device_ns_ = 0;  ///< of the queue's device time
  uint64_t seen_device_ns_ = 0;  ///< of it, when something was retired last
};

}  // namespace quern::executor
