// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sched/types.h"
#include "sim/agenda.h"
#include "sim/faults.h"
#include "sim/id_table.h"
#include "sim/kernel_device.h"
#include "sim/model.h"

namespace quern::sim {

/// Host, devices, executors and runs as the core's actions make them, in virtual time.
///
/// An action never brings about an event at once: it puts what follows on the agenda. When that time comes, happen()
/// gives what the core is to hear of, in `heard`. A report may be underway for a while (the way of an answer, a fault);
/// reports of one executor arrive in the order they were made, so what a run said comes before the loss of its
/// executor. What is addressed to an executor that is gone, and of which the core has not heard yet, is swallowed: the
/// report of its loss is the answer.
///
/// A device runs what it is sent one after another: of those that are ready and whose gate is open, the first sent.
/// Who is on it stays until it is done or its gate closes; then what is left of it waits for its next turn. A kernel
/// that hangs stays whatever its gate says. `launch` passes beside the run before it, if there is one. Loads of a
/// device come one after another, beside its runs; so do fetches from the disk. A run is ready when the last of its
/// loads is there, all of which were asked for before it; if one of them fails, so does the run.
///
/// A device that has kernels (DeviceModel::Sharing) goes by those instead: KernelDevice. It can be divided into its
/// units, and its device time is in unit-nanoseconds; any other is one unit.
class VirtualPool {
 public:
  VirtualPool(const Model& model, Agenda& agenda, Faults& faults);

  size_t size() const { return devices_.size(); }
  /// Of the device with this index; its id is the index + 1.
  sched::DeviceUp up_event(size_t index) const;
  bool is_up(size_t index) const { return devices_[index].is_up; }
  /// Nothing: there is no host tier.
  std::optional<sched::HostUp> host_event() const;
  size_t runs() const { return runs_.size(); }

  // Actions.
  void carry_out(Time now, const sched::StartExecutor& action);
  void carry_out(Time now, const sched::KillExecutor& action);
  void carry_out(Time now, const sched::Fetch& action);
  void carry_out(Time now, const sched::Load& action);
  void carry_out(Time now, const sched::Unload& action);
  void carry_out(Time now, const sched::Trim& action);
  /// `work`: its device time at speed 1. `can_hang`: its device time is limited. `needs`: objects; those of `shared`
  /// outlive the run. `function`: into which kernels it is divided; null: one.
  struct Needs {
    const std::vector<uint32_t>* shared = nullptr;
    uint32_t passing = 0;  ///< 0: none
    bool makes = false;    ///< it leaves something behind, which takes room
    bool contains(uint32_t object) const {
      return (passing != 0 && object == passing) ||
             (shared && std::find(shared->begin(), shared->end(), object) != shared->end());
    }
  };
  void carry_out(Time now, const sched::Run& action, Duration work, bool can_hang, const Needs& needs,
                 const FunctionModel* function = nullptr);
  void carry_out(Time now, const sched::StopRun& action);
  void carry_out(Time now, const sched::Grant& action);
  void carry_out(Time now, const sched::AskFlight& action);

  // Programs: what they have for the device waits its turn like a run.
  /// `model` outlives it.
  void join(sched::LauncherId program, size_t device, const ProgramModel& model);
  /// One that has nothing there has work from now on; it is in ended() when that is done. `kernels`: the device time of
  /// each, as of a run; at least one. `belief`: see KernelDevice::Work.
  void begin(Time now, sched::LauncherId program, const std::vector<Duration>& kernels, double belief = 1);
  void leave(Time now, sched::LauncherId program);
  void ignore_gate(Time now, sched::LauncherId program);
  /// What the next work on this device is taken for.
  double draw_belief(size_t device);
  /// What time it is, as launchers on it have it.
  Time clock(size_t device, Time now) const;
  bool is_open(Time now, sched::LauncherId program) const;
  /// What programs use of it the pool tells, in full.
  bool has_kernels(size_t device) const { return devices_[device].kernels != nullptr; }
  /// How much of the work that ended last the pool told as used, since its gate asked for that.
  Duration take_told(sched::LauncherId program);
  /// When the first kernel of its work began, by the clock there; 0: not yet, or it knows of no kernels.
  Time started(sched::LauncherId program) const;
  /// DeviceModel::launch
  Duration launch(size_t device) const { return devices_[device].model->launch; }
  /// Those whose work was done since this was asked last.
  std::vector<sched::LauncherId> take_ended() { return std::exchange(ended_, {}); }

