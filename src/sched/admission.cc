// SPDX-License-Identifier: Apache-2.0
#include "sched/admission.h"

namespace quern::sched {

std::optional<Answer> refuse(const Config& config, const Submit& submit, Time now, const Blame& blame,
                             const Devices& devices, const Queue& queue) {
  const auto refusal = [&](End end, Duration retry_after = {0}) {
    return Answer{.request = submit.request, .end = end, .run = std::nullopt, .retry_after = retry_after};
  };
  const Duration soon = Duration::seconds(1);
  // A device that is down is still known: what fits only there is not too large, it comes at a bad time.
  if (devices.largest_known() > 0 && submit.memory_bytes > devices.largest_known()) return refusal(End::kTooLarge);
  if (submit.deadline <= now) return refusal(End::kDeadlineQueued);
  if (const Duration left = blame.quarantine_left(submit.function, now); left.ns > 0)
    return refusal(End::kQuarantined, left);
  if (devices.largest_up() == 0 || submit.memory_bytes > devices.largest_up()) return refusal(End::kNoDevice, soon);
  const uint32_t most_of_tenant = submit.queue ? submit.queue : config.most_queued_per_tenant;
  if (queue.size() >= config.most_queued || queue.size_of(submit.tenant) >= most_of_tenant)
    return refusal(End::kQueueFull, soon);
  return std::nullopt;
}

}  // namespace quern::sched
