// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sched/gaps.h"
#include "sched/policy/arbitration.h"
#include "sched/quotas.h"
#include "sched/scheduler.h"

namespace quern::sched {

/// Which launchers may put how much on a device, from when, until when.
///
/// The most urgent that have work are open. So are those more urgent still that pause: they come back without asking.
/// In such a pause one less urgent launcher is open, until the other is predicted to be back; the rest is closed, but
/// for the little that a level has in any case. A function whose run has ended pauses like a launcher, until its next
/// call comes.
///
/// Who has a quota is closed once it had its limit of a window, and comes before others of its priority as long as it
/// had less than its request. Where launchers use some of the units of a device only, as many are open as there are
/// units; where those are short, who had them least goes first, for a while.
///
/// Costs grow with the launchers of one device that have something to do, which are few.
class Dispatch {
 public:
  Dispatch(const Config& config, const Arbitration& arbitration)
      : config_(config), arbitration_(arbitration), quotas_(config) {}

  /// What puts kernels on a device, for whom and how urgent.
  struct Who {
    LauncherId launcher;
    DeviceId device;
    FunctionId function;
    uint8_t priority = 0;
    Quota quota;
    Duration expected = {0};  ///< of the device, by its run; 0: nobody knows
  };
  void device_up(DeviceId device, Units units, bool classes) {
    places_[device].units = units;
    places_[device].best_effort =
        classes ? std::min<uint32_t>(config_.best_effort, kLeastUrgent + 1) : kLeastUrgent + 1;
  }

  /// What a function may have changed, from now on.
  void quota_set(FunctionId function, const Quota& quota, Time now);

  void program_up(const Who& program, Time now);
  /// It is gone; of a lane, its executor.
  void gone(LauncherId launcher, Time now);

  /// A lane has a run. `is_ready`: it could launch at once; else run_ready follows.
  void run_began(const Who& lane, RunId run, bool is_ready, Time now);
  void run_ready(LauncherId lane, Time now);
  /// What a run used of the device in all, and when its first launch began (0: not known), before run_ended.
  void run_used(LauncherId lane, Duration in_all, Time started, Time now);
  void run_ended(LauncherId lane, Time now);
  /// A request of the function came: what it does next is known.
  void called(FunctionId function, Time now);

  /// A launcher had something on the device: all that is known of a program that is alone and tells no more.
  void used(LauncherId launcher, Duration time, Time now);
  void work_ready(const WorkReady& ready, Time now);
  void gap_begun(const GapBegun& gap, Time now);
  void gaps_known(const GapsKnown& known);
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

  // For showing, and for checkers.
  const Gaps& gaps() const { return gaps_; }
  bool is_open(LauncherId launcher) const;
  /// How many units of its device a launcher of this quota uses.
  uint32_t units_of(DeviceId device, const Quota& quota) const;
  /// Which of them, if a run of the function began now: those that it has already, else those that the fewest others
  /// have. A multiple of the largest power of two that is not above units_of: where devices are divided, it is so.
  uint32_t first_unit_of(DeviceId device, FunctionId function, const Quota& quota) const;
  /// Functions whose quota is known.
  size_t quotas() const { return quotas_.size(); }