  /// Entries from kRunStarts to kHostBack. Adds to `heard` what the core hears of now.
  void happen(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard);

  // What goes wrong. Each does nothing, and says so, if there is nothing to do it to.
  bool lose_some_executor(Time now, std::vector<sched::Event>& heard);
  bool fault_some_kernel(Time now, std::vector<sched::Event>& heard);
  /// An executor dies, and any of its runs may have done it.
  bool lose_unclearly(Time now, std::vector<sched::Event>& heard);
  /// The kernel of a run that the device is at never ends; which run.
  std::optional<sched::RunId> hang_some_run();
  /// The run that some device is at ends with an error of its own; `ends_executor`: and its executor with the run.
  bool fail_some_run(bool ends_executor);
  bool lose_some_device(Time now, std::vector<sched::Event>& heard);
  bool take_some_memory(Time now, std::vector<sched::Event>& heard);
  bool take_host_memory(Time now, std::vector<sched::Event>& heard);
  /// Devices and host are back, with all their memory.
  void mend(Time now, std::vector<sched::Event>& heard);
  /// The daemon died, and all executors with it: nothing runs, and no report arrives any more.
  void forget_executors(Time now);

 private:
  struct Device {
    const DeviceModel* model = nullptr;
    uint64_t whole_bytes = 0;   ///< without what blank executors hold
    uint64_t memory_bytes = 0;  ///< right now
    bool is_up = true;
    uint32_t blanks = 0;              ///< executors that are ready and nobody's
    uint32_t generation = 0;          ///< of them: those of the one before died
    Time copies_until;                ///< the last load that was asked for is there
    std::vector<uint64_t> runs;       ///< in the order sent; and programs that have work, by their launcher's number
    std::optional<uint64_t> running;  ///< the one of them that is on the device
    std::vector<uint64_t> executors;  ///< that are not dead
    /// Null: it knows no kernels. Else `running` is always empty, and programs are not in `runs`.
    std::unique_ptr<KernelDevice> kernels = nullptr;
  };
  struct Gate {
    bool is_open = true;
    bool meters = false;         ///< what is used is told every millisecond, and when it has to wait
    Time from = {0};             ///< it opens by itself
    Time until = Time::never();  ///< it closes by itself
    uint64_t epoch = 0;          ///< grows with every grant
    bool is_ignored = false;
    bool lets(Time now) const { return is_ignored || (is_open && now >= from && now < until); }
  };
  struct Copy {
    uint32_t object = 0;
    Time due;
  };
  struct Executor {
    uint32_t device = 0;
    uint32_t live_at = 0;  ///< in live_
    bool is_dead = false;  ///< the report of it is underway
    bool is_killed = false;
    Time up_at;
    Time reports_until;     ///< no report arrives before the one before it
    uint32_t underway = 0;  ///< reports that have not arrived
    std::vector<Copy> loads;
    std::vector<uint32_t> missing;  ///< whose last load failed: who needs one fails
    std::vector<uint64_t> lanes;    ///< bytes that each keeps
    std::vector<Gate> gates;        ///< of lanes; those beyond its end are open
  };
  struct Run {
    uint64_t executor = 0;  ///< 0: of a program
    uint32_t device = 0, lane = 0;
    Time ready;                                 ///< earliest start
    Time started = {0};                         ///< by the clock there, where there are kernels
    Time on_since = {0}, ends = Time::never();  ///< while it is on the device
    Duration left, used = {0};                  ///< of its work, and of the device, when it last left that
    Duration told = {0};                        ///< of what it used, because its gate asked for that
    uint64_t times = 0;                         ///< that it came to the device
    Needs needs;
    bool is_started = false, is_stopped = false, is_hung = false, can_hang = false, is_failed = false;
    bool ends_executor = false;  ///< with its failure
    bool is_cut = false;         ///< ends before its time
    bool is_refused = false;     ///< its lane could not grow
  };
  struct Program {
    Gate gate = {.is_open = false};
    uint32_t device = 0;
    std::optional<Run> work = std::nullopt;
    const ProgramModel* model = nullptr;
    Duration told = {0};  ///< see take_told()
    Time started = {0};   ///< see started()
  };

