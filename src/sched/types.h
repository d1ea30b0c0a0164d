// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"

/// The whole contract of the scheduler core on one screen: what may happen to it, and what it may ask for.
namespace quern::sched {

/// Ids are numbers given by the shell (devices, domains, tenants, functions, objects, requests) or by the core
/// (executors, runs). They are never used twice.
template <class Tag>
struct Id {
  uint64_t value = 0;
  constexpr auto operator<=>(const Id&) const = default;
};
using DeviceId = Id<struct DeviceTag>;
using DomainId = Id<struct DomainTag>;
using TenantId = Id<struct TenantTag>;
using FunctionId = Id<struct FunctionTag>;  ///< one version of one function
using ObjectId = Id<struct ObjectTag>;      ///< by content: the same bytes have the same id
using RequestId = Id<struct RequestTag>;
using ExecutorId = Id<struct ExecutorTag>;
using LauncherId = Id<struct LauncherTag>;  ///< whatever puts kernels on a device through a gate of its own
using RunId = Id<struct RunTag>;

/// A launcher is a lane, or a program with a number of the shell's.
constexpr uint64_t kFirstProgram = uint64_t{1} << 63;
constexpr LauncherId lane_of(ExecutorId executor, uint32_t lane) { return {executor.value << 8 | lane}; }
constexpr LauncherId program_of(uint64_t number) { return {kFirstProgram | number}; }
constexpr ExecutorId executor_of(LauncherId lane) { return {lane.value >> 8}; }
constexpr bool is_program(LauncherId launcher) { return launcher.value >= kFirstProgram; }

constexpr uint8_t kLeastUrgent = 9;  ///< the last priority; 0 is the first

/// Where requests wait and runs are beside each other on a device: one per priority, and before it one for each
/// function of that priority that has a quota. The lower, the more urgent.
using LevelNo = uint16_t;
constexpr LevelNo kShared = 255;
constexpr LevelNo level_of(uint8_t priority, LevelNo own = kShared) {
  return static_cast<LevelNo>(priority << 8 | own);
}
constexpr bool is_own(LevelNo level) { return (level & 255) != kShared; }
constexpr uint8_t priority_of(LevelNo level) { return static_cast<uint8_t>(level >> 8); }

/// Shares of one device, in thousandths. Of its units how many a run of the function uses; and of the time of those,
/// per window (Config::window), what the function gets in any case if it has work, and what it never gets more of.
struct Quota {
  uint32_t request = 0, limit = 1000, units = 1000;
  bool operator==(const Quota&) const = default;
};
/// How many units a device has, and which parts of it there are.
struct Units {
  uint32_t count = 1;
  bool in_halves = false;  ///< parts have 1, 2, 4, ... units and begin at a multiple of that; else as many as wanted

