// SPDX-License-Identifier: Apache-2.0
#include "sim/hang_checker.h"

#include <algorithm>

namespace quern::sim {

using sched::End;

namespace {

bool shares_units(const Shadow::Run& one, const Shadow::Run& other) {
  if (one.units == 0 || other.units == 0) return true;
  return one.first_unit < other.first_unit + other.units && other.first_unit < one.first_unit + one.units;
}

}  // namespace

void HangChecker::on_hang(Time now, sched::RunId id) {
  const Shadow::Run* run = shadow_.find(id);
  if (!run) return;
  const sched::Submit& submit = *run->submit;
  const Time limit = std::min(now + submit.device_time, std::max(now, submit.deadline));
  hangs_[id] = {limit + config_.stop_grace, run->executor, run->device, submit.request, now};
}

void HangChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                          const sched::Scheduler& /*core*/) {
  shadow_.happened(now, event);
  // What is not in flight any more went with its executor, of which the core may hear later.
  if (const auto* flight = std::get_if<sched::Flight>(&event))
    std::erase_if(hangs_, [&](const auto& entry) {
      const auto& launches = flight->launches;
      return entry.second.device == flight->device &&
             std::none_of(launches.begin(), launches.end(),
                          [&](const auto& one) { return one.run == entry.first && one.number != 0; });
    });
  for (const sched::Action& action : actions) {
    if (const auto* kill = std::get_if<sched::KillExecutor>(&action)) check(now, *kill);
    if (const auto* answer = std::get_if<sched::Answer>(&action)) check(now, *answer);
    if (const auto* stop = std::get_if<sched::StopRun>(&action)) check(now, *stop);
    shadow_.carry_out(now, action);
  }
  for (auto it = hangs_.begin(); it != hangs_.end();) {
    const auto& [id, hang] = *it;
    if (!shadow_.find(id)) {
      it = hangs_.erase(it);
      continue;
    }
    if (!hang.is_killed)
      expect(now <= hang.due, now, "run{} hangs on d{}, and e{} was to be killed by {}ns", id.value, hang.device.value,
             hang.executor.value, hang.due.ns);
    ++it;
  }
}

void HangChecker::on_restart(Time) {
  shadow_.restart();
  hangs_.clear();
}

void HangChecker::check(Time now, const sched::KillExecutor& action) {
  const Shadow::Run* blamed = action.because ? shadow_.find(*action.because) : nullptr;
  bool has_hung = false, is_right = false;
  for (auto& [id, hang] : hangs_) {
    if (hang.executor != action.executor) continue;
    hang.is_killed = true;
    // A run on another part of the device has used up its own time there.
    const Shadow::Run* hung = shadow_.find(id);
    has_hung |= !blamed || !hung || shares_units(*blamed, *hung);
    is_right |= action.because == id;
  }
  for (auto it = hangs_.begin(); blamed && it != hangs_.end(); ++it)
    expect(now >= blamed->submit->deadline || !waits_behind(*blamed, *action.because, it->first, it->second), now,
           "e{} is killed because of run{}, and its launch is behind that of run{}, which hangs", action.executor.value,
           action.because->value, it->first.value);
  if (has_hung && action.because)
    expect(is_right, now, "e{} is killed because of run{}, and another of its runs hangs", action.executor.value,
           action.because->value);
}

bool HangChecker::is_behind(const Shadow::Run& run, sched::RunId id, const Hang& hang) const {
  if (hangs_.contains(id) || hang.is_killed || run.device != hang.device) return false;
  const Shadow::Run* hung = nullptr;
  for (const auto& [other, one] : hangs_)
    if (&one == &hang) hung = shadow_.find(other);
  // A run that uses a part of the device may be beside the one that hangs.
  if (!hung || hung->units != 0 || run.units != 0) return false;
  return run.executor == hang.executor || !shadow_.find(run.device)->shares_time;
}

bool HangChecker::waits_behind(const Shadow::Run& run, sched::RunId id, sched::RunId hung_id, const Hang& hang) const {
  if (!run.in_flight || run.in_flight->number == 0 || run.in_flight->used >= run.submit->device_time) return false;
  // Until the core was told of the launch that hangs, it is known to be no younger than the hang itself.
  const Shadow::Run* hung = shadow_.find(hung_id);
  const bool is_told = hung && hung->in_flight && hung->in_flight->number != 0;
  const Time since = is_told ? hung->in_flight->since : hang.since;
  return run.in_flight->since > since && is_behind(run, id, hang);
}

void HangChecker::check(Time now, const sched::StopRun& action) {
  const Shadow::Run* run = shadow_.find(action.run);
  if (!run || now >= run->submit->deadline) return;
  if (!shadow_.find(run->submit->request)) return;  // its caller is gone
  for (const auto& [id, hang] : hangs_)
    expect(!waits_behind(*run, action.run, id, hang), now,
           "run{} is told to stop for its time on the device, and its launch is behind that of run{}, which hangs",
           action.run.value, id.value);
}

// Who is behind a launch that hangs is not on the device.
void HangChecker::check(Time now, const sched::Answer& action) {
  if (action.end != End::kDeadlineRunning || !action.run || hangs_.contains(*action.run)) return;
  const Shadow::Request* request = shadow_.find(action.request);
  const auto ended = shadow_.ended().find(*action.run);
  const Shadow::Run* run = ended != shadow_.ended().end() ? &ended->second : shadow_.find(*action.run);
  if (!run || !request || now >= request->submit->deadline) return;
  const bool is_beside = std::any_of(hangs_.begin(), hangs_.end(), [&](const auto& entry) {
    const Hang& hang = entry.second;
    return hang.executor == run->executor || is_behind(*run, *action.run, hang);
  });
  expect(!is_beside || run->stopped != Time::never(), now, "r{} is blamed for a kernel of another run that hangs",
         action.request.value);
}

}  // namespace quern::sim