  Device& device_of(const Executor& executor) { return devices_[executor.device]; }
  bool is_being_loaded(Time now, const Run& run);
  /// A report of an executor that is there, `delay` after now; straight to `heard` if it arrives at once.
  void tell(Time now, uint64_t executor, const sched::Event& event, Duration delay, std::vector<sched::Event>& heard);
  /// The report of a run that ended, and of the executor that ends with it, if one does.
  void tell_end(Time now, uint64_t executor, const sched::Finished& end, Duration delay,
                std::vector<sched::Event>& heard);
  void report_arrives(uint64_t slot, uint64_t executor, std::vector<sched::Event>& heard);
  void device_back(Time now, uint64_t index, std::vector<sched::Event>& heard);
  void memory_back(uint64_t index, std::vector<sched::Event>& heard);
  void host_back(std::vector<sched::Event>& heard);
  /// Those that were there are gone; as many as belong there are made again.
  void make_blanks(Time now, Device& device);
  /// A run, or the work of a program.
  Run* find(uint64_t id);
  bool is_open(Time now, uint64_t id);
  /// And the device it is for; null: nobody is behind it any more.
  std::pair<Gate*, Device*> find_gate(sched::LauncherId launcher);
  /// A gate changed: who is on the device leaves it if his is closed, and the next may come.
  void arbitrate(Time now, Device& device);
  static sched::LauncherId launcher_of(uint64_t id, const Run& run);
  // virtual_pool_kernels.cc: kernels, and what is told of their use.
  void begin_kernels(Time now, Device& device, const sched::Run& action, const Run& run, Duration work,
                     const FunctionModel* function);
  void begin_kernels(Time now, Device& device, sched::LauncherId id, const Program& program,
                     const std::vector<Duration>& kernels, double belief);
  void kernels_happen(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard);
  void heard_of_lane(Time now, Device& device, const KernelDevice::Told& told, std::vector<sched::Event>& heard);
  /// Nothing: the lane has none.
  std::optional<uint64_t> run_in(const Device& device, sched::LauncherId lane);
  bool is_metered(sched::LauncherId launcher);
  /// What a launcher that is asked to used since it said so last; and again in a millisecond, if it is still at it.
  void meters(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard);
  sched::Flight flight(uint64_t index);
  void load_ends(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard);
  /// A run of the device may start or go on, if it is free: the first that is ready and let through.
  void run_starts(Time now, uint64_t index, std::vector<sched::Event>& heard);
  void run_ends(Time now, uint64_t id, std::vector<sched::Event>& heard);
  /// A run that is not on the device ends with an error that is not its own.
  void give_up(Time now, uint64_t id, bool no_room, std::vector<sched::Event>& heard);
  void remove_run(Device& device, uint64_t id);
  /// Plans when a device that is free takes its next run.
  void advance(Time now, Device& device);
  /// It is gone from the device, with its runs; the core hears of it.
  void lose(Time now, uint64_t id, std::optional<sched::RunId> culprit, std::vector<sched::Event>& heard,
            std::vector<sched::RunId> suspects = {});
  void remove_from_live(Executor& executor);
  /// A run that is on its device, by chance; nothing if there is none.
  std::optional<uint64_t> some_running(bool to_hang);
  bool is_oldest(const Device& device, uint64_t run);

  static constexpr Duration kMeterEvery = Duration::millis(1);

  Agenda& agenda_;
  Faults& faults_;
  const std::vector<DeviceModel> models_;
  const HostModel host_;
  const uint32_t pool_;  ///< blank executors per device
  uint64_t host_bytes_;  ///< right now
  Time fetches_until_;   ///< the last fetch that was asked for is there
  std::vector<Device> devices_;
  IdTable<Executor> executors_;
  IdTable<Run> runs_;
  std::map<uint64_t, Program> programs_;  ///< by their launcher's number
  std::vector<sched::LauncherId> ended_;  ///< see take_ended()
  std::vector<KernelDevice::Told> told_;  ///< by the device that is being asked
  std::vector<uint64_t> live_;            ///< executors that are not dead
  std::vector<sched::Event> underway_;
  std::vector<uint32_t> free_underway_;
};

}  // namespace quern::sim
