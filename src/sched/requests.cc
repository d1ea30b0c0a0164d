// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sched/admission.h"
#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

Request* Scheduler::Impl::find_request(RequestId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : &found->second;
}

void Scheduler::Impl::on(const Submit& event) {
  uint64_t bytes = round_up(event.memory_bytes), host_bytes = 0;
  for (const ObjectNeed& need : event.objects) {
    bytes += round_up(need.bytes);
    if (!need.passing) host_bytes += need.bytes;
  }
  for (const Made& made : event.makes) bytes += round_up(made.bytes);
  const bool fits_host = !has_host_ || host_bytes <= host_known_bytes_;
  if (auto refusal = refuse({config_, blame_, devices_, tenants_, estimates_, fits_host}, event, bytes, now_)) {
    act(*refusal);
    return;
  }
  Homes::Home* home = nullptr;
  if (event.quota != Quota{} && fairness_->has_levels()) {
    home = homes_.settle(event.function, event.quota, bytes, devices_, now_);
    if (!home) {
      act(Answer{.request = event.request, .end = End::kOverQuota, .run = {}, .retry_after = Duration::seconds(1)});
      return;
    }
  }
  auto [entry, fresh] = requests_.try_emplace(event.request);
  QUERN_CHECK(fresh, "a request id was used twice");
  Request& request = entry->second;
  request.submit = event;
  request.bytes = bytes;
  request.arrival = next_arrival_++;
  Tenant& tenant = tenants_.get(event.tenant);
  request.submit.priority = std::max(event.priority, tenant.limits.priority);
  const uint8_t priority = fairness_->has_levels() ? std::min(request.submit.priority, kLeastUrgent) : uint8_t{0};
  request.level = level_of(priority, home ? home->own : kShared);
  if (home) {
    homes_.hold(event.function);
    dispatch_.quota_set(event.function, event.quota, now_);
  }
  if (fairness_->gives_homes() && !tenant.home) {
    if (const auto home = devices_.fewest_homes(bytes)) {
      tenants_.give_home(tenant, *home);
      devices_.add_home(*home);
    }
  }
  blame_.hold(event.function);
  arrivals_.arrived(event.function, now_);
  dispatch_.called(event.function, now_);
  enqueue(request);
}

void Scheduler::Impl::on(const Cancel& event) {
  Request* request = find_request(event.request);
  if (!request) return;
  if (request->queued) {
    answer(*request, End::kCancelled);
    if (QUERN_MUTANT(18)) act(Answer{.request = event.request, .end = End::kCancelled, .run = {}, .retry_after = {0}});
    return;
  }
  RunRecord& run = runs_.at(request->holds);
  answer(*request, End::kCancelled);
  if (!run.sent) {
    erase(run);
  } else if (run.stop == RunRecord::Stop::kNone) {
    stop(run, RunRecord::Stop::kGivenUp);
    ask_flight(run.device);
  }
}

void Scheduler::Impl::on(const FunctionGone& event) {
  for (Request* request : tenants_.of_function(event.function)) {
    if (QUERN_MUTANT(19)) break;
    answer(*request, End::kRemoved);
  }
  blame_.gone(event.function);
  estimates_.forget(event.function);
  arrivals_.forget(event.function);
  dispatch_.forget(event.function);
  homes_.gone(event.function);
  if (const Keeps::Kept* known = keeps_.find(event.function)) {
    const Keeps::Kept kept = *known;
    keeps_.erase(event.function);
    let_go(kept);
  }
  send_away(event.function);
  retire_all(event.function);
}

Group Scheduler::Impl::group_of(FunctionId function, DomainId domain) const {
  if (setup_->share != Setup::Share::kDomain || blame_.has_own_executor(function)) return {domain, function};
  return {domain, std::nullopt};
}

void Scheduler::Impl::enqueue(Request& request) {
  request.group = group_of(request.submit.function, request.submit.domain);
  request.estimate_ns = estimates_.of(request.submit.function);
  tenants_.add(request);
  arrived_ = request.submit.request;
  if (!QUERN_MUTANT(20)) timers_.arm(request.submit.request, request.timer, request.submit.deadline);
}

void Scheduler::Impl::give_back(Request& request) {
  if (request.attempt >= config_.most_attempts + (QUERN_MUTANT(21) ? 1 : 0)) {
    answer(request, End::kLost, Duration::seconds(1));
  } else if (blame_.is_gone(request.submit.function)) {
    answer(request, End::kRemoved);
  } else if (const Duration left = blame_.quarantine_left(request.submit.function, now_); left.ns > 0) {
    answer(request, End::kQuarantined, left);
  } else {
    ++request.attempt;
    request.again_since = now_;
    enqueue(request);
  }
}

void Scheduler::Impl::answer(Request& request, End end, Duration retry_after) {
  const RequestId id = request.submit.request;
  if (!(QUERN_MUTANT(25) && end == End::kLost))
    act(Answer{.request = id, .end = end, .run = request.run, .retry_after = retry_after});
  if (request.queued) dequeue(request);
  timers_.arm(id, request.timer, Time::never());
  const FunctionId function = request.submit.function;
  if (is_own(request.level)) homes_.release(function, now_);
  requests_.erase(id);
  blame_.release(function);
}

void Scheduler::Impl::regroup(FunctionId function) {
  const Duration left = blame_.quarantine_left(function, now_);
  for (Request* request : tenants_.of_function(function)) {
    if (left.ns > 0) {
      answer(*request, End::kQuarantined, left);
    } else {
      request->group = group_of(request->submit.function, request->submit.domain);
    }
  }
}

}  // namespace quern::sched
