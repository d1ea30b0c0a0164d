// SPDX-License-Identifier: Apache-2.0
#include "sim/report.h"

#include <algorithm>
#include <utility>

namespace quern::sim {
namespace {

constexpr uint64_t kStepsPerSample = 1000;

}  // namespace

double Summary::per_second(const Measures& measures) const {
  return measured.ns <= 0 ? 0 : static_cast<double>(measures.done()) * 1e9 / static_cast<double>(measured.ns);
}

double Summary::utilisation() const {
  const double there = static_cast<double>(measured.ns) * static_cast<double>(units);
  return there <= 0 ? 0 : static_cast<double>(all.device_time.ns) / there;
}

double Summary::hit_rate() const {
  const uint64_t all_needs = hits + misses;
  return all_needs == 0 ? 1 : static_cast<double>(hits) / static_cast<double>(all_needs);
}

Report::Report(const Model& model, Duration skip) : skip_(skip) {
  summary_.tenants.resize(model.tenants.size());
  summary_.functions.resize(model.functions.size());
  for (const FunctionModel& function : model.functions) tenant_of_.push_back(function.tenant);
  for (const DeviceModel& device : model.devices) {
    summary_.devices += device.count;
    // Of others it is the time of the whole device.
    summary_.units += device.has_kernels() ? uint64_t{device.count} * device.units : device.count;
  }
}

void Report::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                     const sched::Scheduler& core) {
  if (const auto* submit = std::get_if<sched::Submit>(&event)) {
    note(now, *submit);
  } else if (const auto* finished = std::get_if<sched::Finished>(&event)) {
    note(now, *finished);
  }
  for (const sched::Action& action : actions) {
    if (const auto* answer = std::get_if<sched::Answer>(&action)) {
      note(now, *answer);
    } else if (const auto* run = std::get_if<sched::Run>(&action)) {
      const Open* open = open_.find(run->request.value);
      if (open && !running_.find(run->run.value)) running_.add(run->run.value) = open->function;
    } else if (const auto* load = std::get_if<sched::Load>(&action)) {
      ++summary_.loads;
      summary_.loaded_bytes += load->bytes;
    } else if (const auto* fetch = std::get_if<sched::Fetch>(&action)) {
      ++summary_.fetches;
      summary_.fetched_bytes += fetch->bytes;
    } else if (std::holds_alternative<sched::StartExecutor>(action)) {
      ++summary_.executors_started;
    } else if (std::holds_alternative<sched::KillExecutor>(action)) {
      ++summary_.executors_killed;
    }
  }
  if (++steps_ % kStepsPerSample == 0) sample(core);
}

void Report::note(Time now, const sched::Submit& event) {
  // The ids of a function that was removed and came back: see World.
  const auto function = static_cast<uint32_t>((event.function.value - 1) % tenant_of_.size());
  const bool counts = now >= Time{skip_.ns};
  open_.add(event.request.value) = {now, function, counts};
  if (!counts) return;
  if (!first_call_) first_call_ = now;
  ++summary_.all.requests;
  ++summary_.functions[function].requests;
  ++summary_.tenants[tenant_of_[function]].requests;
}

void Report::note(Time now, const sched::Finished& event) {
  const uint32_t* function = running_.find(event.run.value);
  if (!function) return;
  // Of a run that began before what counts began, only what lies in it.
  const Duration used = std::min(event.device_time, now - Time{skip_.ns});
  if (used.ns > 0) {
    const auto add = [&](Measures& measures) { measures.device_time = measures.device_time + used; };
    add(summary_.all);
    add(summary_.functions[*function]);
    add(summary_.tenants[tenant_of_[*function]]);
  }
  running_.erase(event.run.value);
}

void Report::note(Time now, const sched::Answer& action) {
  const Open* open = open_.find(action.request.value);
  if (!open) return;
  if (open->counts) {
    last_answer_ = now;
    const bool is_done = action.end == sched::End::kDone;
    const Duration latency = now - open->submitted;
    const auto add = [&](Measures& measures) {
      ++measures.ends[static_cast<size_t>(action.end)];
      if (is_done) measures.latency.add(latency);
    };
    add(summary_.all);
    add(summary_.functions[open->function]);
    add(summary_.tenants[tenant_of_[open->function]]);
  }
  open_.erase(action.request.value);
}

void Report::sample(const sched::Scheduler& core) {
  const auto lag = core.lag();
  if (lag.lag > summary_.lag || summary_.lag_bound == 0) summary_.lag = lag.lag, summary_.lag_bound = lag.bound;
  add_counts(core.counts());
}

void Report::add_counts(const sched::Scheduler::Counts& counts) {
  summary_.hits += counts.hits - counted_.hits;
  summary_.misses += counts.misses - counted_.misses;
  summary_.prefetches += counts.prefetches - counted_.prefetches;
  summary_.evictions += counts.evictions - counted_.evictions;
  summary_.exits += counts.exits - counted_.exits;
  counted_ = counts;
}

void Report::on_restart(Time) {
  open_.each([&](const Open& open) {
    if (!open.counts) return;
    ++summary_.all.lost_in_restart;
    ++summary_.functions[open.function].lost_in_restart;
    ++summary_.tenants[tenant_of_[open.function]].lost_in_restart;
  });
  open_.clear();
  running_.clear();
  counted_ = {};
}

void Report::on_end(Time, bool, const sched::Scheduler& core) { sample(core); }

Summary Report::summary(std::string policy, World::Outcome outcome) const {
  Summary summary = summary_;
  summary.policy = std::move(policy);
  summary.outcome = std::move(outcome);
  for (const std::vector<Round>& rounds : summary.outcome.rounds) {
    Histogram& times = summary.rounds.emplace_back();
    for (const Round& round : rounds)
      if (round.began >= Time{0} + skip_) times.add(round.ended - round.began);
  }
  if (first_call_) summary.measured = std::max(last_answer_, *first_call_) - *first_call_;
  return summary;
}

}  // namespace quern::sim
