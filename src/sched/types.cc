// SPDX-License-Identifier: Apache-2.0
#include "sched/types.h"

#include <algorithm>
#include <bit>

namespace quern::sched {

uint32_t units_of(const Quota& quota, Units units) {
  const auto share = static_cast<uint32_t>(uint64_t{units.count} * quota.units / 1000);
  const uint32_t most = std::clamp(share, 1U, units.count);
  return units.in_halves && most < units.count ? std::bit_floor(most) : most;
}

ErrorCode error_code_of(End end) {
  switch (end) {
    case End::kDone:
    case End::kFailed:
      return ErrorCode::kInternal;
    case End::kFaulted:
      return ErrorCode::kFaulted;
    case End::kDeadlineQueued:
    case End::kDeadlineRunning:
      return ErrorCode::kDeadline;
    case End::kCancelled:
      return ErrorCode::kCancelled;
    case End::kQueueFull:
    case End::kWouldBeLate:
    case End::kOverQuota:
      return ErrorCode::kExhausted;
    case End::kTooLarge:
    case End::kOverLimit:
      return ErrorCode::kInvalid;
    case End::kNoDevice:
    case End::kQuarantined:
    case End::kLost:
      return ErrorCode::kUnavailable;
    case End::kRemoved:
      return ErrorCode::kNotFound;
  }
  return ErrorCode::kInternal;
}

std::string_view name_of(End end) {
  switch (end) {
    case End::kDone:
      return "done";
    case End::kFailed:
      return "failed";
    case End::kFaulted:
      return "faulted";
    case End::kDeadlineQueued:
      return "deadline-queued";
    case End::kDeadlineRunning:
      return "deadline-running";
    case End::kCancelled:
      return "cancelled";
    case End::kQueueFull:
      return "queue-full";
    case End::kTooLarge:
      return "too-large";
    case End::kOverLimit:
      return "over-limit";
    case End::kWouldBeLate:
      return "would-be-late";
    case End::kNoDevice:
      return "no-device";
    case End::kOverQuota:
      return "over-quota";
    case End::kQuarantined:
      return "quarantined";
    case End::kLost:
      return "lost";
    case End::kRemoved:
      return "removed";
  }
  return "?";
}

std::string_view name_of(Grant::Why why) {
  switch (why) {
    case Grant::Why::kOpen:
      return "open";
    case Grant::Why::kUrgent:
      return "urgent";
    case Grant::Why::kQuota:
      return "quota";
    case Grant::Why::kUnits:
      break;
  }
  return "units";
}

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::kNothing:
      return "nothing";
    case Stage::kContext:
      return "context";
    case Stage::kHost:
      return "host";
    case Stage::kHot:
      break;
  }
  return "hot";
}

}  // namespace quern::sched
