// SPDX-License-Identifier: Apache-2.0
#include "launcher/permit.h"

#include <algorithm>

namespace quern::launcher {
namespace {

using Why = Permit::Why;

// What it costs to launch and to wake up for: a slice that is shorter is not worth it.
constexpr double kLeastSlice = 15'000;
constexpr uint64_t kProbe = 32;

// As many parts as come nearest to `ns`, and where little would be left over, half of what there is.
uint64_t cut(const Ask& ask, double ns) {
  const auto fit = static_cast<uint64_t>(std::max(1.0, ns / ask.part_ns + 0.5));
  if (fit >= ask.parts) return ask.parts;
  return ask.parts - fit < fit / 2 ? ask.parts - ask.parts / 2 : fit;
}

}  // namespace

Permit permit(const ipc::Grant& grant, const Ask& ask, int64_t now_ns) {
  if (!grant.open) return {0, Why::kClosed};
  if (grant.from_ns != 0 && now_ns < grant.from_ns) return {0, Why::kEarly};
  if (ask.in_flight > 0 && ask.in_flight >= grant.depth) return {0, Why::kDepth};
  // Two small ones keep a device busy, whatever was expected of them.
  if (ask.in_flight > 1 && ask.in_flight_ns >= grant.depth_ns) return {0, Why::kDepth};

  const bool has_end = grant.until_ns != 0;
  double slice_ns = grant.slice_ns;
  bool ends_hard = false;
  double left_ns = 0;
  // What is in flight comes first: else one after the other would begin.
  const bool may_overdraw = grant.overdraws && ask.in_flight == 0;
  if (has_end) {
    left_ns = static_cast<double>(grant.until_ns - now_ns) - static_cast<double>(ask.in_flight_ns);
    const bool goes_on = grant.beyond_ns != 0 && ask.sliceable;
    // Who goes on after the end does so when not even a part fits before it: nobody would wake it up then.
    if (left_ns >= (goes_on ? std::max(kLeastSlice, ask.part_ns) : kLeastSlice)) {
      ends_hard = true;
    } else if (!goes_on) {
      return {0, Why::kOver};
    } else {
      slice_ns = grant.beyond_ns;
      if (ask.in_flight > 1) return {0, Why::kDepth};
    }
  }
  if (ask.part_ns <= 0) {
    if (!ask.sliceable || grant.slice_ns == 0) {
      const bool may = !ends_hard || may_overdraw;
      return {may ? ask.parts : 0, may ? Why::kGo : Why::kOver};
    }
    return {std::max<uint64_t>(1, ask.parts / kProbe), Why::kGo};
  }
  const double whole_ns = ask.part_ns * static_cast<double>(ask.parts);
  if (ends_hard && whole_ns > left_ns) {
    if (!ask.sliceable || slice_ns == 0 || ask.part_ns > left_ns) {
      if (!may_overdraw) return {0, Why::kOver};
      return {ask.sliceable && slice_ns > 0 ? 1 : ask.parts, Why::kGo};
    }
    const double most = std::min(slice_ns, left_ns);
    return {std::min(ask.parts, static_cast<uint64_t>(std::max(1.0, most / ask.part_ns))), Why::kGo};
  }
  if (!ask.sliceable || slice_ns == 0 || whole_ns <= 2 * slice_ns) return {ask.parts, Why::kGo};
  return {cut(ask, slice_ns), Why::kGo};
}

}  // namespace quern::launcher
