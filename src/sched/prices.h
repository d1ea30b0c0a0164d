// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>

#include "sched/types.h"

namespace quern::sched {

/// What it costs to bring something back, as far as was seen: means in which each counts a quarter.
class Prices {
 public:
  int64_t load_ns(DeviceId device, uint64_t bytes) const { return time_for(bytes, find(device).load_ns_per_mib); }
  int64_t start_ns(DeviceId device) const { return find(device).start_ns; }
  int64_t fetch_ns(uint64_t bytes) const { return time_for(bytes, fetch_ns_per_mib_); }

  void loaded(DeviceId device, uint64_t bytes, Duration took) {
    learn(seen_[device].load_ns_per_mib, per_mib(bytes, took));
  }
  void started(DeviceId device, Duration took) { learn(seen_[device].start_ns, took.ns); }
  void fetched(uint64_t bytes, Duration took) { learn(fetch_ns_per_mib_, per_mib(bytes, took)); }

 private:
  // Until something was seen: 10 GB/s to a device, 1 GB/s from disk, 100 ms for a context.
  struct Seen {
    int64_t load_ns_per_mib = 100'000, start_ns = 100'000'000;
  };
  static int64_t time_for(uint64_t bytes, int64_t ns_per_mib) {
    return static_cast<int64_t>(static_cast<__int128>(bytes) * ns_per_mib / (1 << 20));
  }
  // Small ones tell of the latency, not of the rate.
  static int64_t per_mib(uint64_t bytes, Duration took) {
    return static_cast<int64_t>(static_cast<__int128>(took.ns) * (1 << 20) /
                                std::max<uint64_t>(bytes, uint64_t{1} << 20));
  }
  static void learn(int64_t& mean, int64_t seen) { mean += (seen - mean) / 4; }
  const Seen& find(DeviceId device) const {
    static const Seen kUnseen;
    const auto found = seen_.find(device);
    return found == seen_.end() ? kUnseen : found->second;
  }

  std::map<DeviceId, Seen> seen_;
  int64_t fetch_ns_per_mib_ = 1'000'000;
};

}  // namespace quern::sched
