// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sched/types.h"
#include "sim/agenda.h"
#include "sim/model.h"

namespace quern::sim {

/// How fast something is on so many of a device's units: `speeds` as of a FunctionModel. Above 0.
double speed_on(std::span<const SpeedAt> speeds, uint32_t units, uint32_t all_units);

/// A device at the level of kernels: launchers (lanes and programs) with work, what each of them has in flight, and who
/// is on the device.
///
/// A launcher puts its kernels on the device ahead, as far as its grant lets it, and what is in flight cannot be
/// recalled: it ends whatever the gate says. launcher/permit.h is what live launchers go by; here it is the same, but
/// that kernels can be cut anywhere. How long they take a launcher knows, unless it is made to believe otherwise: then
/// until the first of its launches has ended. DeviceModel::launch passes before a kernel that was launched can begin.
///
/// kQueue: kernels begin in the order they were launched; one that finds its units taken waits, and so do those
/// launched after it that use one of these units. Kernels of one launcher never overlap. kSlices: one process after
/// another has the device, for DeviceModel::time_slice while others have something in flight; whoever has nothing
/// leaves it at once.
///
/// Device time is in unit-nanoseconds: the time on the device, waits excepted, times the units used. What launchers say
/// of it, and when they look at their grant, is by their own clock: DeviceModel::drift.
///
/// What changes it does nothing at once: it puts kKernels on the agenda, and happen() tells what came of it. Costs grow
/// with the launchers of the device.
class KernelDevice {
 public:
  /// `model` and `agenda` outlive it. `first`: what a lane was granted when its executor started.
  KernelDevice(const DeviceModel& model, uint64_t index, const sched::Grant& first, Agenda& agenda);

  struct Work {
    std::vector<Duration> kernels;  ///< how long each takes with all units, alone, at speed 1; at least one
    bool sliceable = true;
    uint32_t units = 0;                       ///< that it uses; 0, or more than there are: all
    std::optional<uint32_t> first_unit = {};  ///< the first of these; nothing: any that are free
    std::span<const SpeedAt> speeds = {};     ///< read at once
    Time ready = {0};                         ///< no launch before
    const void* partition = nullptr;          ///< kernels of one partition never overlap; null: it has none
    double belief = 1;  ///< so many times as long as it is it takes a kernel for; 0: it never saw one of them
  };
  /// A launcher that has no work has some.
  void begin(Time now, sched::LauncherId launcher, const Work& work);
  /// It launches nothing more; its work ends with what is in flight.
  void stop(Time now, sched::LauncherId launcher);
  /// Of each lane whose work has begun: its first launch that has not ended, the oldest launch first. Lanes that have
  /// nothing in flight come first.
  struct InFlight {
    sched::LauncherId lane;
    uint64_t number = 0;  ///< of all that were launched on the device; 0: the lane has nothing in flight
    Time since;           ///< it was launched, and those before it of its launcher had ended
    Duration used;        ///< time on the device of those of its work that have ended
  };
  std::vector<InFlight> in_flight() const;

  /// What is on the device, or comes to it next, never ends.
  void hang(sched::LauncherId launcher);
  /// From now on it launches whatever its gate says.
  void ignore_gate(Time now, sched::LauncherId launcher);
  void grant(Time now, const sched::Grant& grant);
  /// Its work is gone, and what it had in flight.
  void drop_work(Time now, sched::LauncherId launcher);
  /// The same, and its gate.
  void drop(Time now, sched::LauncherId launcher);
  void drop_lanes(Time now, sched::ExecutorId executor);
  void clear();

  struct Told {
    enum class What : uint8_t {
      kStarted,  ///< the first kernel of its work began
      kUsed,     ///< `time` of the device since it said so last: a program, or who is to say so (Grant::meters)
      kWaits,    ///< it waits at its gate, and has `kernels` to launch; who is to say so (Grant::tells)
      kEnded,    ///< its work, which used `time` of the device
    } what = What::kEnded;
    sched::LauncherId launcher;
    Duration time = {0};
    bool flag = false;  ///< kEnded: it was stopped before all was launched
    std::vector<sched::KernelAhead> kernels = {};
  };
  /// The time of a kKernels has come, `epoch` is its `b`.
  void happen(Time now, uint64_t epoch, std::vector<Told>& told);

