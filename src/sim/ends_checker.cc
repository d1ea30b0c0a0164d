// SPDX-License-Identifier: Apache-2.0
#include "sim/ends_checker.h"

#include <algorithm>

#include "sched/policy/table.h"

namespace quern::sim {

using sched::End;

void EndsChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                          const sched::Scheduler& core) {
  if (const auto* submit = std::get_if<sched::Submit>(&event)) {
    deadlines_.emplace(submit->deadline, submit->request);
    if (records_[submit->function].good_runs_owed > 0) set_apart_.insert(submit->request);
  }
  blamed_.clear();
  note(now, event);
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) {
    if (const auto* answer = std::get_if<sched::Answer>(&action)) {
      check(now, event, *answer);
      if (const auto* request = shadow_.find(answer->request))
        deadlines_.erase({request->submit->deadline, answer->request});
      set_apart_.erase(answer->request);
    }
    if (const auto* run = std::get_if<sched::Run>(&action)) check_apart(now, *run);
    shadow_.carry_out(now, action);
  }

  if (const auto* cancel = std::get_if<sched::Cancel>(&event))
    expect(!shadow_.find(cancel->request), now, "r{} was cancelled and not answered", cancel->request.value);
  if (const auto* gone = std::get_if<sched::FunctionGone>(&event))
    for (const auto& [id, request] : shadow_.requests())
      if (request.submit->function == gone->function)
        expect(core.progress(id) != sched::Scheduler::Progress::kQueued, now, "r{} still waits for f{}, which is gone",
               id.value, gone->function.value);
  if (const auto* lost = std::get_if<sched::ExecutorLost>(&event); lost && lost->culprit) {
    const auto culprit = shadow_.ended().find(*lost->culprit);
    if (culprit != shadow_.ended().end())
      expect(!shadow_.find(culprit->second.submit->request), now, "run{} killed its executor, and its r{} goes on",
             lost->culprit->value, culprit->second.submit->request.value);
  }
  check_overdue(now);
  check_blamed(now, core);
}

void EndsChecker::on_end(Time now, bool /*drained*/, const sched::Scheduler& /*core*/) {
  // Where functions do not share, each has an executor of its own.
  const auto setup = sched::make_setup(config_.policy.setup);
  if (setup && setup->share != sched::Setup::Share::kDomain) return;
  for (const auto& [id, executor] : shadow_.executors())
    if (executor.own_function && !executor.is_killed)
      expect(records_[*executor.own_function].good_runs_owed > 0 && !gone_.contains(*executor.own_function), now,
             "e{} is still there for f{}, which needs none of its own", id.value, executor.own_function->value);
}

void EndsChecker::on_restart(Time) {
  shadow_.restart();
  deadlines_.clear();
  gone_.clear();
  records_.clear();
  set_apart_.clear();
}

// Before the shadow forgets the runs: who is to blame follows from them.
void EndsChecker::note(Time now, const sched::Event& event) {
  if (const auto* gone = std::get_if<sched::FunctionGone>(&event)) gone_.insert(gone->function);
  if (const auto* finished = std::get_if<sched::Finished>(&event)) {
    const Shadow::Run* run = shadow_.find(finished->run);
    if (run && !finished->failed) {
      Record& record = records_[run->submit->function];
      record.kills = 0;
      record.quarantined_until = {0};
      if (record.good_runs_owed > 0 && --record.good_runs_owed == 0)
        std::erase_if(set_apart_, [&](sched::RequestId id) {
          const Shadow::Request* request = shadow_.find(id);
          return !request || request->submit->function == run->submit->function;
        });
    }
  }
  if (const auto* finished = std::get_if<sched::Finished>(&event);
      finished && finished->failed && finished->ends_executor)
    if (const Shadow::Run* run = shadow_.find(finished->run); run && !run->is_doomed) blame(now, run->submit->function);
  const auto* lost = std::get_if<sched::ExecutorLost>(&event);
  const auto* down = std::get_if<sched::DeviceDown>(&event);
  if (!lost && !down) return;
  for (const auto& [id, executor] : shadow_.executors()) {
    if (lost ? id != lost->executor : executor.device != down->device) continue;
    const Shadow::Run* killer = lost && lost->culprit ? shadow_.find(*lost->culprit) : nullptr;
    if (killer && killer->executor != id) killer = nullptr;
    if (!killer && executor.killed_because) {
      killer = shadow_.find(*executor.killed_because);
      if (killer && !killer->passed_limit) killer = nullptr;
    }
    if (killer) blame(now, killer->submit->function);
    if (!lost) continue;
    for (const sched::RunId suspect : lost->suspects) {
      const Shadow::Run* run = shadow_.find(suspect);
      if (!run || run->executor != id) continue;
      records_[run->submit->function].good_runs_owed = config_.own_executor_runs;
      blamed_.insert(run->submit->function);
    }
  }
}

