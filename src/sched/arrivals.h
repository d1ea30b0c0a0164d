// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>

#include "sched/types.h"

namespace quern::sched {

/// When a function's requests come: how often which gap lay between two of them, in doubling steps from 1 ms to hours;
/// old ones count less and less. A record exists from a function's first request until it is gone.
class Arrivals {
 public:
  void arrived(FunctionId function, Time now);
  void forget(FunctionId function) { records_.erase(function); }

  /// How long to keep what costs `rent` per ns to keep and `price_ns` to bring back. Ski rental: as long as rent has
  /// not reached the price (then at most twice the best is paid, whatever comes); once enough gaps were seen, the time
  /// that would have cost least over them, the longest of those that would have cost the same.
  Duration stay(FunctionId function, int64_t price_ns, double rent) const;

 private:
  static constexpr int kBuckets = 28;
  static constexpr uint32_t kEnough = 4, kMost = 64;
  struct Record {
    Time last;
    uint32_t total = 0;
    std::array<uint32_t, kBuckets> gaps{};
  };
  static int bucket_of(int64_t gap_ns);
  static int64_t end_of(int bucket);
  std::map<FunctionId, Record> records_;
};

}  // namespace quern::sched
