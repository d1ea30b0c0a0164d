// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "daemon/config.h"
#include "daemon/host_object.h"
#include "daemon/live_call.h"
#include "daemon/registry.h"
#include "ipc/arena.h"
#include "ipc/bound_plan.h"
#include "ipc/channel.h"
#include "ipc/frames.h"
#include "ipc/shared_page.h"
#include "os/event.h"
#include "os/process.h"

namespace quern::daemon {

/// How an executor went.
struct ExecutorEnd {
  os::Exit exit;
  uint32_t signal = 0;  ///< that a kernel's fault raised, as its handler recorded; 0: none
  uint64_t address = 0;
  uint64_t program = 0;  ///< whose code faulted; 0: unknown
  uint32_t entry = 0;
  std::string last_words;  ///< the end of what it wrote to its log
};

/// The end of a load: the object is there, or `error` says why it is not.
struct LoadEnd {
  uint64_t object = 0;
  std::optional<Error> error;
};

/// From when to when something was brought; `to` is 0 while it is on its way.
struct Span {
  Time from{0}, to{0};
};

/// The daemon's side of one executor: the process, its rings and gates, and what was put into it. Belongs to the
/// strand. Everything it reads from the other side is checked; nonsense is an error, and the strand kills it.
class ExecutorProcess {
 public:
  /// Starts the process and sends it its first frame; `greeted` is false until its Hello came. Every lane has the grant
  /// `first`.
  static Result<std::unique_ptr<ExecutorProcess>> start(const DeviceConfig& device, uint32_t lanes,
                                                        const ipc::Grant& first, const std::string& cache_folder);
  ~ExecutorProcess();

  /// What the strand waits on.
  int socket_fd() const { return channel_.fd(); }
  int wake_fd() const { return wake_.fd(); }
  int pidfd() const { return process_.pidfd(); }
  int log_fd() const { return log_.get(); }
  int pid() const { return process_.pid(); }

  bool greeted() const { return caps_.has_value(); }
  /// Its threads that execute kernels, as it says.
  const std::vector<int32_t>& workers() const { return workers_; }
  /// How often the executor told of its workers since it greeted.
  uint64_t workers_told() const { return workers_told_; }
  const ipc::DeviceCaps& caps() const { return *caps_; }

  /// One frame, if there is one: Hello or Loaded is taken in, and true returned.
  Result<bool> take_frame();
  /// The load that the frame taken last answered, if it did and the object is still wanted; once.
  std::optional<LoadEnd> take_load_end() { return std::exchange(load_end_, std::nullopt); }
  /// The object whose memory the frame taken last said to be free, if it did; once.
  /// Asks which launches of its lanes have not ended; take_flight() has the answer once take_frame() took it.
  Status ask_flight() { return channel_.send(ipc::AskFlight{}); }
  std::optional<ipc::Flight> take_flight() { return std::exchange(flight_, std::nullopt); }
  std::optional<uint64_t> take_drop_end() { return std::exchange(drop_end_, std::nullopt); }
  /// One event of a lane, if there is one. Call until none has any.
  Result<std::optional<ipc::LaneEvent>> take_event(uint32_t lane);
  /// Announces that the strand will sleep; false if an event came meanwhile.
  bool prepare_sleep();
  void woke();
  /// Its wake-up came. One that comes after what it tells of was taken must not wake the strand again and again: nobody
  /// else would get the core of a real-time thread.
  void woken() { wake_.drain(); }
  /// False once the other side closed it, which would be ready to read for ever.
  bool take_log();

  /// Where the bytes of an object lie; `owner` keeps them.
  struct ObjectBytes {
    int fd = -1;
    uint64_t memory_bytes = 0, offset = 0, size_bytes = 0;
    std::shared_ptr<const void> owner;
  };
  /// Sends the object: a frame answers it. Keeps it alive until then.
  Status load_object(uint64_t number, ObjectBytes bytes);
  /// What a run is bound to that uses the object; 0: it is not here.
  uint64_t id_of(uint64_t object) const;
  /// What a run is bound to that leaves an object here, and that it did.
  uint64_t new_id() { return next_id_++; }
  void add_made(uint64_t object, uint64_t id);
  /// Frees it and every plan that uses it; none may be pinned. A frame tells when its memory is free. False if it is
  /// not there.
  bool drop_object(uint64_t object);
  /// Whether some of these are still being loaded.
  bool is_loading(std::span<const sched::ObjectNeed> objects) const;
  bool is_loading() const { return loading_ > 0; }

