// SPDX-License-Identifier: Apache-2.0
#include "sched/admission.h"

#include <algorithm>

#include "sched/mutant.h"

namespace quern::sched {
namespace {

constexpr Duration kSoon = Duration::seconds(1);

// How long until so many of the tenant's requests have left the queue as would make room: what each is expected to
// take, at the tenant's share of the pool.
Duration until_one_left(const Door& door, const Tenant* tenant) {
  if (!tenant || tenant->queued == 0) return kSoon;
  const int64_t wait = door.tenants.expected_wait_ns(*tenant, std::max<uint64_t>(1, door.devices.count_up()));
  return {std::clamp<int64_t>(wait / static_cast<int64_t>(tenant->queued), Duration::millis(1).ns,
                              Duration::seconds(60).ns)};
}

}  // namespace

std::optional<Answer> refuse(const Door& door, const Submit& submit, uint64_t bytes, Time now) {
  const auto refusal = [&](End end, Duration retry_after = {0}) {
    return Answer{.request = submit.request, .end = end, .run = std::nullopt, .retry_after = retry_after};
  };
  const Tenant* tenant = door.tenants.find(submit.tenant);
  const Limits limits = tenant ? tenant->limits : Limits{};
  // A device that is down is still known: what fits only there is not too large, it comes at a bad time.
  if (door.devices.largest_known() > 0 && bytes > door.devices.largest_known()) return refusal(End::kTooLarge);
  if (!door.fits_host) return refusal(End::kTooLarge);
  if (limits.memory_bytes > 0 && bytes > limits.memory_bytes && !QUERN_MUTANT(16)) return refusal(End::kOverLimit);
  if (submit.deadline <= now) return refusal(End::kDeadlineQueued);
  if (const Duration left = door.blame.quarantine_left(submit.function, now); left.ns > 0)
    return refusal(End::kQuarantined, left);
  if (!door.devices.any_up() || bytes > door.devices.largest_up()) return refusal(End::kNoDevice, kSoon);

  const uint32_t most_of_tenant = limits.queued ? limits.queued : door.config.most_queued_per_tenant;
  const uint64_t of_tenant = tenant ? tenant->queued : 0;
  if (door.tenants.size() >= door.config.most_queued || of_tenant >= most_of_tenant + (QUERN_MUTANT(17) ? 1 : 0) ||
      door.tenants.size_of(submit.function) >= door.config.most_queued_per_function)
    return refusal(End::kQueueFull, until_one_left(door, tenant));

  // Only what is known is held against it: a function that never ran may be fast.
  if (submit.deadline != Time::never() && tenant && door.devices.idle().empty() &&
      door.estimates.knows(submit.function)) {
    const int64_t wait = door.tenants.expected_wait_ns(*tenant, door.devices.count_up());
    const int64_t needs = door.estimates.of(submit.function), left = (submit.deadline - now).ns;
    if (wait > left - needs) return refusal(End::kWouldBeLate, {std::max(wait - left + needs, Duration::millis(1).ns)});
  }
  return std::nullopt;
}

}  // namespace quern::sched