  constexpr Units(uint32_t count = 1, bool in_halves = false) : count(count), in_halves(in_halves) {}
  constexpr operator uint32_t() const { return count; }
};
/// How many units of such a device: those of the largest part that is not above the share, and at least one.
uint32_t units_of(const Quota& quota, Units units);

// Events: what happened.

struct DeviceUp {
  DeviceId device;
  uint64_t memory_bytes = 0;
  uint64_t context_bytes = 0;  ///< what every executor on it costs
  bool in_place = false;  ///< objects are read where they lie on the host: they stay there as long as they are used
  Units units = 1;        ///< that it can be divided into; 1: it cannot
  bool classes = true;  ///< its lanes can be made to give way by themselves: what Config::best_effort says holds there
  /// The system divides the device's time among executors, so launches of two executors run side by side. False: the
  /// device executes the launches of all executors in the order in which they were made.
  bool shares_time = false;
};
/// The host tier: how many bytes of objects may be in memory at a time; the rest is on disk. If this never comes, all
/// objects are always there.
struct HostUp {
  uint64_t memory_bytes = 0;
};
/// The device has more or less memory than it had: someone else uses some of it.
struct DeviceMemory {
  DeviceId device;
  uint64_t memory_bytes = 0;
};
/// The device is lost: its executors are gone, its runs are not to blame.
struct DeviceDown {
  DeviceId device;
};
/// An executor that StartExecutor asked for is there.
struct ExecutorUp {
  ExecutorId executor;
};
/// An executor is gone, or never came up. `culprit` is the run whose kernel did it, if one did. `suspects`: one of
/// these runs did it, and nobody knows which. Their functions have executors of their own from now on, so that the next
/// crash names its culprit; nobody is blamed for this one.
struct ExecutorLost {
  ExecutorId executor;
  std::optional<RunId> culprit;
  std::vector<RunId> suspects = {};
};
/// What a tenant may use; 0 is no limit of its own.
struct Limits {
  uint32_t in_flight = 0;     ///< requests that hold a slot of a device
  uint32_t queued = 0;        ///< requests that wait
  uint64_t memory_bytes = 0;  ///< of all its requests in flight
  uint8_t priority = 0;       ///< the most urgent it may ask for
  bool operator==(const Limits&) const = default;
};
/// Who a tenant is. One that was never set has weight 1 and no limits of its own.
struct TenantSet {
  TenantId tenant;
  uint32_t weight = 1;  ///< its share against others', at least 1
  Limits limits;
  int64_t vtime = 0;  ///< where it stood before a restart
};
/// How ready a function is on a device, from nothing to everything: each has what those before it have.
enum class Stage : uint8_t {
  kNothing,
  kContext,  ///< an executor for it is there
  kHost,     ///< and its objects are in the memory of the host
  kHot,      ///< and on the device
};
/// Immutable bytes that a run needs on its device: one copy serves all runs of an executor.
struct ObjectNeed {
  ObjectId object;
  uint64_t bytes = 0;
  /// No constant, but a tensor that passes from call to call: the host has it outside its budget, until ObjectGone.
  bool passing = false;
  bool operator==(const ObjectNeed&) const = default;
};
/// A passing object that a run leaves on its device when it ends well. No other request names it before that.
struct Made {
  ObjectId object;
  uint64_t bytes = 0;
  Duration stays = {0};  ///< there, unless the room is needed
  bool operator==(const Made&) const = default;
};
struct Submit {
  RequestId request;
  FunctionId function;
  TenantId tenant;
  DomainId domain;
  uint8_t priority = 5;
  uint64_t memory_bytes = 0;        ///< what its run needs for itself
  std::vector<ObjectNeed> objects;  ///< what it needs beside that; each once
  std::vector<Made> makes = {};
  Time deadline = Time::never();
  Duration device_time = Duration::forever();  ///< how long one run of it may take
  Quota quota;                                 ///< of its function, as it is now
};
/// A passing object that no unanswered request names, nor ever will: it leaves, at once or with its last run.
struct ObjectGone {
  ObjectId object;
};
/// The caller is gone or changed its mind.
struct Cancel {
  RequestId request;
};
/// Keep a function at least at this stage until then, or no longer (kNothing). Without an end it is what its settings
/// say: that holds from now on, and what was said before is void. With an end it is a lease on top of that, and at each
/// stage the longest holds. What is missing is brought as far as there is room that nobody needs.
struct Keep {
  FunctionId function;
  DomainId domain;
  Stage stage = Stage::kNothing;
  Time until = Time::never();
  std::vector<ObjectNeed> objects;
};
/// The answer to Fetch: the object is in the memory of the host, or could not be read.
struct Fetched {
  ObjectId object;
  bool failed = false;
};
/// The answer to Load: the object is there, or could not be brought there. `no_room`: because the device had less
/// memory free than it should have.
struct Loaded {
  ExecutorId executor;
  ObjectId object;
  bool failed = false, no_room = false;
};
/// The answer to Unload: its memory is free.
struct Unloaded {
  ExecutorId executor;
  ObjectId object;
};
/// The answer to Trim: the memory of the lane is free.
struct Trimmed {
  ExecutorId executor;
  uint32_t lane = 0;
};
/// A run is with its lane, and all that it needs is there: from here on it can put launches on the device.
struct Started {
  RunId run;
};
/// The answer to AskFlight: which runs have made launches on the device, and which of those have not ended, as their
/// lanes say. A lane has
/// one run, and its launches end in their order. What programs have in flight nobody knows.
struct Flight {
  struct Launch {
    RunId run;
    uint64_t number = 0;  ///< of the run's first launch that has not ended; it grows. 0: all that were made have ended
    Time since = {0};     ///< when that one was made and the run's launches before it had ended
    Duration used = {0};  ///< of the device's time, by launches of the run that have ended
    bool operator==(const Launch&) const = default;
  };
  DeviceId device;
  std::vector<Launch> launches;  ///< the oldest first
};
/// A run ended; `failed` if it ended with an error of its own (the shell knows the text). `no_room`: it did nothing,
/// for the device had less memory free than it should have.
struct Finished {
  RunId run;
  bool failed = false, no_room = false;
  Duration device_time = {0};  ///< that it used
  Time started = {0};          ///< when its first launch began on the device; 0: not known
  /// A launch failed and broke the context of the executor: nothing more is sent to the executor, ExecutorLost without
  /// a culprit follows, and the function of the run is blamed as for a crash.
  bool ends_executor = false;
};
/// The function is gone: its queued requests end, its record is forgotten once its runs ended.
struct FunctionGone {
  FunctionId function;
};
/// A program that launches its own kernels came to a device, or is gone. Its gaps are like those of others of its
/// function, which is a number for its name.
struct LauncherUp {
  LauncherId launcher;
  DeviceId device;
  FunctionId function;
  uint8_t priority = 5;
  Quota quota;
};
struct LauncherGone {
  LauncherId launcher;
};
/// What a launcher is about to launch.
struct KernelAhead {
  uint64_t identity = 0;  ///< gaps after the same are alike; 0: unknown
  Duration time = {0};    ///< that it will take, or what is left of it; 0: nobody knows
  bool sliceable = false;
  bool operator==(const KernelAhead&) const = default;
};
/// A launcher has something to launch: after a gap, for the first time, or something else than it said.
struct WorkReady {
  static constexpr size_t kMost = 8;  ///< kernels that launchers tell of: what fits into a gap is decided by the first
  LauncherId launcher;
  std::vector<KernelAhead> kernels;  ///< that come next, in order
  bool pauses = false;               ///< a gap begins after the last of them; else more follow, or nobody knows
  Time at = {0};                     ///< since when, not after now; 0: now
};
/// All that it launched has ended, and it has nothing to launch.
struct GapBegun {
  LauncherId launcher;
  Time at;             ///< not after now
  uint64_t after = 0;  ///< gaps after the same are alike
  Time started = {0};  ///< when the first of it began on the device; 0: not known
};
/// A launcher had something on the device since it said so last: a program always says so, a lane where its grant
/// asks for it. At most every millisecond.
struct DeviceUsed {
  LauncherId launcher;
  Duration device_time = {0};
};
/// What was known of the gaps of a function on a device before a restart, the oldest first. As if they had just been
/// seen.
struct GapsKnown {
  DeviceId device;
  FunctionId function;
  uint64_t after = 0;
  std::vector<Duration> gaps;
};
/// The answer to WakeAt.
struct Tick {};

using Event = std::variant<DeviceUp, DeviceMemory, DeviceDown, HostUp, ExecutorUp, ExecutorLost, TenantSet, Submit,
                           ObjectGone, Cancel, Keep, Fetched, Loaded, Unloaded, Trimmed, Started, Flight, Finished,
                           FunctionGone, LauncherUp, LauncherGone, WorkReady, GapBegun, DeviceUsed, GapsKnown, Tick>;

// Actions: what to do about it, in order.

/// Start a process for this device and domain. `own_function` is set when a function that killed its executor gets
/// one of its own. Answered by ExecutorUp or ExecutorLost.
struct StartExecutor {
  ExecutorId executor;
  DeviceId device;
  DomainId domain;
  std::optional<FunctionId> own_function;
};
/// What leaves memory before its time does so because someone needs the room.
struct Room {
  std::optional<RequestId> request;  ///< nothing: nobody's, the device or the host has less than it had, or it is kept
  uint64_t bytes = 0;                ///< that become free
  bool operator==(const Room&) const = default;
};
/// Kill it. Answered by ExecutorLost. `because` names the run that passed its limit, if one did.
struct KillExecutor {
  ExecutorId executor;
  std::optional<RunId> because;
  std::optional<Room> room = {};
};
/// Bring the object from disk into the memory of the host. Answered by Fetched.
struct Fetch {
  ObjectId object;
  uint64_t bytes = 0;
};
/// Let it go from there: no executor uses it. Not answered.
struct Forget {
  ObjectId object;
  std::optional<Room> room = {};  ///< not if it was in Unload
};
/// The run has a place, and waits for what Fetch, StartExecutor and Load bring: get ready what else it needs. Not
/// answered; Run follows, or the run is never heard of again.
struct Prepare {
  RunId run;
  RequestId request;
  ExecutorId executor;
};
/// Bring the object to the executor's device. Answered by Loaded, or by ExecutorLost.
struct Load {
  ExecutorId executor;
  ObjectId object;
  uint64_t bytes = 0;
};
/// Free it there; no run uses it. Answered by Unloaded, or by ExecutorLost; a Load under way is answered or not.
struct Unload {
  ExecutorId executor;
  ObjectId object;
  std::optional<Room> room = {};
};
/// Free what the lane keeps for its runs to compute in; none is in it. Answered by Trimmed, or by ExecutorLost.
struct Trim {
  ExecutorId executor;
  uint32_t lane = 0;
  std::optional<Room> room = {};
};
/// Run it in that lane, which may have and keep this much memory. Answered by Started and Finished, or by ExecutorLost.
struct Run {
  RunId run;
  RequestId request;
  ExecutorId executor;
  uint32_t lane = 0;
  uint64_t lane_bytes = 0;
  LevelNo level = 0;        ///< runs of one level go one after the other
  uint32_t units = 0;       ///< of the device that it launches on; 0: all
  uint32_t first_unit = 0;  ///< of those; runs of one function have the same
};
/// What a launcher may put on its device from now on; what it was granted before is void. A lane begins with a grant of
/// Config::depth and no end; a program with a closed gate. Not answered.
struct Grant {
  LauncherId launcher;
  bool open = false;
  bool tells = false;      ///< it is to say when it has work and when a gap begins
  bool meters = false;     ///< it is to say what it used
  bool overdraws = false;  ///< what cannot end by `until` may begin before it
  /// Why it is closed.
  enum class Why : uint8_t { kOpen, kUrgent, kQuota, kUnits } why = Why::kOpen;
  Time from = {0};             ///< not before
  Time until = Time::never();  ///< what it launches is to end by then
  Duration depth = {0};        ///< of device time in flight
  uint32_t launches = 256;     ///< in flight
  Duration slice = {0};        ///< kernels of more than two of these are cut; 0: none is
  Duration beyond = {0};       ///< the size of slices in which it goes on after `until`; 0: it does not
  bool operator==(const Grant&) const = default;
};
/// Close the gate of its lane: no further kernel of this run starts. Answered by Finished, if it still can.
struct StopRun {
  RunId run;
};

/// Say what is in flight on the device: a run may have passed its limit. Answered by Flight, at once.
struct AskFlight {
  DeviceId device;
};

/// Why a request ended.
enum class End : uint8_t {
  kDone,             ///< its run ended well
  kFailed,           ///< its run ended with an error; the shell has it
  kFaulted,          ///< its kernel took the executor with it
  kDeadlineQueued,   ///< it waited too long
  kDeadlineRunning,  ///< it ran too long
  kCancelled,
  kQueueFull,    ///< refused at the door
  kTooLarge,     ///< fits no device; refused at the door
  kOverLimit,    ///< is larger than its tenant may use; refused at the door
  kWouldBeLate,  ///< could not make its deadline; refused at the door
  kNoDevice,     ///< there is no device; refused at the door
  kOverQuota,    ///< no device has the share left that its function is to have; refused at the door
  kQuarantined,  ///< its function keeps killing executors; refused for a while
  kLost,         ///< its executors died too often through no fault of its own
  kRemoved,      ///< its function was removed while it waited
};

/// Tell the caller: exactly once per request.
struct Answer {
  RequestId request;
  End end = End::kDone;
  std::optional<RunId> run;    ///< its last, if it ever ran
  Duration retry_after = {0};  ///< kQueueFull, kWouldBeLate, kNoDevice, kOverQuota, kQuarantined, kLost
};
/// Send a Tick at this time, or as soon after as can be. Only the newest counts.
struct WakeAt {
  Time time;
};

using Action = std::variant<StartExecutor, KillExecutor, Fetch, Forget, Prepare, Load, Unload, Trim, Run, Grant,
                            StopRun, AskFlight, Answer, WakeAt>;

/// The public code of an end; kDone has none.
ErrorCode error_code_of(End end);
std::string_view name_of(End end);
std::string_view name_of(Stage stage);
std::string_view name_of(Grant::Why why);

}  // namespace quern::sched
