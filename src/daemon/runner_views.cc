// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "daemon/runner.h"
#include "os/clock.h"

namespace quern::daemon {
namespace {

using sched::Scheduler;

std::string_view name_of(Scheduler::Entry::State state) {
  switch (state) {
    case Scheduler::Entry::State::kPromised:
      return "promised";
    case Scheduler::Entry::State::kLoading:
      return "loading";
    case Scheduler::Entry::State::kResident:
      return "resident";
    case Scheduler::Entry::State::kLeaving:
      break;
  }
  return "leaving";
}

std::string why(const Scheduler::Entry& entry, Time now) {
  using State = Scheduler::Entry::State;
  if (entry.state == State::kPromised) return "a run waits for it";
  if (entry.state == State::kLeaving) return "its room is needed, or its time is over";
  if (entry.pins > 0) return fmt::format("{} {} it", entry.pins, entry.pins == 1 ? "run needs" : "runs need");
  const auto show = [](Duration time) { return show_time(static_cast<double>(std::max<int64_t>(0, time.ns))); };
  const std::string used = fmt::format("used {} ago", show(now - entry.used));
  const Duration left = entry.until == Time::never() ? Duration::forever() : entry.until - now;
  const std::string leaves = left > Duration::seconds(365LL * 86400) ? "" : fmt::format(" for {} more", show(left));
  if (entry.kept) return fmt::format("is kept{}", leaves);
  if (entry.state == State::kLoading) return "brought ahead of a run";
  return leaves.empty() ? used + ", stays until its room is needed" : used + ", stays" + leaves;
}

}  // namespace

MemoryItem Runner::item_of(const Scheduler::Entry& entry, Time now) const {
  MemoryItem item;
  switch (entry.kind) {
    case Scheduler::Entry::Kind::kObject: {
      item.kind = "object";
      const auto hosted = hosted_.find(entry.object.value);
      if (const auto passing = passing_names_.find(entry.object.value); passing != passing_names_.end()) {
        item.kind = "tensor";
        item.name = passing->second;
        break;
      }
      item.name = hosted != hosted_.end() && hosted->second.object ? hosted->second.object->hash.substr(0, 12)
                                                                   : fmt::format("#{}", entry.object.value);
      break;
    }
    case Scheduler::Entry::Kind::kLane:
      item.kind = "lane";
      item.name = fmt::format("lane {}", entry.lane);
      break;
    case Scheduler::Entry::Kind::kContext:
      item.kind = "context";
      item.name = "context";
      break;
  }
  item.bytes = entry.bytes;
  item.state = name_of(entry.state);
  item.pins = entry.pins;
  item.since = now - entry.since;
  item.why = why(entry, now);
  if (const auto name = function_names_.find(entry.function.value); name != function_names_.end()) {
    item.function = name->second.name;
    item.tenant = name->second.tenant;
  }
  return item;
}

std::vector<MemoryPlace> Runner::memory(const Tenant& tenant) const {
  const Time now = os::now();
  std::vector<MemoryPlace> places;
  const auto add = [&](const Scheduler::Books& books, std::string name, bool is_host) {
    MemoryPlace& place = places.emplace_back();
    place.name = std::move(name);
    place.is_host = is_host;
    place.memory_bytes = books.memory_bytes;
    place.held_bytes = books.held_bytes;
    place.promised_bytes = books.promised_bytes;
    place.leaving_bytes = books.leaving_bytes;
    for (const Scheduler::Entry& entry : books.entries) {
      if (entry.pins > 0 && entry.state != Scheduler::Entry::State::kPromised) place.pinned_bytes += entry.bytes;
      MemoryItem item = item_of(entry, now);
      if (item.tenant == tenant.name)
        place.items.push_back(std::move(item));
      else if (entry.state != Scheduler::Entry::State::kPromised)
        place.others_bytes += entry.bytes;
    }
  };
  for (const auto& device : devices_)
    if (const auto books = core_.books({device->id})) {
      add(*books, device->config.name, false);
      for (const auto& [key, executor] : executors_)
        if (!executor.id && executor.device == device->id && !executor.killed_by_us) ++places.back().blanks;
      places.back().blank_bytes = places.back().blanks * device->config.context_bytes;
    }
  if (const auto books = core_.host_books()) add(*books, "host", true);
  return places;
}

Result<Story> Runner::story(const Tenant& tenant, const std::string& request) {
  Story story;
  if (const RequestList::Ended* ended = requests_.find_ended(tenant, request)) {
    story.times = ended->times;
    story.account = ended->account;
    story.setup = ended->setup;
  }
  for (RequestStatus& one : list_requests(tenant))
    if (one.id == request) story.status = std::move(one);
  if (story.status.id.empty())
    return not_found(fmt::format("request {}: is not known; only the latest {} that ended are remembered", request,
                                 RequestList::kMostEnded));
  if (story.status.state != "ended") {
    for (const auto& [id, call] : calls_) {
      if (call->id != request) continue;
      story.times = call->times;
      story.account = call->account;
      story.times.waits = waits_of(*call, os::now());
      for (const auto& [run_id, run] : runs_)
        if (run.request == id) {
          story.times.pushed = run.pushed_at;
          story.times.whole = run.waits.whole;
          if (call->times.placed.ns != 0) story.setup = setup_of(*call, run);
        }
    }
  }
  story.sentences = tell(story, os::now());
  return story;
}

// What was brought since the call came: it had to wait for it, whoever asked for it first.
std::vector<Phase> Runner::setup_of(const LiveCall& call, const LiveRun& run) const {
  std::vector<Phase> phases;
  const auto on = executors_.find(run.executor);
  if (on == executors_.end()) return phases;
  const Time came = call.times.submitted;
  const auto ends_later = [&](const Span& span) { return span.from.ns != 0 && (span.to.ns == 0 || span.to > came); };
  const auto end_of = [&](const Span& span) { return span.to.ns != 0 ? span.to : os::now(); };
  const Executor& executor = on->second;
  if (ends_later(executor.start))
    phases.push_back({"executor", executor.start.from, end_of(executor.start),
                      executor.was_blank ? "a blank one was there" : "a new process"});
  for (size_t i = 0; run.binary && i < run.binary->programs.size(); ++i)
    if (auto span = executor.process->program_span(run.binary->programs[i].object->hash); span && ends_later(*span)) {
      // It is sent before the executor is there, which takes it in afterwards.
      span->from = std::max(span->from, std::min(executor.start.to, end_of(*span)));
      phases.push_back({"program", span->from, end_of(*span), call.function->manifest.program_names[i]});
    }
  struct Sum {
    Span span;
    uint64_t objects = 0, bytes = 0;
  } fetched, loaded, passed;
  const auto add = [&](Sum& sum, const Span& span, uint64_t bytes) {
    if (!ends_later(span)) return;
    if (sum.objects++ == 0 || span.from < sum.span.from) sum.span.from = span.from;
    sum.span.to = std::max(sum.span.to, end_of(span));
    sum.bytes += bytes;
  };
  for (const sched::ObjectNeed& need : call.function->objects) {
    if (const auto hosted = hosted_.find(need.object.value); hosted != hosted_.end())
      add(fetched, hosted->second.span, need.bytes);
    if (const auto span = executor.process->object_span(need.object.value)) add(loaded, *span, need.bytes);
  }
  for (const sched::ObjectNeed& need : call.passing)
    if (const auto span = executor.process->object_span(need.object.value)) add(passed, *span, need.bytes);
  const auto tell_of = [&](const char* name, const char* what, const Sum& sum) {
    if (sum.objects > 0)
      phases.push_back(
          {name, sum.span.from, sum.span.to,
           fmt::format("{} {}{}, {}", sum.objects, what, sum.objects == 1 ? "" : "s", show_bytes(sum.bytes))});
  };
  tell_of("fetch", "constant", fetched);
  tell_of("load", "constant", loaded);
  tell_of("input", "tensor", passed);
  std::stable_sort(phases.begin(), phases.end(), [](const Phase& a, const Phase& b) { return a.from < b.from; });
  return phases;
}

}  // namespace quern::daemon
