// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace quern::sim {

/// Lengths of time, counted in buckets of which each is 1/128 of its lower end wide: a percentile is the middle of its
/// bucket, and so within 0.4 % of the exact one. The mean and the largest are exact. Memory grows with the range of
/// what was added (1 KiB for every factor of two), not with how much there was.
class Histogram {
 public:
  /// What is below 0 counts as 0.
  void add(Duration value);

  uint64_t count() const { return count_; }
  double mean_ns() const;
  Duration largest() const { return largest_; }
  /// The value below which this part of all lies (nearest rank); `part` in (0, 1]. 0 if there is none.
  Duration percentile(double part) const;

 private:
  std::vector<uint64_t> buckets_;  ///< from first_ on
  size_t first_ = 0;
  uint64_t count_ = 0;
  unsigned __int128 sum_ = 0;
  Duration largest_;
};

}  // namespace quern::sim
