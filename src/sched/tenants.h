// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sched/policy/fairness.h"
#include "sched/request.h"
#include "sched/scheduler.h"

namespace quern::sched {

/// The requests of one tenant that wait at one level.
struct Flow {
  using Line = std::map<uint64_t, Request*>;  ///< by arrival

  int64_t vtime = 0;  ///< device time charged, in ns divided by its weight; see Tenants
  uint64_t in_flight = 0;
  std::map<uint64_t, Line> lines;                   ///< those waiting, by size class; none empty
  uint32_t bypassed = 0;                            ///< how often a younger request went before its oldest
  std::vector<std::pair<uint64_t, int64_t>> ranks;  ///< where it is listed: size class and rank, in order of size
  bool is_next = false;                             ///< among them is the smallest class: any device could take it
};

struct Tenant {
  TenantId id;
  uint32_t weight = 1;
  Limits limits;
  int64_t first_vtime = 0;  ///< where it stood before a restart
  uint64_t queued = 0, in_flight = 0, in_flight_bytes = 0;
  int64_t queued_ns = 0;          ///< device time that those waiting are expected to take
  std::map<LevelNo, Flow> flows;  ///< by level
  std::optional<DeviceId> home;   ///< for policies that give a tenant one
  Time aside_until = {0};         ///< it waits for itself
};

/// The tenants and their requests that wait: whose turn is it, and for what?
///
/// Start-time fair queueing in virtual device time: a tenant is charged what its run is expected to take, divided by
/// its weight, when it gets a slot, and what was wrong about that when the run ends. The lowest virtual time is next.
/// One that had nothing to do, or was at a limit of its own, starts where the others are: waiting for itself earns
/// nothing.
///
/// Levels are apart: a more urgent request goes before a less urgent one, whoever's they are, and a tenant is charged
/// at the level of the request, so that it stands where it would if there were no other levels.
///
/// Devices differ in memory, so "the first that fits this device" must be found without looking at those that do not.
/// Requests are therefore kept by the smallest device that holds them; there are as many size classes as kinds of
/// device, which is few, and every question below costs classes x log(requests and tenants). It keeps pointers: a
/// request stays where it is in memory while it waits.
class Tenants {
 public:
  explicit Tenants(const Fairness& fairness) : fairness_(fairness) {}

  void set(const TenantSet& event);
  Tenant& get(TenantId tenant);
  const Tenant* find(TenantId tenant) const;
  const Flow& flow_of(const Request& request) const;

  /// A device that can hold this much came to be known, or one is not any more. Moves the requests that this concerns.
  void add_size(uint64_t bytes);
  void remove_size(uint64_t bytes);

  void add(Request& request);
  void remove(Request& request);
  /// Of its requests one got a slot, and is charged for; or a slot is free again, and the charge is put right.
  void began(RunRecord& run, int64_t estimate_ns);
  void ended(RunRecord& run, std::optional<int64_t> used_ns);

  uint64_t size() const { return size_; }
  /// How many of those wait to run again.
  uint64_t again() const { return again_; }
  uint64_t size_of(FunctionId function) const;
  /// First come first.
  std::vector<Request*> of_function(FunctionId function) const;
  Request* first_of(FunctionId function) const;

  /// Whose turn it is among the tenants with a request that fits in `bytes`, and which of its requests; null: nobody.
  Request* first(uint64_t bytes) const;
  /// The same at one level.
  Request* first(uint64_t bytes, LevelNo level) const;
  /// The next level from this one on at which someone may go; nothing: there is none.
  std::optional<LevelNo> next_level(LevelNo from) const;
  /// As `first`, and those after it, `most` at the most.
  std::vector<Request*> first_few(uint64_t bytes, size_t most) const;
  /// At one level, of those whose turn it is next, and of each not only the oldest: some tenants, some of each.
  std::vector<Request*> few_of_each(uint64_t bytes, LevelNo level) const;
  /// The first of those at home on a device; null: nobody.
  Request* first_at_home(DeviceId device, uint64_t bytes) const;
  /// Whether this request may get a slot now, whoever's turn it is: its tenant is below its limits, and did not let its
  /// oldest wait too often.
  bool may_go(const Request& request) const;
  void give_home(Tenant& tenant, DeviceId device);
  /// It waits for itself until then: that earns it nothing, and it is not what the others are measured by.
  void set_aside(TenantId tenant, Time until);
  void come_back(Time now);
  /// This one is about to get a slot; `first` was first in line for the device.
  void took(const Request& request, const Request& first);

  /// How long a new request of this tenant would wait if all that wait took what is expected, the pool being `devices`.
  int64_t expected_wait_ns(const Tenant& tenant, uint64_t devices) const;

  std::vector<Scheduler::Standing> standings() const;
  /// Between the first and the last of those that wait for their turn and fit any device.
  int64_t lag() const;
  int64_t largest_charge() const { return largest_charge_; }
  /// Of those that came back after a restart, which had any lag the old core allowed.
  int64_t first_spread() const { return first_highest_ - first_lowest_; }

  static constexpr uint32_t kMostBypassed = 16;

 private:
  using Order = std::set<std::pair<int64_t, TenantId>>;
  struct Level {
    std::map<uint64_t, Order> order;  ///< by size class: tenants that may go; none empty
    int64_t clock = 0;                ///< the lowest virtual time when a turn was last taken; never goes back
  };

  Level& level(LevelNo level);
  Flow& flow(Tenant& tenant, LevelNo level);
  uint64_t size_class(uint64_t bytes) const;
  void link(Tenant& tenant, Request& request);
  void unlink(Tenant& tenant, Request& request);
  void reclass(uint64_t from, uint64_t most_bytes);
  bool is_below_limits(const Tenant& tenant, uint64_t more_bytes) const;
  /// Lists the tenant where it stands now, at every level and in every size class.
  void relist(Tenant& tenant);
  void relist(Tenant& tenant, LevelNo level, Flow& flow);
  void charge(Flow& flow, int64_t vtime);
  const Order* order_of_all(const Level& level) const;
  bool is_aside(TenantId tenant) const;

  const Fairness& fairness_;
  std::map<uint64_t, uint32_t> sizes_;  // and how many devices have it
  std::map<TenantId, Tenant> tenants_;
  std::map<LevelNo, Level> levels_;
  std::map<DeviceId, Order> at_home_;  // level 0 only: policies that give homes have no other
  std::map<FunctionId, Flow::Line> functions_;
  std::set<std::pair<Time, TenantId>> aside_;
  uint64_t size_ = 0, again_ = 0;
  uint64_t weights_waiting_ = 0;  // of tenants with a request that waits
  int64_t first_lowest_ = 0, first_highest_ = 0;
  bool has_served_ = false;
  int64_t largest_charge_ = 0;
  std::vector<std::pair<uint64_t, int64_t>> ranks_;  // used again for every relist
};

}  // namespace quern::sched