void EndsChecker::blame(Time now, sched::FunctionId function) {
  Record& record = records_[function];
  record.good_runs_owed = config_.own_executor_runs;
  blamed_.insert(function);
  if (++record.kills >= config_.quarantine_after) record.quarantined_until = now + config_.quarantine;
}

void EndsChecker::check(Time now, const sched::Event& event, const sched::Answer& answer) {
  const Shadow::Request* request = shadow_.find(answer.request);
  expect(request != nullptr, now, "r{} is answered ({}) and does not wait for an answer", answer.request.value,
         sched::name_of(answer.end));
  if (!request) return;
  expect(answer.run == request->last_run, now, "r{} is answered ({}) with run{}, its last was run{}",
         answer.request.value, sched::name_of(answer.end), answer.run ? answer.run->value : 0,
         request->last_run ? request->last_run->value : 0);
  expect(makes_sense(now, event, answer, *request), now, "r{} is answered {}, and nothing says so",
         answer.request.value, sched::name_of(answer.end));
  const bool later = answer.end == End::kQueueFull || answer.end == End::kWouldBeLate || answer.end == End::kNoDevice ||
                     answer.end == End::kOverQuota || answer.end == End::kQuarantined || answer.end == End::kLost;
  expect((answer.retry_after.ns > 0) == later, now, "r{} is answered {} with retry_after {}ns", answer.request.value,
         sched::name_of(answer.end), answer.retry_after.ns);
}

bool EndsChecker::makes_sense(Time now, const sched::Event& event, const sched::Answer& answer,
                              const Shadow::Request& request) {
  const sched::Submit& submit = *request.submit;
  const auto* submitted = std::get_if<sched::Submit>(&event);
  const bool at_the_door = submitted && submitted->request == answer.request;
  const auto* finished = std::get_if<sched::Finished>(&event);
  const auto* lost = std::get_if<sched::ExecutorLost>(&event);
  const auto* loaded = std::get_if<sched::Loaded>(&event);
  const auto* fetched = std::get_if<sched::Fetched>(&event);
  const bool its_run_ended = answer.run && shadow_.ended().contains(*answer.run);
  const bool is_doomed = finished && its_run_ended && shadow_.ended().at(*answer.run).is_doomed;
  const bool was_lost = lost || std::holds_alternative<sched::DeviceDown>(event) || (loaded && loaded->failed) ||
                        (fetched && fetched->failed) || is_doomed;

  switch (answer.end) {
    case End::kDone:
      return finished && !finished->failed && answer.run == finished->run && its_run_ended;
    case End::kFailed:
      return finished && finished->failed && answer.run == finished->run && its_run_ended && !is_doomed &&
             !shadow_.ended().at(finished->run).passed_limit;
    case End::kFaulted:
      return lost && lost->culprit && answer.run == lost->culprit && its_run_ended;
    case End::kDeadlineQueued:
      return now >= submit.deadline;
    case End::kDeadlineRunning: {
      const Shadow::Run* run = its_run_ended ? &shadow_.ended().at(*answer.run) : shadow_.run_of(request);
      if (!run || !run->was_launched) return false;
      // Where its executor was being killed already, there was nobody left to tell to stop.
      const Shadow::Executor* on = shadow_.find(run->executor);
      if (run->stopped == Time::never() && !was_lost && !(on && on->is_killed)) return false;
      const Time when = std::min(run->stopped, now);
      return when >= submit.deadline || when >= run->sent + submit.device_time;
    }
    case End::kCancelled: {
      const auto* cancel = std::get_if<sched::Cancel>(&event);
      return cancel && cancel->request == answer.request;
    }
    case End::kTooLarge:
      return at_the_door && (!fits_some(submit, false) || !shadow_.fits_host(submit));
    case End::kNoDevice:
      return at_the_door && !fits_some(submit, true);
    case End::kOverQuota:
      return at_the_door && submit.quota.request > 0;
    case End::kQueueFull:
    case End::kOverLimit:
      return at_the_door;  // the limits checker knows more
    case End::kWouldBeLate:
      return at_the_door && submit.deadline != Time::never();
    case End::kQuarantined:
      return records_[submit.function].quarantined_until > now &&
             answer.retry_after == records_[submit.function].quarantined_until - now;
    case End::kLost:
      return was_lost && request.attempts <= config_.most_attempts;
    case End::kRemoved:
      return gone_.contains(submit.function);
  }
  return false;
}

