// SPDX-License-Identifier: Apache-2.0
#include "sim/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/faults.h"

namespace quern::sim {

namespace {

constexpr const char* kEvents[] = {"device-up",  "device-memory", "device-down",   "executor-up", "executor-lost",
                                   "tenant-set", "submit",        "cancel",        "loaded",      "unloaded",
                                   "started",    "finished",      "function-gone", "tick"};
static_assert(std::size(kEvents) == std::variant_size_v<sched::Event>);
constexpr const char* kActions[] = {"start-executor", "kill-executor", "load",   "unload", "run",
                                    "stop-run",       "answer",        "wake-at"};
static_assert(std::size(kActions) == std::variant_size_v<sched::Action>);
constexpr size_t kEnds = static_cast<size_t>(sched::End::kRemoved) + 1;
constexpr const char* kStages[] = {"queued", "placed", "running"};
constexpr const char* kStates[] = {"promised", "loading", "resident", "leaving"};
constexpr size_t kNewest = 16;

}  // namespace

Coverage::Coverage()
    : events_(std::size(kEvents)),
      actions_(std::size(kActions)),
      ends_(kEnds),
      stages_(std::size(kStages)),
      states_(std::size(kStates)) {
  for (const FaultRow& row : fault_rows()) faults_[std::string(row.name)] = 0;
  for (const auto& checker : make_checkers({})) checkers_.emplace_back(checker->name(), 0);
}

std::vector<Coverage::Row> Coverage::rows() const {
  std::vector<Row> rows;
  const auto list = [&](const char* kind, const auto& names, const std::vector<uint64_t>& counts) {
    for (size_t i = 0; i < counts.size(); ++i) rows.push_back({kind, names[i], counts[i]});
  };
  std::vector<std::string> ends;
  for (size_t i = 0; i < kEnds; ++i) ends.emplace_back(sched::name_of(static_cast<sched::End>(i)));
  list("event", kEvents, events_);
  list("action", kActions, actions_);
  list("end", ends, ends_);
  list("stage", kStages, stages_);
  list("memory", kStates, states_);
  for (const auto& [name, count] : faults_) rows.push_back({"fault", name, count});
  for (const auto& [name, count] : checkers_) rows.push_back({"checker", name, count});
  return rows;
}

std::vector<std::string> Coverage::missing() const {
  std::vector<std::string> names;
  for (const Row& row : rows())
    if (row.count == 0) names.push_back(row.kind + " " + row.name);
  return names;
}

std::string Coverage::to_text() const {
  std::string text;
  for (const Row& row : rows()) text += fmt::format("{:<8} {:<17} {:>12}\n", row.kind, row.name, row.count);
  return text;
}

void Coverage::count_step(const sched::Event& event, std::span<const sched::Action> actions) {
  ++events_[event.index()];
  for (const sched::Action& action : actions) {
    ++actions_[action.index()];
    if (const auto* answer = std::get_if<sched::Answer>(&action)) ++ends_[static_cast<size_t>(answer->end)];
  }
}

void Coverage::count(sched::Scheduler::Stage stage) { ++stages_[static_cast<size_t>(stage)]; }
void Coverage::count(sched::Scheduler::Entry::State state) { ++states_[static_cast<size_t>(state)]; }

void Coverage::count(const FaultCounts& faults) {
  for (const auto& [name, count] : faults) faults_[name] += count;
}

void Coverage::count(const Checker& checker) {
  for (auto& [name, count] : checkers_)
    if (name == checker.name()) count += checker.evaluations();
}

void CoverageObserver::on_step(Time, const sched::Event& event, std::span<const sched::Action> actions,
                               const sched::Scheduler& core) {
  coverage_.count_step(event, actions);
  if (const auto* submit = std::get_if<sched::Submit>(&event)) {
    if (newest_.size() < kNewest) newest_.resize(kNewest);
    newest_[submitted_++ % kNewest] = submit->request;
  }
  // A sample is enough: the newest requests, and the memory where something was just asked for.
  for (const sched::RequestId request : newest_)
    if (const auto stage = core.stage(request)) coverage_.count(*stage);
  for (const sched::Action& action : actions) {
    sched::ExecutorId concerns;
    if (const auto* start = std::get_if<sched::StartExecutor>(&action)) executors_[start->executor] = start->device;
    if (const auto* load = std::get_if<sched::Load>(&action)) concerns = load->executor;
    if (const auto* unload = std::get_if<sched::Unload>(&action)) concerns = unload->executor;
    const auto executor = executors_.find(concerns);
    if (executor == executors_.end()) continue;
    if (const auto books = core.books(executor->second))
      for (const auto& entry : books->entries) coverage_.count(entry.state);
  }
}

}  // namespace quern::sim
