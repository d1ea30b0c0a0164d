// SPDX-License-Identifier: Apache-2.0
#include "sched/gaps.h"

#include <algorithm>

namespace quern::sched {

void Gaps::add(DeviceId device, FunctionId function, uint64_t after, Duration gap) {
  Positions& positions = histories_[function][device];
  if (positions.size() >= kMostPositions && !positions.contains(after)) return;
  History& history = positions[after];
  history.ns[history.count++ % kKept] = std::max<int64_t>(0, gap.ns);
}

Gaps::Prediction Gaps::of(DeviceId device, FunctionId function, uint64_t after) const {
  const auto devices = histories_.find(function);
  if (devices == histories_.end()) return {};
  const auto positions = devices->second.find(device);
  if (positions == devices->second.end()) return {};
  const auto found = positions->second.find(after);
  if (found == positions->second.end() || found->second.count < kLeast) return {};
  const History& history = found->second;
  std::array<int64_t, kKept> sorted = history.ns;
  const size_t count = std::min<size_t>(history.count, kKept);
  std::sort(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(count));
  Prediction prediction;
  prediction.is_known = true;
  prediction.median = {sorted[count / 2]};
  prediction.early = {sorted[count / 10]};
  prediction.spread = {sorted[count * 3 / 4] - sorted[count / 4]};
  const int64_t late = sorted[count - 1 - count / 10];
  prediction.is_stable = late - prediction.early.ns <= prediction.median.ns * 3 / 10;
  return prediction;
}

std::vector<Scheduler::GapsSeen> Gaps::seen(FunctionId function) const {
  std::vector<Scheduler::GapsSeen> all;
  const auto devices = histories_.find(function);
  if (devices == histories_.end()) return all;
  for (const auto& [device, positions] : devices->second)
    for (const auto& [after, history] : positions) {
      if (after == kLaunching) continue;
      Scheduler::GapsSeen& seen = all.emplace_back();
      seen.device = device;
      seen.after = after;
      const uint32_t kept = std::min<uint32_t>(history.count, kKept);
      for (uint32_t i = history.count - kept; i < history.count; ++i) seen.gaps.push_back({history.ns[i % kKept]});
      const Prediction prediction = of(device, function, after);
      seen.is_known = prediction.is_known;
      seen.is_stable = prediction.is_stable;
      seen.median = prediction.median;
      seen.early = prediction.early;
    }
  return all;
}

void Gaps::forget(FunctionId function) { histories_.erase(function); }

void Bursts::add(DeviceId device, FunctionId function, uint64_t since, Duration length, uint64_t after) {
  lengths_.add(device, function, since, length);
  auto& all = after_[function][device];
  if (all.size() < Gaps::kMostPositions || all.contains(since)) all[since] = after;
}

std::optional<Bursts::Prediction> Bursts::of(DeviceId device, FunctionId function, uint64_t since) const {
  const Gaps::Prediction length = lengths_.of(device, function, since);
  if (!length.is_known || length.spread.ns > length.median.ns / 10) return std::nullopt;
  return Prediction{length.median, after_.at(function).at(device).at(since)};
}

void Bursts::forget(FunctionId function) {
  lengths_.forget(function);
  after_.erase(function);
}

}  // namespace quern::sched
