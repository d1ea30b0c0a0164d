// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/time.h"
#include "daemon/daemon.h"
#include "os/guarded.h"
#include "server/http/scribe.h"
#include "server/server.h"

namespace quern::server {

/// Where the time of calls goes, summed up; written by any thread.
struct Stage {
  std::atomic<uint64_t> ns{0}, count{0};

  void add(Time from, Time to) {
    if (from.ns == 0 || to < from) return;  // a call that did not get that far
    ns.fetch_add(static_cast<uint64_t>((to - from).ns), std::memory_order_relaxed);
    count.fetch_add(1, std::memory_order_relaxed);
  }
};

/// The stages of an infer call in order, as GET /v1/counters shows them.
struct Stages {
  Stage parse;     ///< head and JSON read, checked, room given
  Stage body;      ///< tensors from the socket
  Stage submit;    ///< until the strand takes it
  Stage core;      ///< until its run is in the ring
  Stage ring;      ///< until its lane has it
  Stage executor;  ///< buffers bound, kernels enqueued, until the first starts
  Stage device;    ///< until the last kernel ends
  Stage driver;    ///< until the lane knows of it and reports
  Stage back;      ///< until the strand has it back
  Stage wake;      ///< until the connection's thread has it
  Stage answer;    ///< until the answer is written
  std::atomic<uint64_t> device_ns{0};
};

/// What all connections share. Outlives them.
struct Front {
  Front(ServerConfig c, daemon::Daemon& d, std::string prefix)
      : config(std::move(c)), daemon(d), id_prefix(std::move(prefix)) {}

  const ServerConfig config;
  daemon::Daemon& daemon;
  const std::string id_prefix;
  Stages stages;
  std::atomic<uint64_t> next_id{1};
  std::atomic<uint32_t> connections{0};
  std::atomic<uint32_t> shed{0}, refused{0};  ///< since tell_crowd last told: idle ones that were closed, new ones
  Scribe scribe;

  /// Logs what came of connections past the limit, once a second at most.
  void tell_crowd(Time now);
  /// Logs that no connection can be accepted, once a second at most.
  void cannot_accept(const std::string& why, Time now);
  /// Room for the JSON of a large answer, free again when nobody holds it. Null if there is none: a tenant may have
  /// half of ServerLimits::answers_json_bytes.
  std::shared_ptr<void> take_answer_room(const std::string& tenant, uint64_t bytes);
  /// The id of a request that does not become a call: unique in this process, and most likely beyond.
  std::string make_id() { return id_prefix + std::to_string(next_id.fetch_add(1, std::memory_order_relaxed)); }

 private:
  struct Rooms {
    uint64_t all = 0;
    std::map<std::string, uint64_t> by_tenant;
  };
  os::Guarded<Rooms> rooms_;
  std::atomic<int64_t> told_ns_{0}, not_accepted_ns_{0};
};

}  // namespace quern::server
