// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sched/arrivals.h"
#include "sched/blame.h"
#include "sched/devices.h"
#include "sched/dispatch.h"
#include "sched/estimates.h"
#include "sched/homes.h"
#include "sched/keeps.h"
#include "sched/policy/eviction.h"
#include "sched/policy/exit.h"
#include "sched/policy/fairness.h"
#include "sched/policy/placement.h"
#include "sched/policy/setup.h"
#include "sched/prices.h"
#include "sched/scheduler.h"
#include "sched/tenants.h"
#include "sched/timers.h"

namespace quern::sched {

/// What is behind Scheduler. Each step: the event, then what is due, then placing, then the next wake-up. In that
/// order, a run that ends at its deadline has ended in time, and a request past its deadline is never placed.
///
/// One function per event, in the file of the noun it changes: requests.cc, runs.cc, executors.cc, residency.cc,
/// host.cc, stages.cc; placing.cc fills the devices, prefetch.cc what is left of them.
class Scheduler::Impl {
 public:
  explicit Impl(const Config& config);
  const std::vector<Action>& step(Time now, const Event& event);
  Counts counts() const;
  std::vector<Standing> standings() const { return tenants_.standings(); }
  Lag lag() const;
  std::optional<Books> books(DeviceId device) const;
  std::optional<Books> host_books() const;
  uint32_t kills_in_a_row(FunctionId function) const { return blame_.kills_in_a_row(function); }
  std::optional<Progress> progress(RequestId request) const;
  std::vector<GapsSeen> gaps(FunctionId function) const { return dispatch_.gaps().seen(function); }
  std::vector<Share> shares() const;

 private:
  // requests.cc
  void on(const TenantSet& event) { tenants_.set(event); }
  void on(const Submit& event);
  void on(const Cancel& event);
  void on(const FunctionGone& event);
  Request* find_request(RequestId id);
  void enqueue(Request& request);
  /// Its executor is lost through no fault of its own: it runs again, or has been lost too often.
  void give_back(Request& request);
  /// Ends the request, wherever it is; a run it has goes on without it. `request` is no more after this.
  void answer(Request& request, End end, Duration retry_after = {0});
  /// Queued requests follow when their function gets an executor of its own, shares one again, or is quarantined.
  void regroup(FunctionId function);
  Group group_of(FunctionId function, DomainId domain) const;

  // runs.cc
  void on(const Started& event);
  void on(const Finished& event);
  RunRecord* find_run(RunId id);
  void send(RunRecord& run);
  void stop(RunRecord& run, RunRecord::Stop why);
  /// Its slot is free, and what it had pinned and promised. It used this much of the device; nothing: what was
  /// expected.
  void erase(RunRecord& run, std::optional<int64_t> used_ns = 0);
  /// It was not sent yet: its request waits again, as if it had never had a slot.
  void withdraw(RunRecord& run);

  // flight.cc: how long runs were on the device, and whose launch does not end.
  void on(const Flight& event);
  /// The time has come to look at the run: its deadline or its limit may have passed.
  void look(RunRecord& run);
  void ask_flight(DeviceId device);
  /// Of a run that was sent: arms the timer for when it has to be looked at next.
  void watch(RunRecord& run);
  /// A run was sent to the device, where others are: which of them is on it is asked for from now on.
  void watch_beside(const RunRecord& run);
  /// What the device told of a run that was sent: brings `front` up to date.
  void note_front(RunRecord& run, const Flight& event, const Flight::Launch* launch);
  void judge(RunRecord& run);
  void judge_stopped(RunRecord& run);
  Time deadline_of(const RunRecord& run);
  /// How long after it was told to stop, and came to the front, its executor is killed.
  Duration grace_of(const RunRecord& run) const;
  bool is_beside(const RunRecord& one, const RunRecord& other) const;

  // executors.cc
  void on(const DeviceUp& event);
  void on(const DeviceDown& event);
  void on(const ExecutorUp& event);
  void on(const ExecutorLost& event);
  void on(const Tick&) {}
  void lose(ExecutorId executor, std::optional<RunId> culprit, const std::vector<RunId>& suspects = {});
  /// Sends nothing more to the executor, and counts its memory as leaving until it is lost.
  void begin_end(Executor& executor);
  void kill(Executor& executor, std::optional<RunId> because, std::optional<Room> room = {});
  /// What was in an executor that is gone.
  void dropped(Device& device, const std::vector<std::pair<Ledger::Key, Ledger::Item>>& items);
  /// Ends executors that a function has for itself and needs no longer.
  void retire(Executor& executor);
  void retire_all(FunctionId function);

