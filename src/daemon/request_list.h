// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "daemon/live_call.h"
#include "sched/scheduler.h"

namespace quern::daemon {

/// The requests of each tenant, on their way and lately ended, for showing to people. Belongs to the strand. A request
/// costs it a few stores; a listing costs what the tenant has, not what all have.
class RequestList {
 public:
  /// Tenants have the ids 1 to `tenants`.
  explicit RequestList(size_t tenants) : newest_(tenants + 1, nullptr) {}

  /// The call stays where it is until `end` or `clear`.
  void add(LiveCall& call);
  /// `device` is where it last ran; empty if it never did. The call's times are set.
  void end(LiveCall& call, sched::End end, const std::string& device);
  void clear();

  /// What the core and the runner know of one on its way.
  struct Whereabouts {
    std::string_view state;
    std::string device;
  };
  /// Those on their way, the oldest first, at most kMostListed; then those that ended, the latest first.
  std::vector<RequestStatus> list(const Tenant& tenant, Time now,
                                  const std::function<Whereabouts(const LiveCall&)>& find) const;

  struct Ended {
    const Tenant* tenant = nullptr;
    uint64_t request = 0;
    std::string id, function, device;  ///< written over, so that they rarely allocate
    sched::End end = sched::End::kDone;
    uint8_t priority = 0;
    CallTimes times;
    RequestAccount account;
    std::vector<Phase> setup;
  };
  /// Null if the tenant has none of that id among those remembered.
  const Ended* find_ended(const Tenant& tenant, std::string_view id) const;

  /// Of one that was answered before its run ended; null if it is no longer remembered.
  RequestAccount* account_of_ended(uint64_t request);

  static constexpr size_t kMostEnded = 256;    ///< of all tenants together
  static constexpr size_t kMostListed = 4096;  ///< a megabyte of JSON

 private:
  std::vector<LiveCall*> newest_;  ///< by tenant: the head of its list
  std::vector<Ended> ended_;       ///< a ring once it is full
  size_t next_ended_ = 0;
};

}  // namespace quern::daemon
