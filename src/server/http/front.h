// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "base/time.h"
#include "daemon/daemon.h"
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

  /// The id of a request that does not become a call: unique in this process, and most likely beyond.
  std::string make_id() { return id_prefix + std::to_string(next_id.fetch_add(1, std::memory_order_relaxed)); }
};

}  // namespace quern::server
