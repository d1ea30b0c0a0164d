// SPDX-License-Identifier: Apache-2.0
#include "sim/histogram.h"

#include <algorithm>
#include <bit>

namespace quern::sim {
namespace {

constexpr int kBits = 7;
constexpr uint64_t kParts = uint64_t{1} << kBits;

// Below 128 each number has a bucket; above, each power of two has 128 of them.
size_t bucket_of(uint64_t value) {
  if (value < kParts) return value;
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kBits;
  return static_cast<size_t>(shift + 1) * kParts + ((value >> shift) - kParts);
}

uint64_t middle_of(size_t bucket) {
  if (bucket < kParts) return bucket;
  const size_t shift = bucket / kParts - 1;
  const uint64_t lower = (bucket % kParts + kParts) << shift;
  return lower + ((uint64_t{1} << shift) >> 1);
}

}  // namespace

void Histogram::add(Duration value) {
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(value.ns, 0));
  const size_t bucket = bucket_of(ns);
  if (buckets_.empty()) {
    first_ = bucket;
    buckets_.resize(1);
  } else if (bucket < first_) {
    buckets_.insert(buckets_.begin(), first_ - bucket, 0);
    first_ = bucket;
  } else if (bucket - first_ >= buckets_.size()) {
    buckets_.resize(bucket - first_ + 1);
  }
  ++buckets_[bucket - first_];
  ++count_;
  sum_ += ns;
  largest_ = std::max(largest_, Duration{static_cast<int64_t>(ns)});
}

double Histogram::mean_ns() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }

Duration Histogram::percentile(double part) const {
  if (count_ == 0) return {0};
  const double wanted = part * static_cast<double>(count_);
  auto rank = static_cast<uint64_t>(wanted);
  if (static_cast<double>(rank) < wanted) ++rank;
  rank = std::clamp<uint64_t>(rank, 1, count_);
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(Duration{static_cast<int64_t>(middle_of(first_ + i))}, largest_);
  }
  return largest_;
}

}  // namespace quern::sim