 private:
  /// A pause that is longer than this is none: whoever comes back after it finds no more in its way than any other.
  static constexpr Duration kLongPause = Duration::millis(50);
  /// What is owed is given when it is worth it.
  static constexpr Duration kTurn = Duration::millis(1);
  /// From the end of the last kernel until work is ready.
  struct Pause {
    Time began;
    Gaps::Prediction gap;
    Duration latency = {0};  ///< from its end to the first START after it
    /// When it is expected back: at the usual time, or as early as it ever is.
    Time back() const { return began + (gap.is_stable ? gap.median : gap.early); }
    /// From then on nothing is known of it.
    Time late() const;
  };
  struct Launcher {
    LauncherId id;
    DeviceId device;
    FunctionId function;
    uint8_t priority = 0;
    Quota quota;       ///< as it was when it began: its units stay, what it may have of the time is as it is now
    uint8_t rank = 0;  ///< while deciding: the lower, the more urgent
    std::optional<RunId> run;
    enum class State : uint8_t { kIdle, kWorking, kPausing } state = State::kIdle;
    Pause pause;
    uint64_t after = 0;
    std::vector<KernelAhead> kernels;  ///< that it is about to launch, as it said last; empty: it said nothing yet
    Grant grant;
    Time opened_at = {0};
    int64_t opened_ns = 0;            ///< while it filled: whose turn it is next
    double owed_ns = 0;               ///< of its least share
    Time owed_at = {0};               ///< up to then
    double owed_share = 0;            ///< since then
    Time turn_until = {0};            ///< it is open for what it was owed
    Grant turn;                       ///< that it has until then
    Time owed_since = Time::never();  ///< it could have a turn, and there are too few units
    Time seen = {0};                  ///< of a program: when it last had something on the device
    bool has_told = false;            ///< of a program: what it is doing, since it was asked to
    Duration told_used = {0};         ///< of this run, by DeviceUsed
    Duration expected = {0};          ///< of the device, by its run
    Time ready_at = {0};              ///< when its last gap ended, or the one before its run; 0: nobody knows
    bool was_clear = false;           ///< nobody was in its way then
    Time ends = {0};                  ///< its run, or what it does until the next gap, if nothing comes in between
    Gaps::Prediction then;            ///< the gap that begins there
    Time fills_until = {0};           ///< it fills a gap, and its run ends then
    bool is_spent = false;            ///< it had its limit of this window
    Time spent_at = {0};              ///< the earliest at which it can have had it, if it is open from now on
    int64_t units_ns = 0;             ///< how long it had units, where they were short: whose turn it is next
    uint64_t shortage = 0;            ///< in which: those before it are forgotten
    uint8_t units_rank = 0;           ///< and at which rank
    uint32_t first_unit = 0;          ///< of those that it uses
    bool has_units = false;           ///< in this turn
    bool asks_units = false;          ///< and did so before
    bool is_owed = false;             ///< while deciding: it has them for what it was owed

    bool has_quota() const { return quota != Quota{}; }
    bool sliceable() const { return kernels.empty() || kernels.front().sliceable; }
  };
  /// A function that pauses between its runs.
  struct Absent {
    uint8_t rank = 0;
    Pause pause;
    bool is_back = false;   ///< its call came, and its run did not yet
    bool is_clear = false;  ///< and nobody was in its way
  };
  struct Place {
    std::set<LauncherId> launchers;  ///< programs, and lanes that have a run
    std::map<FunctionId, Absent> absent;
    std::optional<LauncherId> filler;    ///< of this pause
    std::optional<LauncherId> next;      ///< of the one that is expected, which it was told ahead
    std::optional<LauncherId> yielding;  ///< of those that give way by themselves, the one that goes on
    Time filled = {0};                   ///< when that pause began
    Time shared_at = {0};                ///< when there was something to decide last
    Time due = Time::never();            ///< in dues_
    Time next_look = Time::never();      ///< while deciding: what becomes of `due`
    Units units;
    uint32_t best_effort = kLeastUrgent + 1;  ///< lanes of this priority and less urgent ones give way by themselves
    Time turn_began = Time::never();          ///< of those that have units: when that was last counted
    Time turn_ends = {0};                     ///< where they are short
    uint64_t shortage = 0;                    ///< counts how often they were
    bool has_parts = false;                   ///< some use a part of its units only

    void look_at(Time time) { next_look = std::min(next_look, time); }
  };
  /// Whoever is most urgent pauses soon.
  struct Ahead {
    LauncherId launcher;
    uint8_t rank = 0;
    Pause pause;
  };
  /// Who is on a device, in short.
  struct Levels {
    uint8_t top = 0;          ///< the most urgent that has work
    uint8_t most_urgent = 0;  ///< that is there at all
    bool is_shared = false;   ///< there is something to decide
    bool has_parts = false;   ///< some use a part of its units only
  };

