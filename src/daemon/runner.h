// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "daemon/answer_text.h"
#include "daemon/config.h"
#include "daemon/executor_process.h"
#include "daemon/host_tier.h"
#include "daemon/live_call.h"
#include "daemon/memory_view.h"
#include "daemon/program_gate.h"
#include "daemon/recorder.h"
#include "daemon/request_list.h"
#include "daemon/story.h"
#include "os/mailbox.h"
#include "os/poller.h"
#include "os/thread.h"
#include "sched/scheduler.h"

namespace quern::daemon {

/// A device as the strand keeps it and others look at it.
struct DeviceRecord {
  // Constant after construction.
  uint64_t id = 0;
  DeviceConfig config;
  ipc::DeviceCaps caps;
  // Written by the strand, read by anyone.
  std::atomic<bool> is_up{true};
  std::atomic<uint64_t> executors{0}, running{0}, runs_ended{0}, device_time_ns{0};

  /// What one executor alone on it may use.
  uint64_t usable_bytes() const { return caps.memory_bytes - std::min(caps.memory_bytes, config.context_bytes); }
};

struct RunnerCounters {
  std::atomic<uint64_t> executors_started{0}, executors_lost{0}, queued{0}, evictions{0};
  std::atomic<uint64_t> exits{0}, prefetches{0}, hits{0}, misses{0};  ///< see sched::Scheduler::Counts
  std::atomic<uint64_t> loads{0}, loaded_bytes{0}, fetches{0}, fetched_bytes{0};
  std::atomic<uint64_t> past_gate{0};  ///< launches that no grant let through, as launchers tell
  std::atomic<uint64_t> steps{0};      ///< of the core: unchanged means that nothing happened
  std::atomic<int64_t> fairness_lag_ns{0}, fairness_bound_ns{0};  ///< as of the last StandingsMessage
};

/// From this priority on it is the best effort: the class that gives way to all others.
constexpr uint8_t kBestEffort = 7;

/// What others post to the strand. `done` is called there, and must only hand over.
struct SubmitMessage {
  std::unique_ptr<LiveCall> call;
};
struct CancelMessage {
  uint64_t request = 0;
  const Tenant* tenant = nullptr;            ///< whose it must be; null: anyone's
  std::function<void(bool is_theirs)> done;  ///< may be empty
};
struct FunctionGoneMessage {
  uint64_t function = 0;
};
struct ListMessage {
  const Tenant* tenant = nullptr;
  std::function<void(std::vector<RequestStatus>)> done;
};
struct StandingsMessage {
  std::function<void(std::vector<sched::Scheduler::Standing>)> done;
};
/// An object was brought from disk, or was not.
struct FetchedMessage {
  uint64_t object = 0;
  Result<HostObjectRef> end;
};
/// Keep a function at a stage; see sched::Keep.
struct KeepMessage {
  DeployedRef function;
  uint64_t domain = 0;
  sched::Stage stage = sched::Stage::kNothing;
  Time until = Time::never();
};
struct MemoryMessage {
  const Tenant* tenant = nullptr;
  std::function<void(std::vector<MemoryPlace>)> done;
};
struct StoryMessage {
  const Tenant* tenant = nullptr;
  std::string request;
  std::function<void(Result<Story>)> done;
};
struct JoinMessage {
  const Tenant* tenant = nullptr;
  ProgramSpec spec;
  std::function<void(Result<ProgramLink>)> done;
};
struct LeaveMessage {
  uint64_t program = 0;
};
struct StopMessage {
  Time limit;
};
using Message =
    std::variant<SubmitMessage, CancelMessage, FunctionGoneMessage, ListMessage, StandingsMessage, FetchedMessage,
                 KeepMessage, MemoryMessage, StoryMessage, JoinMessage, LeaveMessage, StopMessage>;

/// The strand: a thread of its own that owns the core and the executors, and is the core's driver.
///
/// The duties of a driver of the core, in order, for every event:
///   1. read the clock once, never backwards, and step the core;
///   2. carry out the actions in their order, before the next step;
///   3. queue what an action brings about at once (a process that cannot start) as an event, never step inside a step;
///   4. drain all that a run reported before telling the core that its executor is lost;
///   5. keep the memory of a run until it ended or its executor is gone, whatever its caller was told;
///   6. answer a request only when the core says so, with what is known of its last run;
///   7. send a Tick at the newest WakeAt.
class Runner {
 public:
  /// Starts one executor per device, waits for what it says of the device, and keeps it for the first domain that
  /// needs one. An error if a device cannot be had. `tenants` have the ids 1, 2, ...; `host` outlives this.
  static Result<std::unique_ptr<Runner>> create(const Config& config, const std::string& run_folder,
                                                const std::vector<sched::TenantSet>& tenants, HostTier& host);
  ~Runner();

