// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sched/gaps.h"
#include "sched/policy/arbitration.h"
#include "sched/scheduler.h"

namespace quern::sched {

/// Which launchers may put how much on a device, from when, until when.
///
/// The most urgent that have work are open. So are those more urgent still that pause: they come back without asking.
/// In such a pause one less urgent launcher is open, until the other is predicted to be back; the rest is closed, but
/// for the little that a level has in any case. A function whose run has ended pauses like a launcher, until its next
/// call comes.
///
/// Costs grow with the launchers of one device that have something to do, which are few.
class Dispatch {
 public:
  Dispatch(const Config& config, const Arbitration& arbitration) : config_(config), arbitration_(arbitration) {}

  void program_up(LauncherId program, DeviceId device, FunctionId function, uint8_t level, Time now);
  /// It is gone; of a lane, its executor.
  void gone(LauncherId launcher, Time now);

  /// A lane has a run. `is_ready`: it could launch at once; else run_ready follows.
  void run_began(LauncherId lane, RunId run, DeviceId device, FunctionId function, uint8_t level, bool is_ready,
                 Time now);
  void run_ready(LauncherId lane, Time now);
  void run_ended(LauncherId lane, Time now);
  /// A request of the function came: what it does next is known.
  void called(FunctionId function, Time now);

  /// A program had something on the device: what is known of one that is alone and tells no more.
  void used(LauncherId program, Time now);
  void work_ready(LauncherId launcher, Duration next, bool sliceable, Time now);
  void gap_begun(LauncherId launcher, Time at, uint64_t after);
  void forget(FunctionId function);

  struct Change {
    Grant grant;
    std::optional<RunId> run;  ///< of a lane
  };
  /// The grants that are different from now on.
  std::vector<Change> decide(Time now);
  /// When to decide again at the latest.
  Time due() const { return dues_.empty() ? Time::never() : dues_.begin()->first; }

  /// What a lane has when its executor starts.
  Grant free_grant(LauncherId launcher) const;

  // For checkers.
  bool is_open(LauncherId launcher) const;

 private:
  /// From the end of the last kernel until work is ready.
  struct Pause {
    Time began;
    Gaps::Prediction gap;
    /// When it is expected back: at the usual time, or as early as it ever is.
    Time back() const { return began + (gap.is_stable ? gap.median : gap.early); }
    /// From then on nothing is known of it.
    Time late() const;
  };
  struct Launcher {
    LauncherId id;
    DeviceId device;
    FunctionId function;
    uint8_t level = 0;
    std::optional<RunId> run;
    enum class State : uint8_t { kIdle, kWorking, kPausing } state = State::kIdle;
    Pause pause;
    uint64_t after = 0;
    Duration next = {0};
    bool sliceable = true;
    Grant grant;
    Time opened_at = {0};
    int64_t opened_ns = 0;  ///< while it filled: whose turn it is next
    double owed_ns = 0;     ///< of its least share
    Time owed_at = {0};     ///< up to then
    Time turn_until = {0};  ///< it is open for what it was owed
    Time seen = {0};        ///< of a program: when it last had something on the device
    bool has_told = false;  ///< of a program: what it is doing, since it was asked to
  };
  /// A function that pauses between its runs.
  struct Absent {
    uint8_t level = 0;
    Pause pause;
    bool is_back = false;  ///< its call came, and its run did not yet
  };
  struct Place {
    std::set<LauncherId> launchers;  ///< programs, and lanes that have a run
    std::map<FunctionId, Absent> absent;
    std::optional<LauncherId> filler;  ///< of this pause
    Time filled = {0};                 ///< when that pause began
    Time shared_at = {0};              ///< when there was something to decide last
    Time due = Time::never();          ///< in dues_
    Time next_look = Time::never();    ///< while deciding: what becomes of `due`

    void look_at(Time time) { next_look = std::min(next_look, time); }
  };
  /// Who is on a device, in short.
  struct Levels {
    uint8_t top = 0;          ///< the most urgent that has work
    uint8_t most_urgent = 0;  ///< that is there at all
    bool is_shared = false;   ///< there is something to decide
  };

  void touch(DeviceId device) { touched_.insert(device); }
  void decide(DeviceId id, Place& place, Time now, std::vector<Change>& changes);
  Levels levels_of(DeviceId id, Place& place, Time now);
  void drop_stale(DeviceId id, Place& place, Time now);
  std::optional<Pause> next_pause(Place& place, uint8_t top, Time now);
  Launcher* best_fit(Place& place, const Pause& pause, uint8_t top, Time now);
  /// One that gives way by itself to those more urgent; null: there is none.
  Launcher* first_that_yields(Place& place, uint8_t top);
  Grant fill_grant(const Launcher& launcher, const Pause& pause, Time now) const;
  std::optional<Grant> owed_grant(Launcher& launcher, Time now, Place& place);
  void set_due(DeviceId id, Place& place, Time due);
  void came_back(Place& place, FunctionId function);

  const Config& config_;
  const Arbitration arbitration_;
  Gaps gaps_;
  std::map<LauncherId, Launcher> launchers_;
  std::map<DeviceId, Place> places_;
  std::map<FunctionId, std::set<DeviceId>> absent_on_;
  std::set<DeviceId> touched_;
  std::set<std::pair<Time, DeviceId>> dues_;
};

}  // namespace quern::sched