  void touch(DeviceId device) { touched_.insert(device); }
  void decide(DeviceId id, Place& place, Time now, std::vector<Change>& changes);
  Levels levels_of(Place& place, Time now);
  /// There was something to decide not long ago.
  static bool is_lately_shared(const Place& place, Time now);
  void drop_stale(DeviceId id, Place& place, Time now);
  std::optional<Pause> next_pause(Place& place, uint8_t top, Time now);
  /// Of those ranks that are below the latter.
  Launcher* best_fit(Place& place, const Pause& pause, uint8_t top, uint8_t below, Time now);
  /// How much of what it is about to launch ends within so long: what can be cut fills it. Nothing: not even the first.
  std::optional<int64_t> fit(const Launcher& launcher, int64_t left_ns) const;
  /// One that gives way by itself to those more urgent; null: there is none.
  Launcher* first_that_yields(Place& place, uint8_t top);
  // dispatch_ahead.cc: what is told before its time.
  std::optional<Ahead> next_end(Place& place, uint8_t top, Time now);
  /// Who fills the gap that begins then, and what it is told before.
  Launcher* next_in(Place& place, const Ahead& ahead);
  Grant grant_ahead(const Launcher& launcher, const Ahead& ahead, Time now) const;
  /// Who goes on when the run ends that fills a gap: a lane of the same executor.
  Launcher* relay_of(Place& place, const Launcher& filler, const Pause& pause, Time now);
  /// From the time at which it begins to fill.
  void begin_to_fill(Launcher& launcher, Time now);
  // dispatch_gaps.cc: what is learned of pauses.
  void learn_gap(DeviceId device, FunctionId function, uint64_t after, Duration gap);
  void learn_latency(const Launcher& launcher, Time started);
  /// How long its launches take to reach the device; 0 where that is to be seen.
  Duration latency_of(DeviceId device, FunctionId function) const;
  /// Who comes back from it finds nobody in its way.
  static bool is_clear(const Place& place, const Pause& pause);
  /// A program has work since then: when its next gap begins, and which.
  void expect_gap(Launcher& program, bool pauses, Time since);
  // dispatch_shares.cc: quotas and units.
  static uint8_t rank_of(uint8_t priority, bool is_below_request);
  void rank(Place& place, Time now);
  void keep_quota(Launcher& launcher, Place& place, Grant& want, Time now);
  void charge(const Launcher& launcher, Duration used, Time now);
  /// Of its limit in this window.
  Duration left_of(const Launcher& launcher, Time now);
  void share_units(Place& place, Time now);
  static void end_shortage(Place& place, Time now);

  Grant fill_grant(const Launcher& launcher, const Pause& pause, Time now) const;
  /// In a gap whose end is known.
  Duration slice_in(Duration gap) const;
  /// Where it is not: of someone who is away for about so long.
  Duration slice_for(Duration away, Duration least) const;
  Time end_of(const Launcher& lane, Time now) const;
  std::optional<Grant> owed_grant(Launcher& launcher, Time now, Place& place);
  /// A window gives it more than all have anyway, and turns enough to be counted.
  bool is_worth_turns(uint32_t request) const {
    return request > config_.least_share && config_.window.ns * request >= 2 * kTurn.ns * 1000;
  }
  /// Of what it is behind its request.
  std::optional<Grant> owed_request(Launcher& launcher, Time now, Place& place);
  void set_due(DeviceId id, Place& place, Time due);
  /// A lane has a run of it. Since when it is back; 0: it was not expected.
  Time came_back(Place& place, Launcher& lane);

  const Config& config_;
  const Arbitration arbitration_;
  Gaps gaps_;
  Bursts bursts_;
  Quotas quotas_;
  std::map<LauncherId, Launcher> launchers_;
  std::map<DeviceId, Place> places_;
  std::map<FunctionId, std::set<DeviceId>> absent_on_;
  std::map<std::pair<FunctionId, DeviceId>, uint32_t> returns_;  ///< of which it was told when the first kernel began
  std::set<DeviceId> touched_;
  std::set<std::pair<Time, DeviceId>> dues_;
};

}  // namespace quern::sched