  void start();
  /// Any thread. False, and `message` is untouched, if the strand has more than it can take.
  [[nodiscard]] bool post(Message&& message) { return mailbox_.post(std::move(message)); }
  /// Any thread, once: see Daemon::stop. Returns when the strand has ended.
  void stop(Duration limit);

  const std::vector<std::unique_ptr<DeviceRecord>>& devices() const { return devices_; }
  const RunnerCounters& counters() const { return counters_; }
  const sched::Config& core_config() const { return core_config_; }
  /// Before start() or after stop(): in between, a StandingsMessage asks.
  std::vector<sched::Scheduler::Standing> standings() const { return core_.standings(); }

 private:
  struct Executor {
    std::unique_ptr<ExecutorProcess> process;
    uint64_t device = 0;
    std::optional<sched::ExecutorId> id;  ///< nothing: blank, waiting for its domain
    Time greeting_due;
    Span start;                   ///< of the process, or of its binding if it was ready before
    bool was_blank = false;       ///< it was ready before it was needed
    std::set<uint64_t> runs;      ///< that the core put on it
    std::deque<uint64_t> pushed;  ///< of those, in the lanes, oldest first
    uint32_t trims = 0;           ///< lanes that were told to trim
    bool killed_by_us = false;
    bool is_best_effort = false;  ///< its class
    bool is_doomed = false;       ///< nothing is sent to it any more; the core hears of it when the process is gone
  };
  /// An object in the memory of the host, or on its way there.
  struct Hosted {
    HostObjectRef object;
    Span span;
  };
  struct Program {
    std::unique_ptr<ProgramGate> gate;
    uint64_t device = 0;
  };
  struct FunctionName {
    std::string name, tenant;
  };
  struct LiveRun {
    uint64_t request = 0;
    uint64_t executor = 0;  ///< key into executors_
    uint32_t lane = 0;
    uint8_t level = 0;
    uint64_t lane_bytes = 0;
    DeployedRef function;
    CachedPlanRef plan;
    const Binary* binary = nullptr;
    std::vector<Scalar> scalars;
    std::shared_ptr<std::vector<ipc::Block>> blocks;
    bool pinned = false, pushed = false, stopped = false, profile = false;
    RunReport report;
    std::vector<uint64_t> rounds;
    std::vector<ipc::RunEnded::Kernel> kernels;
    Time pushed_at, read, started, finished, reported;
    Duration waited;    ///< for constants, on the device
    Time closed_at{0};  ///< its gate was closed; 0: it is open
    Duration gated{0};  ///< until then
    std::string gated_for;
    bool no_room = false;
    uint64_t device_time_ns = 0;
  };

  Runner(const Config& config, std::string run_folder, size_t tenants, HostTier& host, os::Poller poller,
         os::Event mailbox_event);

  /// What the poller's tokens say: which executor's which descriptor.
  enum class Source : uint64_t { kMailbox, kSocket, kWake, kEnd, kLog, kProgram };
  static uint64_t token(uint64_t key, Source source) { return key << 3 | static_cast<uint64_t>(source); }

  // runner.cc: the strand and its mail.

  void serve();
  std::optional<std::pair<Time, Time>> lone_window() const;
  bool spin_until(Time until);
  void handle(Message& message);
  std::vector<RequestStatus> list_requests(const Tenant& tenant);
  void end_everything();

  // runner_views.cc: for showing to people.
  std::vector<MemoryPlace> memory(const Tenant& tenant) const;
  MemoryItem item_of(const sched::Scheduler::Entry& entry, Time now) const;
  Result<Story> story(const Tenant& tenant, const std::string& request);
  std::vector<Phase> setup_of(const LiveCall& call, const LiveRun& run) const;

