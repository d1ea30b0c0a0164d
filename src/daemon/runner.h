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
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "daemon/accounts.h"
#include "daemon/answer_text.h"
#include "daemon/config.h"
#include "daemon/executor_process.h"
#include "daemon/host_tier.h"
#include "daemon/live_call.h"
#include "daemon/memory_view.h"
#include "daemon/profile_view.h"
#include "daemon/profiles.h"
#include "daemon/program_gate.h"
#include "daemon/recorder.h"
#include "daemon/request_list.h"
#include "daemon/story.h"
#include "daemon/tracer.h"
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

  /// Constants and tensors are used where they lie on the host.
  bool in_place() const { return config.in_place && caps.unified_memory; }
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

/// Priorities up to the first are of the urgent class, from the second on of the one that gives way to all others.
constexpr uint8_t kLastUrgent = 2, kBestEffort = 7;

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
struct AccountsMessage {
  const Tenant* tenant = nullptr;
  AccountBy by = AccountBy::kFunction;
  std::function<void(AccountTable)> done;
};
struct StoryMessage {
  const Tenant* tenant = nullptr;
  std::string request;
  std::function<void(Result<Story>)> done;
};
struct ProfileMessage {
  const Tenant* tenant = nullptr;
  std::string name;
  DeployedRef function;  ///< null: a program
  std::function<void(std::optional<FunctionProfile>)> done;
};
/// See Runner::take_profiles.
struct TakeProfilesMessage {
  std::function<void(ProfileRecords)> done;
};
struct JoinMessage {
  const Tenant* tenant = nullptr;
  ProgramSpec spec;
  std::function<void(Result<ProgramLink>)> done;
};
struct LeaveMessage {
  uint64_t program = 0;
};
/// Note what happens on the devices for so long; `done` gets an error if someone else has asked for it already.
struct TraceMessage {
  const Tenant* tenant = nullptr;
  std::string id;
  Duration length;
  std::function<void(Result<Trace>)> done;
};
/// Of this id, which nobody waits for; or, where there is a tenant, its own, and who waits for it gets it now.
struct EndTraceMessage {
  std::string id;
  const Tenant* tenant = nullptr;
  std::function<void(Status)> done;
};
struct StopMessage {
  Time limit;
};
using Message =
    std::variant<SubmitMessage, CancelMessage, FunctionGoneMessage, ListMessage, StandingsMessage, FetchedMessage,
                 KeepMessage, MemoryMessage, AccountsMessage, StoryMessage, JoinMessage, LeaveMessage, TraceMessage,
                 EndTraceMessage, ProfileMessage, TakeProfilesMessage, StopMessage>;

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
  /// Any thread. Tells the strand that a function was removed, or that nobody holds it any more; also where the mailbox
  /// is full, since nobody would tell it again. What waits then is bounded: a function is told of at most twice.
  void tell_gone(uint64_t function);
  /// Any thread, once: see Daemon::stop. Returns when the strand has ended.
  void stop(Duration limit);

  const std::vector<std::unique_ptr<DeviceRecord>>& devices() const { return devices_; }
  const RunnerCounters& counters() const { return counters_; }
  const sched::Config& core_config() const { return core_config_; }
  /// Any thread, also after this has ended: the core hears that it is gone when its last holder lets go of it.
  PassingRef new_passing() const;
  /// Before start() or after stop(): in between, a StandingsMessage asks.
  std::vector<sched::Scheduler::Standing> standings() const { return core_.standings(); }
  /// Before start(): what was learned before a restart. Gaps are the core's when their function is called.
  void remember(ProfileRecords records);
  /// After stop(), or by a TakeProfilesMessage: a piece of what was learned since it was taken; empty if that was all.
  ProfileRecords take_profiles();

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
    bool is_asked = false;                   ///< what is in flight, and has not answered
    Time silent_since = {0};                 ///< it was asked then, and has not answered in time; 0: it answers
    std::optional<uint64_t> killed_because;  ///< the run whose kernel did not end
    os::WorkerClass worker_class = os::WorkerClass::kNormal;
    uint64_t workers_classed = 0;  ///< ExecutorProcess::workers_told of the workers that have `worker_class`
    bool is_lost = false;          ///< its process is gone
    bool is_doomed = false;        ///< nothing is sent to it any more; the core hears of it when the process is gone
    std::string domain;            ///< whose runs it had; empty: none yet
    /// Reports of failed launches, with their lanes. They count when the process is gone: until then launches behind
    /// the failed one may write to tensors of the run, and other lanes may report failures too.
    std::vector<std::pair<uint32_t, ipc::RunEnded>> breakages;
    // For the accounts.
    std::map<uint64_t, uint64_t> unclaimed;       ///< bytes of objects that were brought, and no run has needed yet
    std::map<uint64_t, Account*> brought;         ///< of the others: who was charged
    std::map<uint32_t, sched::Grant::Why> gates;  ///< by lane, as granted last
    uint64_t charged_ns = 0;                      ///< of device time, to its runs
    std::optional<uint64_t> used_ns;              ///< by its workers, before we ended it
    uint64_t start_cpu_ns = 0;                    ///< CPU time of its other threads until it was up
  };
  /// An object in the memory of the host, or on its way there.
  struct Hosted {
    HostObjectRef object;
    Span span;
  };
  /// A tensor that unanswered calls name as an object: where the host has it.
  struct Passing {
    std::shared_ptr<ipc::Segment> segment;
    uint64_t offset = 0, size_bytes = 0;
    uint32_t calls = 0;
  };
  /// Numbers of things that are gone, until the core has heard of it. Any thread.
  class GoneNumbers {
   public:
    void add(uint64_t number) {
      numbers_.with([&](auto& numbers) { numbers.push_back(number); });
      any_.store(true, std::memory_order_release);
    }
    std::vector<uint64_t> take() {
      if (!any_.load(std::memory_order_relaxed)) return {};
      any_.exchange(false, std::memory_order_acquire);
      return numbers_.with([](auto& numbers) { return std::exchange(numbers, {}); });
    }

   private:
    std::atomic<bool> any_{false};
    os::Guarded<std::vector<uint64_t>> numbers_;
  };
  struct Program {
    std::unique_ptr<ProgramGate> gate;
    uint64_t device = 0;
    Account* account = nullptr;
    Time charged_at{0};
    std::string name = {}, tenant = {};
    sched::LevelNo level = 0;
  };
  /// A trace under way.
  struct Tracing {
    const Tenant* tenant = nullptr;
    std::string id;
    Time due;
    bool is_ending = false;  ///< what launchers have not told yet is on its way
    std::function<void(Result<Trace>)> done;
  };
  /// The core asked what is in flight on a device.
  struct PendingFlight {
    std::set<uint64_t> asked;  ///< executors that have not answered
    std::vector<sched::Flight::Launch> launches;
    Time asked_at, due;
  };
  struct FunctionName {
    std::string name, tenant, version;
    bool was_called = false, may_have_gaps = false;  ///< since the start; since they were taken
  };
  struct LiveRun {
    uint64_t request = 0;
    uint64_t executor = 0;  ///< key into executors_
    uint32_t lane = 0;
    sched::LevelNo level = 0;
    uint32_t units = 0, first_unit = 0;  ///< of its device; 0: all
    uint64_t lane_bytes = 0;
    DeployedRef function;
    CachedPlanRef plan;
    const Binary* binary = nullptr;
    std::vector<Scalar> scalars;
    std::shared_ptr<std::vector<ipc::Block>> blocks;
    std::vector<PassingTensor> passes, leaves;  ///< as of its call
    std::vector<sched::ObjectNeed> passing;
    std::vector<uint64_t> made;  ///< per one of `leaves`: what it is bound to
    bool pinned = false, pushed = false, stopped = false, profile = false;
    bool is_started = false;  ///< the core was told that it can launch
    RunReport report;
    std::vector<uint64_t> rounds;
    std::vector<ipc::RunEnded::Kernel> kernels;
    Time pushed_at, read, started, finished, reported;
    Duration waited;  ///< for constants, on the device
    RunWaits waits;
    bool no_room = false, ends_executor = false;
    uint64_t device_time_ns = 0;
  };

  Runner(const Config& config, std::string run_folder, size_t tenants, HostTier& host, os::Poller poller,
         os::Event mailbox_event);

  /// What the poller's tokens say: which executor's, or program's, which descriptor.
  enum class Source : uint64_t { kMailbox, kSocket, kWake, kEnd, kLog, kProgram, kProgramEnd };
  static uint64_t token(uint64_t key, Source source) { return key << 3 | static_cast<uint64_t>(source); }

  // runner.cc: the strand and its mail.

  void serve();
  /// When the most urgent run is expected to end, if one is: from when until when to look for it.
  std::optional<std::pair<Time, Time>> end_window() const;
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
  void fill_pools();
  /// Not at once: blank ones are replaced when there is time for it.
  void fill_pools_later();
  /// Config::pool, or fewer: their contexts may take an eighth of the device's memory.
  uint64_t most_blanks(const DeviceRecord& device) const;
  void check_greetings(Time now);
  void drain_events(uint64_t key);
  void take(uint64_t key, uint32_t lane, const ipc::LaneEvent& event);
  void ended(uint64_t key, uint32_t lane, const ipc::RunEnded& event);
  void doom(uint64_t key, const Error& why);
  void lose(uint64_t key);
  void erase_executor(uint64_t key);
  /// Of an executor whose process is gone: takes the reports of launches that failed. Returns the runs of which one
  /// broke it, if there are several.
  std::vector<sched::RunId> end_broken(uint64_t key);
  /// The run whose kernel crashed; or several runs of which one did (then each of them is a suspect).
  std::optional<uint64_t> find_culprit(const Executor& executor, const ExecutorEnd& end,
                                       std::vector<sched::RunId>& suspects);
  std::string kernel_at(const Executor& executor, uint64_t run) const;
  /// What people call the kernel of a launch of its plan; empty if there is none. Lives as long as the run.
  static std::string_view shown_kernel(const LiveRun& run, uint32_t launch);
  void set_spin(uint64_t device);

  // runner_flight.cc: which launches have not ended.
  void carry_out(const sched::AskFlight& action);
  void take_flight(uint64_t key);
  /// The executor answers no more.
  void leave_flight(uint64_t key);
  /// What is taken for in flight of executors that did not answer.
  void add_silent(PendingFlight& pending);
  void finish_flight(uint64_t device);
  /// Ends what was asked for and is not answered in time; when to look again.
  Time check_flights(Time now);

  // runner_gates.cc: grants, and what launchers tell.
  ipc::Grant grant_of(const sched::Grant& grant) const;
  void carry_out(const sched::Grant& action);
  void heard(sched::LauncherId launcher, const ipc::LaneEvent& event);
  Result<ProgramLink> join(const Tenant& tenant, const ProgramSpec& spec);
  void leave(uint64_t program);
  void drain_program(uint64_t program);
  /// Its process is gone.
  void lose_program(uint64_t program);
  void set_class(Executor& executor);

  // runner_profiles.cc: what is learned of kernels and gaps.
  /// Where what it launches is learned; nothing if it is gone.
  std::optional<KernelPlace> place_of(sched::LauncherId launcher) const;
  void learn(sched::LauncherId launcher, const ipc::DeviceUsed& used);
  void learn_gaps(sched::LauncherId lane, std::span<const ipc::DeviceUsed::Gap> gaps);
  /// A plan is about to be sent: its launches are told what they took before.
  void complete(const LiveRun& run, const Plan& plan, ipc::PlanBinding& binding);
  FunctionName& meet(const DeployedFunction& function);
  void called(const DeployedFunction& function);
  void bring_gaps_back(const FunctionVersion& function, sched::FunctionId id);
  void forget_profile(uint64_t function);
  FunctionProfile profile(const Tenant& tenant, const DeployedFunction& function);
  /// Nothing if there never was such a program.
  std::optional<FunctionProfile> program_profile(const Tenant& tenant, const std::string& name);

  // runner_accounts.cc: who used what, and who waited for what.
  void queue_up(LiveCall& call, Time since);
  void give_place(LiveCall& call);
  void take_place(LiveCall& call, uint64_t run_id, LiveRun& run);
  void note_room(const LiveCall& call, LiveRun& run);
  void leave_place(uint64_t run_id, LiveRun& run);
  void note_gate(Executor& executor, uint32_t lane, sched::Grant::Why why);
  void note_urgent(const LiveRun& comes, const Executor& executor);
  void note_held(const Executor& executor, LiveRun& ended);
  Waits waits_of(const LiveRun& run, Time now) const;
  Waits waits_of(const LiveCall& call, Time now) const;
  void note_load(Executor& executor, uint64_t object, uint64_t size_bytes);
  void claim_loads(Executor& executor, LiveCall& call);
  void note_unload(Executor& executor, uint64_t object, bool to_make_room);
  void note_room_made(const std::optional<sched::Room>& room);
  /// Of a request that may have been answered; null if nobody remembers it.
  RequestAccount* account_of(uint64_t request);
  void charge(Executor& executor, const LiveRun& run);
  void charge(Program& program, uint64_t time_ns);
  void charge_lost(Executor& executor);
  static void note_start(Executor& executor);
  /// We are about to end it.
  static void note_end(Executor& executor);
  /// CPU time; nothing if one of them is gone, or it has none.
  static std::optional<uint64_t> workers_ns(const Executor& executor);
  void count_answer(LiveCall& call, bool is_good, const std::string& device);

  // runner_trace.cc: what becomes part of a trace; `trace_…` only while one is under way.
  void begin_trace(TraceMessage& message);
  void end_trace(const EndTraceMessage& message);
  void look_at_trace(Time now);
  void finish_trace(Time now);
  void grant_again();
  void trace_grant(const sched::Grant& action);
  void trace_heard(sched::LauncherId launcher, const ipc::LaneEvent& event);
  void trace_run(uint64_t run);
  void trace_run_end(uint64_t run);
  void trace_load(uint64_t executor, uint64_t object);

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
  /// Where the bytes of what is to be loaded lie; nothing: they are gone.
  std::optional<ExecutorProcess::ObjectBytes> bytes_of(uint64_t object) const;
  void take_tensors(const LiveCall& call, sched::Submit& event);
  void release_tensors(const LiveCall& call);
  void forget_objects();
  void forget_function(uint64_t function);
  /// What the command of a run is bound to; an error if something is not there any more.
  Status bind(LiveRun& run, Executor& executor, ipc::RunCommand& command);
  void try_push(uint64_t run);
  void mark_started(Executor& executor);
  void finish(uint64_t run, bool failed);
  void forget_run(uint64_t run);

  DeviceRecord& device(uint64_t id) const { return *devices_[id - 1]; }

  // Constant after construction.
  Config config_;
  std::string run_folder_;
  HostTier& host_;
  sched::Config core_config_;
  std::vector<std::unique_ptr<DeviceRecord>> devices_;
  const std::shared_ptr<GoneNumbers> passing_gone_ = std::make_shared<GoneNumbers>();  ///< of passing objects
  // Any thread.
  os::Mailbox<Message> mailbox_;
  GoneNumbers functions_gone_;  ///< that the mailbox had no room for
  RunnerCounters counters_;
  // Strand only.
  os::Poller poller_;
  sched::Scheduler core_;
  std::map<uint64_t, Executor> executors_;      ///< by our own key
  std::map<uint64_t, PendingFlight> flights_;   ///< by device
  std::map<uint64_t, uint64_t> executor_keys_;  ///< core's id to key
  std::set<uint64_t> active_;                   ///< executors that may send events
  std::map<uint64_t, LiveRun> runs_;
  std::map<uint64_t, Program> programs_;
  std::map<std::string, uint64_t> program_names_;  ///< gaps of one name are alike, also after the program is gone
  std::map<uint64_t, std::unique_ptr<LiveCall>> calls_;
  RequestList requests_;
  Accounts accounts_;
  Turns turns_;
  std::map<uint64_t, Hosted> hosted_;                ///< objects by number, as the core wants them
  std::map<uint64_t, Passing> passing_;              ///< by number
  std::map<uint64_t, std::string> passing_names_;    ///< by number, until they are gone
  std::map<uint64_t, FunctionName> function_names_;  ///< of those that were called, by id
  std::map<uint64_t, std::string> load_errors_;      ///< why an object did not load, until it does
  std::map<uint64_t, std::deque<Time>> binds_;       ///< by device: when blanks were needed lately
  Time pools_due_ = Time::never();                   ///< when to look at the pools again
  std::unique_ptr<Recorder> recorder_;               ///< null: nothing is recorded
  Profiles profiles_;
  std::map<FunctionVersion, std::vector<GapsRecord>> kept_gaps_;  ///< of functions not called since the start
  std::set<std::string> programs_with_gaps_;                      ///< by name, since they were taken
  Tracer tracer_;
  std::optional<Tracing> tracing_;
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
