// SPDX-License-Identifier: Apache-2.0
#include "sched/arrivals.h"

#include <algorithm>

namespace quern::sched {
namespace {

constexpr int kFirstShift = 20;  // 2^20 ns, about 1 ms
constexpr double kForeverNs = 1e18;

}  // namespace

int Arrivals::bucket_of(int64_t gap_ns) {
  int bucket = 0;
  while (bucket < kBuckets - 1 && gap_ns > end_of(bucket)) ++bucket;
  return bucket;
}

int64_t Arrivals::end_of(int bucket) { return int64_t{1} << (kFirstShift + bucket); }

void Arrivals::arrived(FunctionId function, Time now) {
  const auto [it, fresh] = records_.try_emplace(function);
  Record& record = it->second;
  if (!fresh) {
    ++record.gaps[static_cast<size_t>(bucket_of((now - record.last).ns))];
    if (++record.total >= kMost) {
      record.total = 0;
      for (uint32_t& count : record.gaps) record.total += count /= 2;
    }
  }
  record.last = now;
}

Duration Arrivals::stay(FunctionId function, int64_t price_ns, double rent) const {
  if (rent <= 0) return Duration::forever();
  const double price = static_cast<double>(price_ns);
  const double even = std::min(price / rent, kForeverNs);
  const auto it = records_.find(function);
  if (it == records_.end() || it->second.total < kEnough) return {static_cast<int64_t>(even)};

  // What it would have cost to let it go after bucket b: rent for the gaps that ended by then, and for the others rent
  // until then and the price. Nothing is worth keeping longer than one would in the worst case, times ten. Where no gap
  // was longer nothing is known of what comes next, and the worst case is to be thought of again.
  const Record& record = it->second;
  double best_cost = price * record.total, best = 0, paid = 0;
  uint32_t ended = 0;
  for (int bucket = 0; bucket < kBuckets && ended < record.total; ++bucket) {
    const auto end = static_cast<double>(end_of(bucket));
    const uint32_t count = record.gaps[static_cast<size_t>(bucket)];
    ended += count;
    paid += static_cast<double>(count) * end * 0.75 * rent;  // gaps end in the middle of their bucket
    if (count == 0 || end > 10 * even) continue;
    const double cost = paid + static_cast<double>(record.total - ended) * (end * rent + price);
    if (cost > best_cost) continue;
    best_cost = cost;
    best = ended == record.total ? std::max(end, even) : end;
  }
  return {static_cast<int64_t>(best)};
}

}  // namespace quern::sched