  // runner_executors.cc: processes, and what they report.
  Result<uint64_t> start_process(uint64_t device);
  Status wait_for_greetings();
  void look_at(uint64_t token);
  void greet(uint64_t key);
  /// As many blank executors as demand wants, at most as many as the device may have.
  void fill_pool(uint64_t device);
  /// Config::pool, or fewer: their contexts may take an eighth of the device's memory.
  uint64_t most_blanks(const DeviceRecord& device) const;
  void check_greetings(Time now);
  void drain_events(uint64_t key);
  void take(uint64_t key, uint32_t lane, const ipc::LaneEvent& event);
  void ended(uint64_t key, uint32_t lane, const ipc::RunEnded& event);
  void doom(uint64_t key, const Error& why);
  void lose(uint64_t key);
  void erase_executor(uint64_t key);
  std::optional<uint64_t> find_culprit(const Executor& executor, const ExecutorEnd& end);
  std::string kernel_at(const Executor& executor, uint64_t run) const;
  void set_spin(uint64_t device);

  // runner_gates.cc: grants, and what launchers tell.
  static ipc::Grant grant_of(const sched::Grant& grant);
  void carry_out(const sched::Grant& action);
  void heard(sched::LauncherId launcher, const ipc::LaneEvent& event);
  Result<ProgramLink> join(const Tenant& tenant, const ProgramSpec& spec);
  void leave(uint64_t program);
  void drain_program(uint64_t program);
  void set_class(Executor& executor);
  void note_gate(Executor& executor, uint32_t lane, bool open);

  // runner_actions.cc: the core's events and actions.
  void feed(sched::Event event);
  void carry_out(const sched::StartExecutor& action);
  void carry_out(const sched::KillExecutor& action);
  void carry_out(const sched::Fetch& action);
  void carry_out(const sched::Forget& action);
  void carry_out(const sched::Prepare& action);
  void carry_out(const sched::Load& action);
  void carry_out(const sched::Unload& action);
  void carry_out(const sched::Trim& action);
  void carry_out(const sched::Run& action);
  void carry_out(const sched::StopRun& action);
  void carry_out(const sched::Answer& action);
  void carry_out(const sched::WakeAt& action);
  void tell_load_end(Executor& executor);
  void try_push(uint64_t run);
  void mark_started(Executor& executor);
  void finish(uint64_t run, bool failed);
  void forget_run(uint64_t run);

  DeviceRecord& device(uint64_t id) { return *devices_[id - 1]; }

  // Constant after construction.
  Config config_;
  std::string run_folder_;
  HostTier& host_;
  sched::Config core_config_;
  std::vector<std::unique_ptr<DeviceRecord>> devices_;
  // Any thread.
  os::Mailbox<Message> mailbox_;
  RunnerCounters counters_;
  // Strand only.
  os::Poller poller_;
  sched::Scheduler core_;
  std::map<uint64_t, Executor> executors_;      ///< by our own key
  std::map<uint64_t, uint64_t> executor_keys_;  ///< core's id to key
  std::set<uint64_t> active_;                   ///< executors that may send events
  std::map<uint64_t, LiveRun> runs_;
  std::map<uint64_t, Program> programs_;
  std::map<std::string, uint64_t> program_names_;  ///< gaps of one name are alike, also after the program is gone
  std::map<uint64_t, std::unique_ptr<LiveCall>> calls_;
  RequestList requests_;
  std::map<uint64_t, Hosted> hosted_;                ///< objects by number, as the core wants them
  std::map<uint64_t, FunctionName> function_names_;  ///< of those that were called, by id
  std::map<uint64_t, std::string> load_errors_;      ///< why an object did not load, until it does
  std::map<uint64_t, std::deque<Time>> binds_;       ///< by device: when blanks were needed lately
  std::unique_ptr<Recorder> recorder_;               ///< null: nothing is recorded
  std::deque<sched::Event> waiting_events_;
  std::vector<uint64_t> over_;  ///< runs whose end the core is hearing of
  bool stepping_ = false;
  bool is_realtime_ = false;
  bool has_classes_ = false;  ///< they are wanted and permitted
  uint64_t next_key_ = 1, next_program_ = 1;
  Time next_wake_ = Time::never();
  std::optional<Time> stop_at_;
  std::vector<Message> inbox_;

  os::Thread thread_;
};

}  // namespace quern::daemon
