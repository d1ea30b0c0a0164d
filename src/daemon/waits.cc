// SPDX-License-Identifier: Apache-2.0
#include "daemon/waits.h"

#include <algorithm>

namespace quern::daemon {

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::kQueue:
      return "queue";
    case Cause::kFairness:
      return "fairness";
    case Cause::kMemory:
      return "memory";
    case Cause::kSetup:
      return "setup";
    case Cause::kUrgent:
      return "urgent";
    case Cause::kQuota:
      break;
  }
  return "quota";
}

void Waits::add(Cause cause, Duration more) {
  if (more.ns <= 0) return;
  Duration& sum = time[static_cast<size_t>(cause)];
  sum = sum + more;
}

void Waits::add_urgent(const std::string& function, Duration more) {
  if (more.ns <= 0) return;
  add(Cause::kUrgent, more);
  const auto find = [&](std::string_view name) {
    return std::find_if(urgent.begin(), urgent.end(), [&](const Urgent& one) { return one.function == name; });
  };
  auto known = find(function);
  // One place is left for the rest.
  if (known == urgent.end() && !function.empty() && urgent.size() + 1 >= kMostNamed) known = find("");
  if (known == urgent.end()) {
    const bool is_named = urgent.size() + 1 < kMostNamed;
    known = urgent.insert(urgent.end(), Urgent{is_named ? function : std::string(), Duration{0}});
  }
  known->time = known->time + more;
}

void Waits::add(const Waits& other) {
  for (size_t i = 0; i < kCauses; ++i)
    if (static_cast<Cause>(i) != Cause::kUrgent) add(static_cast<Cause>(i), other.time[i]);
  for (const Urgent& one : other.urgent) add_urgent(one.function, one.time);
}

}  // namespace quern::daemon