  // residency.cc: the memory of devices.
  void on(const DeviceMemory& event);
  void on(const Loaded& event);
  void on(const Unloaded& event);
  void on(const ObjectGone& event);
  void on(const Trimmed& event);
  void set_memory(Device& device, uint64_t memory_bytes);
  /// Something it needed could not be brought: its request runs again. Where the device had too little room, that is
  /// not held against it.
  void come_back(RunRecord& run);
  uint64_t round_up(uint64_t bytes) const;
  Ledger::Use use_of(FunctionId function, int64_t reload_ns) { return {function, reload_ns, next_use_++, now_}; }
  /// What a load of it costs, with the way from disk if it is not on the host.
  int64_t reload_ns(const Device& device, const ObjectNeed& need) const;
  /// Pins and promises what the run needs, and has leave what stands in its way.
  void reserve(Device& device, Executor& executor, RunRecord& run);
  /// What it was to make is on the device, or never will be.
  void settle_made(RunRecord& run, bool is_there);
  /// As much leaves as was promised too much, and that is for this request.
  void make_room(Device& device, std::optional<RequestId> request);
  /// The first that waits for room there.
  std::optional<RequestId> first_waiting(const Device& device) const;
  /// It leaves the device: nobody needs it. `room`: for whom, if it is not because its time is over; this fills in how
  /// much that is.
  void leave(Device& device, Ledger::Key key, std::optional<Room> room = {});
  /// Its memory is free, or it never came.
  void gone(Device& device, Ledger::Key key);
  /// Asks for what runs of this device wait for, as far as there is room, and sends those that have all.
  void advance(Device& device);
  void advance(Device& device, Executor& executor, RunRecord& run);
  bool begin_load(Device& device, Executor& executor, const ObjectNeed& need);
  /// Whether the request could be put beside what runs there.
  bool fits_beside(const Device& device, const Request& request) const;

  // claims.cc: what becomes of a device that has less room than it should have, as executors say.
  /// It did not give an executor of this domain so many bytes, as that says.
  void could_not_give(Device& device, DomainId domain, uint64_t bytes);
  /// An executor of the domain got so many bytes.
  void could_give(Device& device, DomainId domain, uint64_t bytes);
  /// For a while it is taken for smaller, by all.
  void doubt(Device& device);
  /// Of what may leave and `is_chosen`, so many bytes do, if there are. Contexts do not. True if anything does.
  template <class F>
  bool give_up(Device& device, uint64_t bytes, F&& is_chosen);
  /// The device is not for its domain now: that said it had no room.
  bool is_out(const Device& device, const Request& request) const;
  /// The same of one whose turn it is: its tenant waits for itself.
  bool passes_by(const Device& device, const Request& request);
  void arm_doubt(Device& device);
  void believe_again();

  // host.cc: the memory of the host, and what is read from disk.
  void on(const HostUp& event);
  void on(const Fetched& event);
  static Ledger::Key host_key(ObjectId object) { return {ExecutorId{0}, object}; }
  bool is_on_host(ObjectId object) const;
  /// It has to come to the host before it can come to a device.
  bool is_behind_host(const ObjectNeed& need) const;
  /// Runs get what they need on the host in the order they got their slots, each all at once: so nobody waits for who
  /// waits for him.
  void serve_host();
  void make_room_on_host(std::optional<RequestId> request);
  void leave_host(ObjectId object, std::optional<Room> room = {});
  /// The executor no longer reads it in place.
  void unmapped(Ledger::Key key);
  void gone_from_host(ObjectId object, std::optional<Room> room = {});
  void begin_fetch(const ObjectNeed& need, DeviceId for_device);
  void release_host(RunRecord& run, ObjectId object);
  void unpin_on_host(ObjectId object);

  // stages.cc: how long stays what nobody needs.
  void on(const Keep& event);
  /// It is brought to a device; false if none holds it.
  bool bring_kept(FunctionId function);
  /// A device came, or has more memory: those that none held may have a place now.
  void bring_unplaced();
  /// The run is over: says how long what it needed may stay.
  void stay(Device& device, const RunRecord& run);
  /// It stays at least until then, and as long as someone keeps it.
  void stay(DeviceId where, Ledger& ledger, Ledger::Key key, Time until);
  /// Until when some function is kept that needs it; not after now if none is.
  Time kept_until(DeviceId where, Ledger::Key key) const;
  /// It is looked at when its time comes, if nobody needs it.
  void arm_exit(DeviceId where, Ledger& ledger, Ledger::Key key);
  /// All that is there of what was kept for the function, whoever used it last.
  template <class F>
  void for_each_kept(const Keeps::Kept& kept, F&& f);
  /// This is how it was kept: what is kept for less long now stays as long as it would elsewhere, or as others keep it.
  void let_go(const Keeps::Kept& kept);
  /// Leases that are over: what they kept is no longer the last to leave.
  void lapse();
  void exit_due();
  /// What it had leaves at once where nobody else needs it.
  void send_away(FunctionId function);

