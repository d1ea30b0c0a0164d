// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

namespace quern::daemon {

/// Every counter of the daemon, once: type, name, meaning. GET /v1/counters shows them in this order, and
/// api/openapi.yaml has the meanings, word for word. Counters grow from the start of the server on, unless their
/// meaning says otherwise. A new counter is a line here, its line in openapi.yaml, and the place that counts.
#define QUERN_COUNTERS(COUNTER)                                                                             \
  COUNTER(uint64_t, copied_bytes, "tensor bytes that Quern copied outside the device")                      \
  COUNTER(uint64_t, builds, "programs that were given to a compiler")                                       \
  COUNTER(uint64_t, executors_started, "executors that were started")                                       \
  COUNTER(uint64_t, executors_lost, "executors that ended, except blank ones that the server let go")       \
  COUNTER(uint64_t, evictions, "objects, contexts and lanes' memory that left a device to make room")       \
  COUNTER(uint64_t, exits, "objects and contexts that left because nobody had needed them for long enough") \
  COUNTER(uint64_t, prefetches, "loads that began before a run had a place")                                \
  COUNTER(uint64_t, object_hits, "objects that a run found on its device")                                  \
  COUNTER(uint64_t, object_misses, "objects that a run did not find on its device")                         \
  COUNTER(uint64_t, loads, "loads of objects to devices")                                                   \
  COUNTER(uint64_t, loaded_bytes, "bytes of those loads")                                                   \
  COUNTER(uint64_t, fetches, "objects that were read from disk")                                            \
  COUNTER(uint64_t, fetched_bytes, "bytes of those objects")                                                \
  COUNTER(uint64_t, queued, "requests that wait now")                                                       \
  COUNTER(uint64_t, past_gate, "launches that no grant had let through, as launchers tell")                 \
  COUNTER(int64_t, fairness_lag_ns,                                                                         \
          "device time by which the furthest tenant is ahead of the last, at most a second ago")            \
  COUNTER(int64_t, fairness_bound_ns, "device time by which a tenant can ever be ahead of another")         \
  COUNTER(uint64_t, standings_saved, "how often the tenants' virtual times were stored")                    \
  COUNTER(uint64_t, profiles_saved, "how often something that was learned of kernels and gaps was stored")

/// What the counters were at a moment; for tests, benchmarks and people.
struct Counters {
#define QUERN_COUNTER(type, name, meaning) type name = 0;
  QUERN_COUNTERS(QUERN_COUNTER)
#undef QUERN_COUNTER
};

/// The counters themselves. Any thread reads and writes them.
struct LiveCounters {
#define QUERN_COUNTER(type, name, meaning) std::atomic<type> name{0};
  QUERN_COUNTERS(QUERN_COUNTER)
#undef QUERN_COUNTER

  /// Each counter as it is now; two of them may be of different moments.
  Counters read() const {
    Counters now;
#define QUERN_COUNTER(type, name, meaning) now.name = name.load(std::memory_order_relaxed);
    QUERN_COUNTERS(QUERN_COUNTER)
#undef QUERN_COUNTER
    return now;
  }
};

/// Calls `tell(name, value, meaning)` for each counter, in their order.
template <class Tell>
void for_each_counter(const Counters& counters, Tell tell) {
#define QUERN_COUNTER(type, name, meaning) tell(std::string_view(#name), counters.name, std::string_view(meaning));
  QUERN_COUNTERS(QUERN_COUNTER)
#undef QUERN_COUNTER
}

}  // namespace quern::daemon
