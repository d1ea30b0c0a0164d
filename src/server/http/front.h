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

/// Memory that callers share: so much in all, and so much for each tenant. Any thread.
class Budget {
 public:
  Budget(uint64_t bytes, uint64_t bytes_of_tenant) : bytes_(bytes), bytes_of_tenant_(bytes_of_tenant) {}

  /// Room that is free again when nobody holds it, which is before this ends. Null if there is none.
  std::shared_ptr<void> take(const std::string& tenant, uint64_t bytes);

 private:
  struct Taken {
    uint64_t all = 0;
    std::map<std::string, uint64_t> by_tenant;
  };
  const uint64_t bytes_, bytes_of_tenant_;
  os::Guarded<Taken> taken_;
};

/// Whether a line may be logged at `now`, a second or more after `last_ns`, which is when the last one was. Any thread:
/// of several that ask at a time, one may.
bool is_due(std::atomic<int64_t>& last_ns, Time now);

/// What all connections share. Outlives them.
struct Front {
  Front(ServerConfig c, daemon::Daemon& d, std::string prefix)
      : config(std::move(c)),
        daemon(d),
        id_prefix(std::move(prefix)),
        scribe(config.before_json),
        requests(config.limits.requests_json_bytes, share_of(config.limits.requests_json_bytes)),
        answers(config.limits.answers_json_bytes, share_of(config.limits.answers_json_bytes)) {}

  const ServerConfig config;
  daemon::Daemon& daemon;
  const std::string id_prefix;
  Stages stages;
  std::atomic<uint64_t> next_id{1};
  std::atomic<uint32_t> connections{0};
  std::atomic<uint32_t> shed{0}, refused{0};  ///< since tell_crowd last told: idle ones that were closed, new ones
  Scribe scribe;
  Budget requests, answers;  ///< for the JSON of large requests to infer, and of large answers

  /// Logs what came of connections past the limit, once a second at most.
  void tell_crowd(Time now);
  /// Logs that no connection can be accepted, once a second at most.
  void cannot_accept(const std::string& why, Time now);
  /// The id of a request that does not become a call: unique in this process, and most likely beyond.
  std::string make_id() { return id_prefix + std::to_string(next_id.fetch_add(1, std::memory_order_relaxed)); }

 private:
  /// Where there are several tenants, none has all of it.
  uint64_t share_of(uint64_t bytes) const { return config.has_keys ? bytes / 2 : bytes; }

  std::atomic<int64_t> told_ns_{0}, not_accepted_ns_{0};
};

}  // namespace quern::server
