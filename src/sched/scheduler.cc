// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler.h"

#include <algorithm>

#include "sched/core.h"
#include "sched/policy/table.h"

namespace quern::sched {

Scheduler::Scheduler(const Config& config) : impl_(std::make_unique<Impl>(config)) {}
Scheduler::~Scheduler() = default;
const std::vector<Action>& Scheduler::step(Time now, const Event& event) { return impl_->step(now, event); }
Scheduler::Counts Scheduler::counts() const { return impl_->counts(); }

Scheduler::Impl::Impl(const Config& config)
    : config_(config),
      placement_(make_placement(config.placement)),
      devices_(std::min(config.runs_in_flight, config.lanes)),
      blame_(config_) {
  QUERN_CHECK(placement_ != nullptr, "placement " + config.placement + ": is not in policy/table.cc");
  QUERN_CHECK(config.runs_in_flight > 0 && config.lanes > 0, "a device must be able to run something");
}

const std::vector<Action>& Scheduler::Impl::step(Time now, const Event& event) {
  QUERN_CHECK(now >= now_, "time goes backwards");
  now_ = now;
  actions_.clear();
  std::visit([this](const auto& happened) { on(happened); }, event);
  expire();
  dispatch();
  set_alarm();
  return actions_;
}

void Scheduler::Impl::expire() {
  while (const auto owner = timers_.due(now_)) {
    if (const auto* request = std::get_if<RequestId>(&*owner)) {
      answer(requests_.at(*request), End::kDeadlineQueued);
    } else {
      limit_passed(runs_.at(std::get<RunId>(*owner)));
    }
  }
}

void Scheduler::Impl::set_alarm() {
  // Most requests end long before their deadline. An alarm that comes too early costs one Tick; moving it each time
  // would cost an action per request.
  if (alarm_ <= now_) alarm_ = Time::never();
  if (timers_.earliest() >= alarm_) return;
  alarm_ = timers_.earliest();
  act(WakeAt{alarm_});
}

Scheduler::Counts Scheduler::Impl::counts() const {
  return {.queued = queue_.size(),
          .running = runs_.size(),
          .functions = blame_.size(),
          .executors = devices_.executors(),
          .failed_starts = failed_starts_};
}

}  // namespace quern::sched