  bool is_open(Time now, sched::LauncherId launcher) const;
  /// Whose kernels are on the device, the one that came first before others.
  const std::vector<sched::LauncherId>& on() const { return on_; }
  bool is_hung(sched::LauncherId launcher) const;
  uint32_t units() const { return model_.units; }
  /// What time it is, as its launchers have it.
  Time clock(Time now) const;

 private:
  struct Kernel {
    uint64_t order = 0;  ///< of all that were launched
    Time arrives;        ///< it can begin then
    Duration left;
    Duration expected;  ///< how long its launcher takes it for
    Duration on = {0};  ///< how long it was on the device until it last left it
  };
  struct Launcher {
    sched::Grant grant;
    bool has_work = false;
    std::vector<Duration> kernels;  ///< on its units
    size_t next = 0;                ///< of them, to launch
    Duration left = {0};            ///< of that one: the rest was launched
    bool sliceable = true, is_started = false, is_stopped = false, is_hung = false, ignores_gate = false;
    double belief = 1;
    uint32_t units = 1;
    std::optional<uint32_t> first_unit;
    const void* partition = nullptr;
    Time ready = {0};
    std::deque<Kernel> launched;  ///< that have not ended; the first may be on the device
    Duration in_flight = {0};     ///< what they are expected to take together
    bool is_on = false;
    Time on_since = {0}, paced = {0}, ends = Time::never();  ///< while it is on: since when, as of when `left` is
    Duration used = {0}, used_in_all = {0};                  ///< of the device: since it said so, and by its work
    Time last_end = {0};                                     ///< when the last of them did
    Duration ended = {0};                                    ///< time on the device of launches that have ended
    Time told_used = {0};
    Duration told_next = {0};  ///< of the first
  };
  enum class Moment : uint8_t { kKernelEnd, kWait, kWorkEnd };
  using Launchers = std::map<sched::LauncherId, Launcher>;

  Launcher& at(sched::LauncherId id);
  void wake(Time at);
  void apply(const sched::Grant& grant);
  void end_kernels(Time now, std::vector<Told>& told);
  /// Launches what may be launched, and ends what is done.
  void pump(Time now, sched::LauncherId id, Launcher& launcher, std::vector<Told>& told);
  void end_work(Time now, sched::LauncherId id, Launcher& launcher, std::vector<Told>& told);
  void tell_used(Time now, sched::LauncherId id, Launcher& launcher, Moment moment, std::vector<Told>& told);
  static Duration as_believed(const Launcher& launcher, Duration time);
  /// As launchers measure it.
  Duration measured(Duration time) const;
  /// It waits at its gate.
  void tell_next(sched::LauncherId id, Launcher& launcher, std::vector<Told>& told);
  void begin_in_order(Time now, std::vector<Told>& told);
  void begin_in_slices(Time now, std::vector<Told>& told);
  /// The first kernel of it that was launched comes to the device.
  void enter(Time now, sched::LauncherId id, Launcher& launcher, std::vector<Told>& told);
  void exit(Time now, sched::LauncherId id, Launcher& launcher);
  bool is_taken(const void* partition) const;
  /// Whether a launch of `one` waits while `other`, which was launched before, is on the device or waits for it.
  bool share_units(const Launcher& one, const Launcher& other) const;
  /// Of those that could begin now, of this process if one is given, the one launched first.
  Launchers::iterator first_waiting(Time now, std::optional<uint64_t> process);
  /// The process after this one, in turn, that has something that could begin.
  std::optional<uint64_t> next_process(Time now, uint64_t process);
  void settle(Time now);
  void pace(Time now);
  Time next_time(Time now);
  void forget(Launcher& launcher, sched::LauncherId id);

  const DeviceModel& model_;
  const uint64_t index_;
  const sched::Grant first_;
  Agenda& agenda_;
  Launchers launchers_;
  std::vector<sched::LauncherId> on_;
  uint32_t free_units_;
  std::deque<std::pair<Time, sched::Grant>> coming_;  ///< grants on their way
  uint64_t process_ = 0;                              ///< kSlices: whose turn it is
  Time slice_ends_ = {0};
  double slowed_ = 1;  ///< what is on the device takes so many times as long
  uint64_t next_order_ = 0, epoch_ = 0;
  Time planned_ = Time::never();
};

}  // namespace quern::sim