  /// Where the tensors of a run lie, but for those that come as objects.
  struct Tensors {
    std::span<const ipc::Block> blocks;
    std::span<const PassingTensor> passes;
    bool is_passed(size_t block) const {
      return std::any_of(passes.begin(), passes.end(), [&](const PassingTensor& one) { return one.block == block; });
    }
  };
  /// Sends what a run will need and needs no memory of the device: program and segments. They may be sent before the
  /// executor greets.
  Status require_early(const Binary& binary, const Tensors& tensors);
  /// Sends what this run needs beside its objects and is not there yet: program, plan and segments. True if all is
  /// there; false if some is on its way; the error if some cannot be had. Ask again after every frame. `complete` sees
  /// a plan before it is sent.
  using Complete = std::function<void(const Plan&, ipc::PlanBinding&)>;
  Result<bool> require(const DeployedFunction& function, const CachedPlanRef& plan, const Binary& binary,
                       const Tensors& tensors, const Complete& complete);
  /// When what a run needs was brought; nothing if it is not here.
  std::optional<Span> program_span(const std::string& hash) const;
  std::optional<Span> object_span(uint64_t object) const;
  /// Frees what the lane computes in: an event answers it.
  Status trim(uint32_t lane);
  Status push_run(uint32_t lane, const ipc::RunCommand& command);
  /// Closes the lane's gate and tells the run to end.
  Status stop_run(uint32_t lane, uint64_t run);
  /// The run that was told to end has: the gate is again as it was granted.
  void stopped(uint32_t lane);
  void grant(uint32_t lane, const ipc::Grant& grant);
  bool is_open(uint32_t lane) const { return lanes_[lane].grant.open; }
  /// As it was granted last, whether or not its run is being stopped.
  const ipc::Grant& granted(uint32_t lane) const { return lanes_[lane].grant; }
  void allow_spin(uint64_t spin_ns);
  /// Without taking anything: for who spins.
  bool has_events() const;
  /// From push to report: a low estimate; 0: never yet.
  void learn(uint64_t plan, Duration round_trip);
  Duration round_trip(uint64_t plan) const;
  /// A run of this plan is over: the plan may leave again.
  void unpin(uint64_t plan);
  /// The function is gone: its plans leave when nothing runs them.
  void forget_function(uint64_t function);

  /// The launch the lane says it is at, for naming; nothing if it runs another run or none.
  std::optional<uint32_t> running_launch(uint32_t lane, uint64_t run) const;
  /// Which program of a plan the executor knows by this id; nothing if it is none of them.
  std::optional<size_t> program_number(uint64_t plan, uint64_t id) const;

  void kill() { process_.kill(); }
  /// Waits for the process to be gone, which it is about to be.
  ExecutorEnd end();

 private:
  enum class State : uint8_t { kLoading, kLoaded };
  struct ProgramItem {
    State state = State::kLoading;
    uint64_t id = 0;
    uint32_t uses = 0;  ///< plans that need it
    Span span;
  };
  struct ObjectItem {
    uint64_t id = 0;                      ///< of this load: one that is dropped and loaded again has another
    std::shared_ptr<const void> loading;  ///< what keeps its bytes; null once it is there
    Span span;
  };
  struct PlanItem {
    State state = State::kLoading;
    uint64_t function = 0;
    std::vector<std::string> programs;  ///< hashes
    std::vector<uint64_t> objects;      ///< numbers
    uint32_t pins = 0;
    Duration round_trip;
    bool unwanted = false;
    std::list<uint64_t>::iterator age;
  };
  struct SegmentItem {
    State state = State::kLoading;
    std::weak_ptr<ipc::Segment> segment;
  };
  struct Lane {
    std::unique_ptr<ipc::RingProducer> commands;
    std::unique_ptr<ipc::RingConsumer> events;
    std::optional<os::Event> wake;
    uint64_t epoch = 0;
    ipc::Grant grant;
    bool has_run = false;      ///< ever: else it knows no plan and no segment
    bool is_stopping = false;  ///< its gate is closed whatever was granted
    bool trims = false;        ///< it was told to, and has not said that it did
  };

  ExecutorProcess(os::Process process, ipc::Channel channel, os::Fd log, os::Event wake, ipc::SharedPages pages,
                  std::string cache_folder);

  Status push(uint32_t lane, const ipc::Command& command);
  Result<ProgramItem*> load_program(const HostObject& object);
  Status require_segment(const std::shared_ptr<ipc::Segment>& segment);
  /// True if all are there.
  Result<bool> require_segments(const Tensors& tensors);
  Status prepare(const DeployedFunction& function, const CachedPlan& plan, const Binary& binary,
                 const Complete& complete);
  /// Plans are kept, but not for ever: they hold no memory of the device, only kernels.
  void make_room_for_plan();
  void evict(uint64_t plan);
  void release_program(const std::string& hash);

  // Constant after construction.
  os::Process process_;
  ipc::Channel channel_;
  os::Fd log_;
  os::Event wake_;
  ipc::SharedPages pages_;
  std::string cache_folder_;
  std::vector<Lane> lanes_;
  // Strand only.
  std::optional<ipc::DeviceCaps> caps_;
  bool in_place_ = true;
  std::map<std::string, ProgramItem> programs_;   ///< by hash
  std::map<uint64_t, ObjectItem> objects_;        ///< by number; the core decides which
  std::map<uint64_t, uint64_t> dropped_objects_;  ///< number by id, until their memory is free
  uint64_t loading_ = 0;                          ///< objects that are
  std::vector<int32_t> workers_;
  uint64_t workers_told_ = 0;
  std::optional<LoadEnd> load_end_;
  std::optional<uint64_t> drop_end_;
  std::optional<ipc::Flight> flight_;
  std::map<uint64_t, PlanItem> plans_;
  std::list<uint64_t> ages_;  ///< plans, least recently used first
  std::map<uint32_t, SegmentItem> segments_;
  std::map<uint64_t, Error> failed_plans_;      ///< until asked for
  std::map<uint64_t, uint32_t> dropped_plans_;  ///< before they were answered: so many answers are not for who asks now
  uint64_t next_id_ = 1;
  std::string last_words_;
  ByteWriter writer_;
  Bytes record_;

  static constexpr size_t kMostPlans = 128;
  static constexpr size_t kLastWords = 2048;
};

}  // namespace quern::daemon
