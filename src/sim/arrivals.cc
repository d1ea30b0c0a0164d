// SPDX-License-Identifier: Apache-2.0
#include "sim/arrivals.h"

#include <algorithm>

#include "sim/draws.h"

namespace quern::sim {
namespace {

constexpr Duration kLeastPause = Duration::millis(1);

// Neighbouring seeds of splitmix64 give streams that overlap; its own output does not.
uint64_t seed_of(uint64_t seed, size_t load) {
  Prng prng(seed ^ (static_cast<uint64_t>(load) + 1) * 0xd1342543de82ef95);
  return prng.next();
}

}  // namespace

Arrivals::Arrivals(const Model& model, uint64_t seed, Agenda& agenda)
    : loads_(model.loads),
      functions_(model.functions),
      most_(model.most_requests),
      until_(Time{0} + model.length),
      agenda_(agenda) {
  for (size_t i = 0; i < loads_.size(); ++i) sources_.push_back({Prng(seed_of(seed, i))});
  for (size_t i = 0; i < loads_.size(); ++i) {
    const LoadModel& load = loads_[i];
    const auto index = static_cast<uint32_t>(i);
    if (load.kind != LoadModel::Kind::kClosed) {
      plan_next(Time{0}, index, true);
      continue;
    }
    // Clients that think do not begin in step.
    for (uint32_t client = 0; client < load.clients; ++client)
      put(Time{static_cast<int64_t>(sources_[i].prng.below(static_cast<uint64_t>(load.think.ns) + 1))}, index, false);
  }
}

void Arrivals::put(Time at, uint32_t load, bool plans_next) {
  if (at >= until_) return;
  ++planned_;
  agenda_.put(at, Agenda::Kind::kCall, load, plans_next);
}

void Arrivals::plan_next(Time now, uint32_t index, bool is_first) {
  const LoadModel& load = loads_[index];
  Source& source = sources_[index];
  switch (load.kind) {
    case LoadModel::Kind::kClosed:
      return;
    case LoadModel::Kind::kPoisson:
      return put(now + draw_gap(source.prng, load.per_second), index, true);
    case LoadModel::Kind::kUniform: {
      if (!(load.per_second > 0)) return;
      const Duration gap = whole_duration(1e9 / load.per_second);
      const auto phase = static_cast<int64_t>(source.prng.below(static_cast<uint64_t>(gap.ns)));
      return put(now + (is_first ? Duration{phase} : gap), index, true);
    }
    case LoadModel::Kind::kBurst: {
      const uint32_t burst = std::max(load.burst, 1U);
      const Time at = now + draw_gap(source.prng, load.per_second / burst);
      for (uint32_t i = 1; i < burst; ++i) put(at, index, false);
      return put(at, index, true);
    }
    case LoadModel::Kind::kTrace:
      if (source.next < load.times.size()) put(std::max(now, load.times[source.next]), index, true);
      return;
  }
}

Arrivals::Call Arrivals::call(Time now, const Agenda::Entry& entry) {
  --planned_;
  const auto index = static_cast<uint32_t>(entry.a);
  const LoadModel& load = loads_[index];
  Source& source = sources_[index];
  const FunctionModel& function = functions_[load.function];
  Duration takes = function.device_time;
  if (load.kind == LoadModel::Kind::kTrace) {
    if (source.next < load.device_times.size()) takes = load.device_times[source.next];
    ++source.next;
  }
  const Call call{load.function, draw_spread(source.prng, takes, function.spread)};
  if (entry.b != 0) plan_next(now, index, false);
  return call;
}

void Arrivals::ended(Time now, uint32_t index, sched::End end, Duration retry_after) {
  const LoadModel& load = loads_[index];
  if (load.kind != LoadModel::Kind::kClosed) return;
  Duration pause = load.think;
  if (end != sched::End::kDone) pause = std::max({pause, retry_after, kLeastPause});
  put(now + pause, index, false);
}

uint64_t Arrivals::expected() const {
  if (most_ != 0) return most_;
  uint64_t all = 0;
  for (const LoadModel& load : loads_) {
    if (load.kind != LoadModel::Kind::kTrace) return 0;
    all += load.times.size();
  }
  return all;
}

}  // namespace quern::sim