  // prefetch.cc
  void prefetch(Device& device);
  /// Begins what can be begun; true once all is on its way or cannot be.
  bool bring(Device& device, Ahead& ahead);
  bool make_room_ahead(Device& device, uint64_t bytes, bool may_evict);

  // gates.cc: what dispatch decides, and what it hears.
  void on(const LauncherUp& event);
  void on(const LauncherGone& event) { dispatch_.gone(event.launcher, now_); }
  void on(const WorkReady& event) { dispatch_.work_ready(event, now_); }
  void on(const GapBegun& event) { dispatch_.gap_begun(event, now_); }
  void on(const DeviceUsed& event) { dispatch_.used(event.launcher, event.device_time, now_); }
  void on(const GapsKnown& event) { dispatch_.gaps_known(event); }
  void begin_launching(RunRecord& run);
  bool has_all_objects(const RunRecord& run) const;
  void set_gates();

  // placing.cc
  void place();
  void place_on_idle();
  void place_arrived(const Group& group, LevelNo level);
  void place_those_behind();
  void dequeue(Request& request);
  void place_beside(Device& device);
  /// False if one of this level has to wait until the device has less to do.
  bool place_beside(Device& device, LevelNo level);
  void assign(Request& request, Device& device, const Request& first);
  Request* choose_for(const Device& device, Request& first);
  /// Which idle one; nothing: it waits.
  std::optional<DeviceId> choose_device(const Request& request);
  /// Whose turn it is at this level of those that the device is for; null: nobody.
  Request* first_for(const Device& device, LevelNo level);
  /// Where it has to run; nothing: anywhere.
  std::optional<DeviceId> home_of(const Request& request) const;
  /// Its priority; 0 if it waited for too long to run again.
  uint8_t urgency_of(const Request& request) const;
  /// The priority at which nobody begins on a busy device, nor less urgent: one waits for it to be idle.
  std::optional<uint8_t> drains_for(const Device& device);
  /// Who is next for an idle device; and which one, if that is settled.
  using Next = std::pair<Request*, std::optional<DeviceId>>;
  Next next_for_idle();
  Next next_for_idle(LevelNo level);

  // scheduler.cc
  void expire();
  void set_alarm();
  void act(Action action) { actions_.push_back(std::move(action)); }

  const Config config_;
  const std::unique_ptr<Fairness> fairness_;
  const std::unique_ptr<Placement> placement_;
  const std::unique_ptr<Eviction> eviction_;
  const std::unique_ptr<Setup> setup_;
  const std::unique_ptr<Exit> exit_;
  Dispatch dispatch_;

  Time now_ = {0};
  std::vector<Action> actions_;
  std::map<RequestId, Request> requests_;
  std::map<RunId, RunRecord> runs_;
  Tenants tenants_;
  Devices devices_;
  Homes homes_;
  Blame blame_;
  Estimates estimates_;
  Arrivals arrivals_;
  Prices prices_;
  Timers timers_;
  Ledger host_;
  bool has_host_ = false;
  uint64_t host_known_bytes_ = 0;  // the most it ever had
  Time last_fetched_ = {0};
  std::set<RunId> host_waiting_;                                           // in the order of their slots
  std::set<DeviceId> host_hungry_;                                         // where a fetch waits for room
  std::map<ObjectId, std::set<DeviceId>> fetch_waiters_;                   // whom to look at when it was fetched
  std::map<ObjectId, std::map<ExecutorId, DeviceId>> mapped_;              // who reads it in place
  std::map<ObjectId, std::set<std::pair<DeviceId, ExecutorId>>> holders_;  // where a passing one is, or was
  Keeps keeps_;
  std::set<FunctionId> unplaced_keeps_;  // that no device held when they were to be brought
  /// Where something may leave when its time comes; device 0 is the host.
  using ExitPlace = std::pair<DeviceId, Ledger::Key>;
  std::set<std::pair<Time, ExitPlace>> exits_;
  std::set<std::pair<Time, DeviceId>> doubts_;  // devices that are taken for smaller, or by some, until then
  DeviceId last_ahead_ = {0};
  std::set<DeviceId> touched_;        // in this step: looked at after what is due was ended
  std::optional<RequestId> arrived_;  // in this step: it came to wait
  std::set<LevelNo> left_;            // in this step: someone there waits no more
  Time alarm_ = Time::never();        // the WakeAt that stands
  uint64_t next_arrival_ = 1, next_executor_ = 1, next_run_ = 1, next_use_ = 1;
  uint64_t failed_starts_ = 0, evictions_ = 0, exits_done_ = 0, prefetches_ = 0, hits_ = 0, misses_ = 0;
};

}  // namespace quern::sched
