// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sched/scheduler.h"

namespace quern::sim {

/// What a shell knows from events and actions alone: host and devices and what is held on them, executors, runs that
/// were sent and have not ended, requests that were submitted and not answered, what is to be kept, programs, and
/// gates. Every checker keeps one of its own, looks at it before it takes in the next action, and so sees the state
/// that the action met.
///
/// It takes everything as it comes: what must not be is the checkers' business. Costs are logarithmic, except where an
/// executor or device goes: then all that was on it.
class Shadow {
 public:
  using State = sched::Scheduler::Entry::State;

  struct Device {
    uint64_t memory_bytes = 0, context_bytes = 0;
    bool is_up = false, in_place = false, classes = true, shares_time = false;
    sched::Units units = 1;
    uint64_t held_bytes = 0;     ///< contexts, objects, and the memory of lanes
    uint64_t leaving_bytes = 0;  ///< of it: objects and lanes told to leave, and all that is in executors killed
    uint32_t runs = 0;           ///< that were sent and have not ended
    Time last_flight = {0};      ///< when it was told what is in flight
    /// When it last had less memory free than it should have had, as an executor of that domain said.
    std::map<sched::DomainId, Time> claims;
    /// When one said so, and how long after another; where a later one came sooner after another, that counts.
    std::vector<std::pair<Time, Duration>> agreed;

    /// Two domains said so: for so long it may be taken for smaller than it is.
    bool is_doubted(Time now, Duration room_back) const;
    /// The domain said so: for so long it may have to do without it.
    bool is_claimed(sched::DomainId domain, Time now, Duration room_back) const;
  };
  struct Executor {
    sched::DeviceId device;
    sched::DomainId domain;
    std::optional<sched::FunctionId> own_function;
    bool is_up = false, is_killed = false;
    std::optional<sched::RunId> killed_because;
    uint64_t context_bytes = 0;
  };
  struct Object {
    uint64_t bytes = 0;
    State state = State::kLoading;
  };
  struct Lane {
    uint64_t bytes = 0;
    bool is_leaving = false;
  };
  struct Host {
    uint64_t memory_bytes = 0, held_bytes = 0;
    std::map<sched::ObjectId, Object> objects;  ///< loading: on their way from disk
  };
  using Need = std::shared_ptr<const sched::Submit>;
  struct Run {
    Need submit;  ///< of its request, which may be answered already
    sched::ExecutorId executor;
    sched::DeviceId device;
    uint32_t lane = 0;
    sched::LevelNo level = 0;
    uint32_t units = 0;  ///< of its device; 0: all
    uint32_t first_unit = 0;
    uint32_t attempt = 1;  ///< of those of its request that were sent
    Time started = Time::never();
    Time stopped = Time::never();
    bool is_ready = false;    ///< it can launch: all it needs was there when it was sent, or it started
    bool is_pausing = false;  ///< it said that it has nothing to launch for a while
    Time sent = {0};
    std::optional<sched::Flight::Launch> in_flight = {};  ///< as of the last Flight of its device
    bool was_launched = false;                            ///< as of any
    bool passed_limit = false;  ///< it was stopped while its caller still waited: not because that one was gone
    bool is_doomed = false;  ///< it fails through no fault of its own: a load of it failed, or its lane found no room
    bool no_room = false;    ///< for want of room, which is not held against its request
    std::set<sched::ObjectId> lost = {};  ///< that it needed, and that could not be loaded
  };
  struct Request {
    Need submit;
    Time since;         ///< when it was submitted
    uint8_t level = 0;  ///< how urgent it may be, where there are levels
    std::optional<sched::RunId> last_run;
    uint32_t attempts = 0;
  };
  struct Program {
    sched::DeviceId device;
    sched::FunctionId function;
    uint8_t level = 0;
    sched::Quota quota;
    bool has_work = false;  ///< as it said last; false while it need not say
  };
  using ObjectKey = std::pair<sched::ExecutorId, sched::ObjectId>;
  using LaneKey = std::pair<sched::ExecutorId, uint32_t>;

  /// All that is on a device is rounded up to a multiple of this.
  explicit Shadow(uint64_t granularity_bytes = 1) : granularity_(granularity_bytes) {}

  /// Takes in an event, before the actions it gave. Events about what is no more change nothing.
  void happened(Time now, const sched::Event& event);
  /// Takes in one action.
  void carry_out(Time now, const sched::Action& action);
  /// The daemon died: nothing is left.
  void restart() { *this = Shadow(granularity_); }

  const std::map<sched::DeviceId, Device>& devices() const { return devices_; }
  const std::map<sched::ExecutorId, Executor>& executors() const { return executors_; }
  const std::map<ObjectKey, Object>& objects() const { return objects_; }
  const std::map<LaneKey, Lane>& lanes() const { return lanes_; }
  /// Null: there is no host tier.
  const Host* host() const { return host_ ? &*host_ : nullptr; }
  /// Until when the function is to be kept at this stage at least; 0: it is not.
  Time kept_until(sched::FunctionId function, sched::Stage stage) const;
  const std::map<sched::RunId, Run>& runs() const { return runs_; }
  const std::map<sched::RequestId, Request>& requests() const { return requests_; }
  const std::map<sched::TenantId, sched::TenantSet>& tenants() const { return tenants_; }
  const std::map<sched::LauncherId, Program>& programs() const { return programs_; }

