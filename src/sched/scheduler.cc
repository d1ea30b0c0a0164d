// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler.h"

#include <algorithm>

#include "sched/core.h"
#include "sched/mutant.h"
#include "sched/policy/table.h"

namespace quern::sched {

Scheduler::Scheduler(const Config& config) : impl_(std::make_unique<Impl>(config)) {}
Scheduler::~Scheduler() = default;
const std::vector<Action>& Scheduler::step(Time now, const Event& event) { return impl_->step(now, event); }
Scheduler::Counts Scheduler::counts() const { return impl_->counts(); }
std::vector<Scheduler::Standing> Scheduler::standings() const { return impl_->standings(); }
Scheduler::Lag Scheduler::lag() const { return impl_->lag(); }
std::optional<Scheduler::Books> Scheduler::books(DeviceId device) const { return impl_->books(device); }
std::optional<Scheduler::Books> Scheduler::host_books() const { return impl_->host_books(); }
uint32_t Scheduler::kills_in_a_row(FunctionId function) const { return impl_->kills_in_a_row(function); }
std::optional<Scheduler::Progress> Scheduler::progress(RequestId request) const { return impl_->progress(request); }

std::vector<Scheduler::GapsSeen> Scheduler::gaps(FunctionId function) const { return impl_->gaps(function); }
std::vector<Scheduler::Share> Scheduler::shares() const { return impl_->shares(); }

std::string_view name_of(Scheduler::Progress progress) {
  switch (progress) {
    case Scheduler::Progress::kQueued:
      return "queued";
    case Scheduler::Progress::kPlaced:
      return "placed";
    case Scheduler::Progress::kRunning:
      break;
  }
  return "running";
}

namespace {

Arbitration arbitration_of(const std::string& dispatch) {
  const auto found = make_dispatch(dispatch);
  QUERN_CHECK(found != nullptr, "dispatch " + dispatch + ": is not in policy/table.cc");
  return *found;
}

}  // namespace

Scheduler::Impl::Impl(const Config& config)
    : config_(config),
      fairness_(make_fairness(config.policy.fairness)),
      placement_(make_placement(config.policy.placement)),
      eviction_(make_eviction(config.policy.eviction)),
      setup_(make_setup(config.policy.setup)),
      exit_(make_exit(config.policy.exit)),
      dispatch_(config_, arbitration_of(config.policy.dispatch)),
      tenants_(*fairness_),
      devices_(config, *eviction_),
      blame_(config_),
      estimates_(config.first_estimate) {
  QUERN_CHECK(fairness_ != nullptr, "fairness " + config.policy.fairness + ": is not in policy/table.cc");
  QUERN_CHECK(placement_ != nullptr, "placement " + config.policy.placement + ": is not in policy/table.cc");
  QUERN_CHECK(eviction_ != nullptr, "eviction " + config.policy.eviction + ": is not in policy/table.cc");
  QUERN_CHECK(setup_ != nullptr, "setup " + config.policy.setup + ": is not in policy/table.cc");
  QUERN_CHECK(exit_ != nullptr, "exit " + config.policy.exit + ": is not in policy/table.cc");
  QUERN_CHECK(config.runs_in_flight > 0 && config.lanes > 0, "a device must be able to run something");
  QUERN_CHECK(config.window.ns > 0 && config.unit_turn.ns > 0, "a window or a turn of no length");
}

const std::vector<Action>& Scheduler::Impl::step(Time now, const Event& event) {
  QUERN_CHECK(now >= now_, "time goes backwards");
  now_ = now;
  actions_.clear();
  std::visit([this](const auto& happened) { on(happened); }, event);
  expire();
  place();
  set_gates();
  set_alarm();
  return actions_;
}

void Scheduler::Impl::expire() {
  while (const auto owner = timers_.due(now_)) {
    if (const auto* request = std::get_if<RequestId>(&*owner)) {
      answer(requests_.at(*request), End::kDeadlineQueued);
    } else {
      look(runs_.at(std::get<RunId>(*owner)));
    }
  }
  believe_again();
  lapse();
  exit_due();
}

void Scheduler::Impl::set_alarm() {
  // Most requests end long before their deadline. An alarm that comes too early costs one Tick; moving it each time
  // would cost an action per request.
  if (alarm_ <= now_) alarm_ = Time::never();
  Time earliest = timers_.earliest();
  if (!exits_.empty() && !QUERN_MUTANT(37)) earliest = std::min(earliest, exits_.begin()->first);
  if (!doubts_.empty()) earliest = std::min(earliest, doubts_.begin()->first);
  earliest = std::min({earliest, dispatch_.due(), keeps_.next_end()});
  if (earliest >= alarm_) return;
  alarm_ = earliest;
  act(WakeAt{alarm_});
}

Scheduler::Counts Scheduler::Impl::counts() const {
  return {.queued = tenants_.size(),
          .running = runs_.size(),
          .functions = blame_.size(),
          .executors = devices_.executors(),
          .failed_starts = failed_starts_,
          .evictions = evictions_,
          .exits = exits_done_,
          .prefetches = prefetches_,
          .hits = hits_,
          .misses = misses_};
}

// Who got a slot was at most `locality` ahead of the lowest, and then was charged for one run. After that both can move
// apart only by what was wrong in the charges of runs in flight: at most one largest charge each, for as many runs as
// there are slots. After a restart, what was between them before it comes on top.
Scheduler::Lag Scheduler::Impl::lag() const {
  const auto slots = static_cast<int64_t>(devices_.slots_known());
  const int64_t first = tenants_.first_spread();
  return {.lag = tenants_.lag(), .bound = first + config_.locality.ns + (1 + 2 * slots) * tenants_.largest_charge()};
}

std::optional<Scheduler::Books> Scheduler::Impl::books(DeviceId id) const {
  const Device* device = devices_.find(id);
  if (!device) return std::nullopt;
  return device->ledger.books();
}

std::optional<Scheduler::Books> Scheduler::Impl::host_books() const {
  if (!has_host_) return std::nullopt;
  return host_.books();
}

std::vector<Scheduler::Share> Scheduler::Impl::shares() const {
  std::vector<Share> all;
  for (const auto& [function, home] : homes_.all()) all.push_back({function, home.quota, home.device, home.at});
  return all;
}

std::optional<Scheduler::Progress> Scheduler::Impl::progress(RequestId id) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return std::nullopt;
  if (found->second.queued) return Progress::kQueued;
  return runs_.at(found->second.holds).started ? Progress::kRunning : Progress::kPlaced;
}

}  // namespace quern::sched
