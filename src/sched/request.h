// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "sched/types.h"

namespace quern::sched {

/// Who shares an executor: the functions of a domain, or one function that has its own because it killed one.
struct Group {
  DomainId domain;
  std::optional<FunctionId> own_function;
  auto operator<=>(const Group&) const = default;
};

/// A request that was accepted and is not answered yet.
struct Request {
  Submit submit;
  uint64_t bytes = 0;       ///< all that a run of it needs, without a context
  uint64_t size_class = 0;  ///< the memory of the smallest kind of device that holds it; while it waits
  uint64_t arrival = 0;     ///< its place in first-come order; kept when it returns to the queue
  int64_t estimate_ns = 0;  ///< of its device time, as it was when it came to wait or to run
  Group group;              ///< where it waits
  LevelNo level = 0;        ///< of its priority, where the policy of fairness has levels
  bool queued = false;
  RunId holds;  ///< while it is not queued: the run that has a slot for it
  uint32_t attempt = 1;
  Time again_since = {0};            ///< it waits to run again
  std::optional<RunId> run;          ///< the newest that was sent to an executor
  std::optional<DeviceId> ahead_on;  ///< where something is brought for it, while it waits
  Time timer = Time::never();
};

/// A run from the moment it holds a slot of a device until that slot is free. It may outlive its request: one that was
/// answered early (cancelled, or late before it started) is gone from the table of requests.
struct RunRecord {
  RunId id;
  RequestId request;
  FunctionId function;
  TenantId tenant;
  ExecutorId executor;
  DeviceId device;
  uint32_t lane = 0;
  LevelNo level = 0;
  Quota quota;
  Duration device_time = Duration::forever();
  uint64_t memory_bytes = 0;        ///< for itself
  std::vector<ObjectNeed> objects;  ///< pinned
  std::vector<Made> makes;          ///< pinned, and there when it ends well
  uint64_t bytes = 0;               ///< all together
  int64_t charged = 0;              ///< to its tenant's virtual time, until it ends and the truth is known
  bool alone = false;               ///< nothing may run beside it, so that the next loss has one suspect
  std::set<ObjectId> host_pins;     ///< of its objects, those that must stay on the host for it
  bool has_lane = false;            ///< pinned memory in its lane
  bool waits_for_host = false;      ///< its turn on the host has not come
  bool broken = false;              ///< was sent, and then one of its objects could not be brought: it fails
  bool no_room = false;             ///< because the device had less room than it should have had
  bool sent = false;                ///< its executor was up and has been told
  Time sent_at = {0};
  uint32_t units = 0, first_unit = 0;  ///< of its device that it launches on; 0: all
  bool started = false;                ///< it can put launches on the device
  Duration late = {0};                 ///< past its limit when it was told to stop
  Time known_at = {0};  ///< when it was last known how much device time it had: it was sent, or Flight told
  // As the last Flight told.
  bool launched = false;    ///< it had a launch in flight
  bool in_flight = false;   ///< it has one
  Duration used = {0};      ///< device time of its launches that have ended
  uint64_t front = 0;       ///< number of the launch with which it is in front of all others; 0: it is not
  Time front_since = {0};   ///< when that launch came to the front, at the latest
  bool is_sampled = false;  ///< `front_since` may be up to Config::flight_sample too late
  /// Why its gate was closed. Only a run that passed its limit on the device answers for a hang.
  enum class Stop : uint8_t { kNone, kLimit, kGivenUp } stop = Stop::kNone;
  Time stopped_at = {0};
  Time timer = Time::never();
};

}  // namespace quern::sched