bool EndsChecker::fits_some(const sched::Submit& submit, bool only_up) const {
  const uint64_t bytes = shadow_.bytes_of(submit);
  return std::any_of(shadow_.devices().begin(), shadow_.devices().end(), [&](const auto& entry) {
    const Shadow::Device& device = entry.second;
    if (only_up && !device.is_up) return false;
    return bytes + device.context_bytes <= device.memory_bytes;
  });
}

// Those that wait when their function is blamed wait for an executor of its own, and so do those that come later. Who
// had a slot already keeps it.
void EndsChecker::check_blamed(Time now, const sched::Scheduler& core) {
  if (blamed_.empty()) return;
  for (const auto& [id, request] : shadow_.requests()) {
    if (!blamed_.contains(request.submit->function) || core.progress(id) != sched::Scheduler::Progress::kQueued)
      continue;
    expect(records_[request.submit->function].quarantined_until <= now, now, "r{} waits for f{}, which is quarantined",
           id.value, request.submit->function.value);
    set_apart_.insert(id);
  }
}

void EndsChecker::check_apart(Time now, const sched::Run& run) {
  const Shadow::Request* request = shadow_.find(run.request);
  const Shadow::Executor* executor = shadow_.find(run.executor);
  if (!request || !executor || !set_apart_.contains(run.request)) return;
  const sched::FunctionId function = request->submit->function;
  if (records_[function].good_runs_owed == 0) return;
  expect(executor->own_function == function, now, "run{} of f{}, which killed an executor, is on e{} with others",
         run.run.value, function.value, run.executor.value);
}

void EndsChecker::check_overdue(Time now) {
  for (auto it = deadlines_.begin(); it != deadlines_.end() && it->first <= now; ++it) {
    const Shadow::Request* request = shadow_.find(it->second);
    if (!request) continue;
    const Shadow::Run* run = shadow_.run_of(*request);
    const bool is_ending = run && (run->stopped != Time::never() || shadow_.find(run->executor)->is_killed ||
                                   shadow_.is_asked(run->device));
    expect(is_ending, now, "r{} is past its deadline and nothing is done about it", it->second.value);
  }
  const auto next = deadlines_.upper_bound({now, sched::RequestId{UINT64_MAX}});
  if (next == deadlines_.end() || next->first == Time::never()) return;
  const Shadow::Run* run = shadow_.run_of(*shadow_.find(next->second));
  if (run && (run->stopped != Time::never() || shadow_.find(run->executor)->is_killed || shadow_.is_asked(run->device)))
    return;
  expect(shadow_.wake() <= next->first, now, "nobody wakes the core for the deadline of r{}", next->second.value);
}

}  // namespace quern::sim
