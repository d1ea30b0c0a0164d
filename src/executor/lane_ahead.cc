// SPDX-License-Identifier: Apache-2.0
//
// A plan lists its kernels in advance, so a lane that has to wait knows what it will launch once it may: the rest of
// the kernel it is at, and what follows in its plan, round after round, up to the next result that it has to look at.
#include <algorithm>

#include "executor/lane.h"
#include "os/clock.h"

namespace quern::executor {
namespace {

// A repeat may have many rounds of nothing.
constexpr int kMostSteps = 64;

using Kernel = ipc::WorkReady::Kernel;

bool is_alike(const Kernel& one, const Kernel& other) {
  return one.identity == other.identity && one.sliceable == other.sliceable && one.time_ns <= 2 * other.time_ns &&
         other.time_ns <= 2 * one.time_ns;
}

}  // namespace

Lane::Level Lane::round_of(const Plan& plan, const PlannedStep& step, uint64_t round, bool is_check) {
  const PlannedRepeat& repeat = plan.repeats[step.index];
  const size_t variant = repeat.bodies.size() == 1 ? 0 : round;
  if (!is_check) return {repeat.bodies[variant], repeat.checks[variant], &step, round, false};
  const uint32_t end = variant + 1 < repeat.bodies.size() ? repeat.bodies[variant + 1] : step.end;
  return {repeat.checks[variant], end, &step, round, true};
}

ipc::WorkReady::Kernel Lane::kernel_ahead(const Ready& ready, uint32_t launch, const Cut& cut, uint64_t parts) {
  const auto time_ns = static_cast<uint64_t>(cut.part_ns * static_cast<double>(parts));
  if (launch == ipc::kNoLaunch) return {0, 0, time_ns, false};
  return {ready.prepared->binding.launches[launch].identity, parts * cut.groups, time_ns, cut.parts > 1};
}

void Lane::look_ahead(const Ready& ready, ipc::WorkReady& into) const {
  const Plan& plan = ready.plan();
  std::vector<Level> path = path_;
  for (int steps = 0; !path.empty() && into.kernels.size() < into.kMost && steps < kMostSteps; ++steps) {
    Level& level = path.back();
    if (level.next < level.end) {
      const PlannedStep& step = plan.steps[level.next];
      level.next = step.end;
      switch (step.kind) {
        case PlannedStep::Kind::kLaunch:
          into.kernels.push_back(kernel_ahead(ready, step.index, ready.cuts[step.index], ready.cuts[step.index].parts));
          break;
        case PlannedStep::Kind::kFill:
          into.kernels.push_back(kernel_ahead(ready, ipc::kNoLaunch, cut_of(plan.fills[step.index].size_bytes), 1));
          break;
        case PlannedStep::Kind::kCopy:
          into.kernels.push_back(kernel_ahead(ready, ipc::kNoLaunch, cut_of(plan.copies[step.index].size_bytes), 1));
          break;
        case PlannedStep::Kind::kRepeat:
          path.push_back(round_of(plan, step, 0, false));
          break;
      }
      continue;
    }
    const Level done = level;
    path.pop_back();
    if (!done.of) return;
    if (done.is_check) {
      into.pauses = true;  // how it goes on is not decided
      return;
    }
    const PlannedRepeat& repeat = plan.repeats[done.of->index];
    if (repeat.until && (done.round + 1) % repeat.until->every == 0)
      path.push_back(round_of(plan, *done.of, done.round, true));
    else if (done.round + 1 < repeat.rounds)
      path.push_back(round_of(plan, *done.of, done.round + 1, false));
  }
}

// Told again only when it is something else.
void Lane::tell_next(const Ready& ready, uint32_t launch, const Cut& cut, uint64_t parts) {
  ipc::WorkReady next{.at_ns = os::now().ns, .kernels = {kernel_ahead(ready, launch, cut, parts)}};
  look_ahead(ready, next);
  if (next.pauses == told_.pauses &&
      std::equal(next.kernels.begin(), next.kernels.end(), told_.kernels.begin(), told_.kernels.end(), is_alike))
    return;
  report(next);
  told_ = std::move(next);
}

}  // namespace quern::executor
