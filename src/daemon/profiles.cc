// SPDX-License-Identifier: Apache-2.0
#include "daemon/profiles.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "base/time.h"

namespace quern::daemon {
namespace {

// A new sample counts so much, once there are as many; before, all count the same.
constexpr double kNew = 1.0 / 16;

// A launch cannot take longer than that, or we would have killed its executor.
constexpr uint64_t kLongest = static_cast<uint64_t>(Duration::seconds(3600).ns);

}  // namespace

void KernelTimes::add_disturbed(uint64_t of_groups, uint64_t group_ps, int64_t now_s) {
  if (!is_rough() || (!last_ps.empty() && last_ps.front() <= group_ps)) return;
  groups = of_groups;
  seen_s = now_s;
  mean_ps = static_cast<double>(group_ps);
  last_ps = {group_ps};
}

void KernelTimes::add(uint64_t of_groups, uint64_t group_ps, int64_t now_s) {
  if (is_rough()) last_ps.clear(), mean_ps = 0;
  ++samples;
  groups = of_groups;
  seen_s = now_s;
  const auto seen = static_cast<double>(group_ps);
  const double share = std::max(kNew, 1.0 / static_cast<double>(samples));
  const double off = seen - mean_ps;
  const double variance = (1 - share) * (spread_ps * spread_ps + off * off * share);
  mean_ps += off * share;
  spread_ps = std::sqrt(variance);
  if (last_ps.size() == kLast) last_ps.erase(last_ps.begin());
  last_ps.push_back(group_ps);
}

KernelTimes::Quantiles KernelTimes::quantiles() const {
  if (last_ps.empty()) return {};
  std::vector<uint64_t> sorted = last_ps;
  std::sort(sorted.begin(), sorted.end());
  const size_t count = sorted.size(), tenth = count / 10;
  return {sorted[tenth], sorted[count / 2], sorted[count - 1 - tenth]};
}

uint64_t groups_of(const PlannedLaunch& launch) {
  uint64_t groups = 1;
  for (uint32_t axis = 0; axis < launch.dimensions; ++axis) {
    if (launch.local[axis] == 0) return 0;
    groups *= launch.global[axis] / launch.local[axis];
  }
  return groups;
}

void Profiles::add(const KernelPlace& place, std::span<const ipc::DeviceUsed::Sample> samples, int64_t now_s) {
  for (const auto& sample : samples) {
    if (sample.kernel == 0 || sample.groups == 0) continue;
    if (sample.time_ns == 0 || sample.time_ns > kLongest) continue;
    const uint64_t group_ps = std::max<uint64_t>(1, sample.time_ns * 1000 / sample.groups);
    if (sample.is_undisturbed) {
      times_.use(place, sample.kernel, true).add(sample.groups, group_ps, now_s);
      continue;
    }
    const KernelTimes* known = times_.find(place, sample.kernel);
    if (!known || known->is_rough())
      times_.use(place, sample.kernel, false).add_disturbed(sample.groups, group_ps, now_s);
  }
}

uint64_t Profiles::group_ps(const KernelPlace& place, uint64_t identity) const {
  const KernelTimes* times = times_.find(place, identity);
  return times && !times->is_rough() ? times->quantiles().p50 : 0;
}

uint64_t Profiles::expected_ns(const KernelPlace& place, uint64_t identity, uint64_t groups) const {
  const KernelTimes* times = times_.find(place, identity);
  if (!times || groups == 0) return 0;
  // Groups are a launcher's to say: their product with anything may be anything.
  const double ns = static_cast<double>(times->quantiles().p50) * static_cast<double>(groups) / 1000;
  return static_cast<uint64_t>(std::min(std::max(ns, 1.0), 1e18));
}

void Profiles::prepare(const FunctionVersion& function, const KernelPlace& place, const Plan& plan,
                       ipc::PlanBinding& binding) {
  std::unordered_map<uint64_t, uint64_t> known;  // a graph may have a thousand launches that are alike
  for (size_t i = 0; i < binding.launches.size(); ++i) {
    ipc::PlanBinding::Launch& launch = binding.launches[i];
    const auto [it, is_first] = known.try_emplace(launch.identity, 0);
    if (is_first) {
      it->second = group_ps(place, launch.identity);
      const bool is_new = functions_.find(function, launch.identity) == nullptr;
      FunctionKernel& kernel = functions_.use(function, launch.identity, is_new);
      if (is_new) kernel = {plan.launches[i].kernel, groups_of(plan.launches[i])};
    }
    launch.group_ps = it->second;
  }
}

std::vector<FunctionKernelRecord> Profiles::kernels_of(const FunctionVersion& function) const {
  std::vector<FunctionKernelRecord> kernels;
  functions_.each(function, [&](uint64_t identity, const FunctionKernel& kernel) {
    kernels.push_back({function, identity, kernel.kernel, kernel.groups});
  });
  std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
    return std::tie(a.kernel, a.groups, a.identity) < std::tie(b.kernel, b.groups, b.identity);
  });
  return kernels;
}

std::vector<KernelRecord> Profiles::kernels_at(const KernelPlace& place) const {
  std::vector<KernelRecord> kernels;
  times_.each(place, [&](uint64_t identity, const KernelTimes& times) { kernels.push_back({place, identity, times}); });
  std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.identity < b.identity; });
  return kernels;
}

ProfileRecords Profiles::take_changed(size_t most) {
  ProfileRecords changed;
  times_.take_changed(most, [&](const KernelPlace& place, uint64_t identity, const KernelTimes& times) {
    changed.kernels.push_back({place, identity, times});
  });
  functions_.take_changed(most, [&](const FunctionVersion& function, uint64_t identity, const FunctionKernel& kernel) {
    changed.function_kernels.push_back({function, identity, kernel.kernel, kernel.groups});
  });
  return changed;
}

void Profiles::load(const ProfileRecords& records) {
  for (const KernelRecord& record : records.kernels) {
    KernelTimes& times = times_.use(record.place, record.identity, false);
    times = record.times;
    const size_t count = times.last_ps.size();
    if (count > KernelTimes::kLast)
      times.last_ps.erase(times.last_ps.begin(),
                          times.last_ps.begin() + static_cast<ptrdiff_t>(count - KernelTimes::kLast));
  }
  for (const FunctionKernelRecord& record : records.function_kernels)
    functions_.use(record.function, record.identity, false) = {record.kernel, record.groups};
}

}  // namespace quern::daemon