  const Device* find(sched::DeviceId id) const;
  const Executor* find(sched::ExecutorId id) const;
  const Object* find(ObjectKey key) const;
  const Lane* find(LaneKey key) const;
  /// On the host.
  const Object* find(sched::ObjectId id) const;
  const Run* find(sched::RunId id) const;
  const Request* find(sched::RequestId id) const;
  const Program* find(sched::LauncherId id) const;
  /// What it was told last; null: nothing yet, so a lane is open and a program is not.
  const sched::Grant* grant_of(sched::LauncherId launcher) const;
  /// Null: the lane has none.
  const Run* run_in(sched::LauncherId lane) const;
  /// Of that run; 0: there is none.
  sched::RunId id_in(sched::LauncherId lane) const;
  /// Whether all that the run needs is on its device, or it started.
  bool has_all(const Run& run) const;
  /// The run of a request that was sent and has not ended; null if it has none.
  const Run* run_of(const Request& request) const { return request.last_run ? find(*request.last_run) : nullptr; }

  /// The core has asked what is in flight on the device, and has not been answered.
  bool is_asked(sched::DeviceId device) const { return asked_.contains(device); }
  /// When a Tick comes; never if none was asked for since the last.
  Time wake() const { return wake_; }
  /// Runs that the last event ended: its own, or those of the executors it took away.
  const std::map<sched::RunId, Run>& ended() const { return ended_; }
  /// Devices that the last event and the actions since concerned.
  const std::set<sched::DeviceId>& touched() const { return touched_; }

  uint64_t round_up(uint64_t bytes) const;
  /// What a run of it needs, without a context.
  uint64_t bytes_of(const sched::Submit& submit) const;
  /// Whether its objects can be on the host together.
  bool fits_host(const sched::Submit& submit) const;
  /// Or makes.
  static bool needs(const sched::Submit& submit, sched::ObjectId object);
  /// Passes from call to call: it needs no host tier.
  bool is_passing(sched::ObjectId object) const { return passing_.contains(object); }
  /// Nobody will ask for it any more.
  bool is_gone(sched::ObjectId object) const { return gone_.contains(object); }

 private:
  void on(Time now, const sched::DeviceUp& event);
  void on(Time now, const sched::DeviceMemory& event);
  void on(Time now, const sched::DeviceDown& event);
  void on(Time now, const sched::HostUp& event);
  void on(Time now, const sched::ExecutorUp& event);
  void on(Time now, const sched::ExecutorLost& event);
  void on(Time now, const sched::TenantSet& event);
  void on(Time now, const sched::Submit& event);
  void on(Time now, const sched::ObjectGone& event);
  void on(Time now, const sched::Keep& event);
  void on(Time now, const sched::Fetched& event);
  void on(Time now, const sched::Loaded& event);
  void on(Time now, const sched::Unloaded& event);
  void on(Time now, const sched::Trimmed& event);
  void on(Time now, const sched::Started& event);
  void on(Time now, const sched::Flight& event);
  void on(Time now, const sched::Finished& event);
  void on(Time now, const sched::FunctionGone& event);
  void on(Time now, const sched::LauncherUp& event);
  void on(Time now, const sched::LauncherGone& event);
  void on(Time now, const sched::WorkReady& event);
  void on(Time now, const sched::GapBegun& event);
  void on(Time /*now*/, const sched::DeviceUsed& /*event*/) {}
  void on(Time /*now*/, const sched::GapsKnown& /*event*/) {}
  void on(Time /*now*/, const sched::Cancel& /*event*/) {}
  void on(Time now, const sched::Tick& event);
  void on(Time now, const sched::StartExecutor& action);
  void on(Time now, const sched::KillExecutor& action);
  /// The executor ends: nothing more may be sent to it, and its memory counts as leaving.
  void begin_end(std::map<sched::ExecutorId, Executor>::iterator executor);
  void on(Time now, const sched::Fetch& action);
  void on(Time now, const sched::Forget& action);
  void on(Time now, const sched::Load& action);
  void on(Time now, const sched::Unload& action);
  void on(Time now, const sched::Trim& action);
  void on(Time now, const sched::Run& action);
  void on(Time now, const sched::Grant& action);
  void on(Time now, const sched::StopRun& action);
  void on(Time /*now*/, const sched::AskFlight& action) { asked_.insert(action.device); }
  void on(Time now, const sched::Answer& action);
  void on(Time now, const sched::WakeAt& action);
  void on(Time /*now*/, const sched::Prepare& /*action*/) {}

  /// An executor of the domain found no room there.
  void claim(Time now, Device& device, sched::DomainId domain);
  Run* find_in(sched::LauncherId lane);
  void end(std::map<sched::RunId, Run>::iterator run);
  void remove(std::map<ObjectKey, Object>::iterator object);
  void remove(std::map<LaneKey, Lane>::iterator lane);
  void lose(std::map<sched::ExecutorId, Executor>::iterator executor);

  uint64_t granularity_;
  std::map<sched::DeviceId, Device> devices_;
  std::optional<Host> host_;
  std::map<sched::ExecutorId, Executor> executors_;
  std::map<ObjectKey, Object> objects_;
  std::map<LaneKey, Lane> lanes_;
  std::set<sched::ObjectId> passing_, gone_;
  std::map<sched::FunctionId, std::array<Time, 4>> keeps_;  // by stage
  std::map<sched::RunId, Run> runs_, ended_;
  std::map<sched::RequestId, Request> requests_;
  std::map<sched::TenantId, sched::TenantSet> tenants_;
  std::map<sched::LauncherId, Program> programs_;
  std::map<sched::LauncherId, sched::Grant> grants_;  // of lanes of executors that are there, and of programs
  std::map<sched::LauncherId, sched::RunId> in_lane_;
  std::set<sched::DeviceId> touched_, asked_;
  Time wake_ = Time::never();
};

}  // namespace quern::sim
