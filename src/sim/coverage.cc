// SPDX-License-Identifier: Apache-2.0
#include "sim/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sched/policy/table.h"
#include "sim/faults.h"

namespace quern::sim {

namespace {

constexpr const char* kEvents[] = {
    "device-up",  "device-memory", "device-down", "host-up",    "executor-up",   "executor-lost", "tenant-set",
    "submit",     "object-gone",   "cancel",      "keep",       "fetched",       "loaded",        "unloaded",
    "trimmed",    "started",       "flight",      "finished",   "function-gone", "launcher-up",   "launcher-gone",
    "work-ready", "gap-begun",     "device-used", "gaps-known", "tick"};
static_assert(std::size(kEvents) == std::variant_size_v<sched::Event>);
constexpr const char* kActions[] = {"start-executor", "kill-executor", "fetch",  "forget", "prepare",
                                    "load",           "unload",        "trim",   "run",    "grant",
                                    "stop-run",       "ask-flight",    "answer", "wake-at"};
static_assert(std::size(kActions) == std::variant_size_v<sched::Action>);
constexpr size_t kEnds = static_cast<size_t>(sched::End::kRemoved) + 1;
constexpr const char* kProgress[] = {"queued", "placed", "running"};
constexpr const char* kStates[] = {"promised", "loading", "resident", "leaving"};
constexpr const char* kKinds[] = {"object", "lane", "context"};
constexpr const char* kStages[] = {"nothing", "context", "host", "hot"};
constexpr const char* kGates[] = {"open", "urgent", "quota", "units", "until", "from", "beyond", "overdraws", "meters"};
constexpr const char* kQuotas[] = {"share", "no-home", "request", "limit", "units", "changed"};
constexpr const char* kLosses[] = {"loading", "leaving", "awaited", "no-room-load", "no-room-run"};
static_assert(std::size(kLosses) == static_cast<size_t>(Coverage::Loss::kNoRoomRun) + 1);
constexpr const char* kCounts[] = {"evictions", "exits", "prefetches", "hits", "misses"};
constexpr size_t kNewest = 16;

template <class Rows>
std::map<std::string, uint64_t> zeros_of(const Rows& rows) {
  std::map<std::string, uint64_t> zeros;
  for (const auto& row : rows) zeros[std::string(row.name)] = 0;
  return zeros;
}

}  // namespace

Coverage::Coverage()
    : events_(std::size(kEvents)),
      actions_(std::size(kActions)),
      ends_(kEnds),
      progress_(std::size(kProgress)),
      states_(std::size(kStates)),
      kinds_(std::size(kKinds)),
      host_states_(std::size(kStates)),
      stages_(std::size(kStages)),
      gates_(std::size(kGates)),
      quotas_(std::size(kQuotas)),
      losses_(std::size(kLosses)),
      counts_(std::size(kCounts)) {
  policies_ = {{"fairness", zeros_of(sched::fairnesses())}, {"placement", zeros_of(sched::placements())},
               {"eviction", zeros_of(sched::evictions())},  {"setup", zeros_of(sched::setups())},
               {"exit", zeros_of(sched::exits())},          {"dispatch", zeros_of(sched::dispatches())}};
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
  list("progress", kProgress, progress_);
  list("memory", kStates, states_);
  list("memory", kKinds, kinds_);
  list("host", kStates, host_states_);
  list("keep", kStages, stages_);
  list("gate", kGates, gates_);
  list("quota", kQuotas, quotas_);
  list("loss", kLosses, losses_);
  list("count", kCounts, counts_);
  for (const auto& [part, names] : policies_)
    for (const auto& [name, count] : names) rows.push_back({part, name, count});
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
  for (const Row& row : rows()) text += fmt::format("{:<9} {:<17} {:>12}\n", row.kind, row.name, row.count);
  return text;
}

void Coverage::count_step(const sched::Event& event, std::span<const sched::Action> actions) {
  ++events_[event.index()];
  if (const auto* keep = std::get_if<sched::Keep>(&event)) ++stages_[static_cast<size_t>(keep->stage)];
  for (const sched::Action& action : actions) {
    ++actions_[action.index()];
    if (const auto* answer = std::get_if<sched::Answer>(&action)) ++ends_[static_cast<size_t>(answer->end)];
    if (const auto* grant = std::get_if<sched::Grant>(&action)) {
      ++gates_[grant->open ? 0 : static_cast<size_t>(grant->why)];
      gates_[4] += grant->until != Time::never();
      gates_[5] += grant->from.ns > 0;
      gates_[6] += grant->beyond.ns > 0;
      gates_[7] += grant->overdraws;
      gates_[8] += grant->meters;
    }
  }
}

void Coverage::count(sched::Scheduler::Progress progress) { ++progress_[static_cast<size_t>(progress)]; }
void Coverage::count(Loss loss) { ++losses_[static_cast<size_t>(loss)]; }

void Coverage::count(const sched::Scheduler::Entry& entry) {
  const auto state = static_cast<size_t>(entry.state);
  if (entry.executor.value == 0) {
    ++host_states_[state];
  } else {
    ++states_[state];
    ++kinds_[static_cast<size_t>(entry.kind)];
  }
}

void Coverage::count(const sched::Scheduler::Share& share) {
  ++quotas_[share.device ? 0 : 1];
  quotas_[2] += share.quota.request > 0;
  quotas_[3] += share.quota.limit < 1000;
  quotas_[4] += share.quota.units < 1000;
}

void Coverage::count_change() { ++quotas_[5]; }

void Coverage::count(const sched::Scheduler::Counts& counts) {
  const std::array<uint64_t, std::size(kCounts)> more{counts.evictions, counts.exits, counts.prefetches, counts.hits,
                                                      counts.misses};
  for (size_t i = 0; i < more.size(); ++i) counts_[i] += more[i];
}

void Coverage::count(const sched::Policy& policy) {
  ++policies_["fairness"][policy.fairness];
  ++policies_["placement"][policy.placement];
  ++policies_["eviction"][policy.eviction];
  ++policies_["setup"][policy.setup];
  ++policies_["exit"][policy.exit];
  ++policies_["dispatch"][policy.dispatch];
}

void Coverage::count(const FaultCounts& faults) {
  for (const auto& [name, count] : faults) faults_[name] += count;
}

void Coverage::count(const Checker& checker) {
  for (auto& [name, count] : checkers_)
    if (name == checker.name()) count += checker.evaluations();
}

void CoverageObserver::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                               const sched::Scheduler& core) {
  coverage_.count_step(event, actions);
  count_losses(event);
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) shadow_.carry_out(now, action);
  if (const auto* submit = std::get_if<sched::Submit>(&event)) {
    if (newest_.size() < kNewest) newest_.resize(kNewest);
    newest_[submitted_++ % kNewest] = submit->request;
    const auto [known, is_new] = quotas_.try_emplace(submit->function, submit->quota);
    if (!is_new && std::exchange(known->second, submit->quota) != submit->quota) coverage_.count_change();
    if (submitted_ % kNewest == 0)
      for (const auto& share : core.shares()) coverage_.count(share);
  }
  // A sample is enough: the newest requests, and the memory where something was just asked for.
  for (const sched::RequestId request : newest_)
    if (const auto progress = core.progress(request)) coverage_.count(*progress);
  for (const sched::Action& action : actions) {
    sched::ExecutorId concerns;
    if (const auto* load = std::get_if<sched::Load>(&action)) concerns = load->executor;
    if (const auto* unload = std::get_if<sched::Unload>(&action)) concerns = unload->executor;
    if (const auto* trim = std::get_if<sched::Trim>(&action)) concerns = trim->executor;
    const Shadow::Executor* executor = shadow_.find(concerns);
    if (!executor) continue;
    if (const auto books = core.books(executor->device))
      for (const auto& entry : books->entries) coverage_.count(entry);
    if (const auto host = core.host_books())
      for (const auto& entry : host->entries) coverage_.count(entry);
  }
}

void CoverageObserver::on_end(Time, bool, const sched::Scheduler& core) { coverage_.count(core.counts()); }

void CoverageObserver::count_losses(const sched::Event& event) {
  using Loss = Coverage::Loss;
  if (const auto* loaded = std::get_if<sched::Loaded>(&event); loaded && loaded->no_room)
    coverage_.count(Loss::kNoRoomLoad);
  if (const auto* finished = std::get_if<sched::Finished>(&event); finished && finished->no_room)
    coverage_.count(Loss::kNoRoomRun);
  const auto* lost = std::get_if<sched::ExecutorLost>(&event);
  const auto* down = std::get_if<sched::DeviceDown>(&event);
  if (!lost && !down) return;
  const auto is_lost = [&](sched::ExecutorId id) {
    return lost ? id == lost->executor : shadow_.find(id)->device == down->device;
  };
  for (const auto& [key, object] : shadow_.objects()) {
    if (!is_lost(key.first)) continue;
    if (object.state == Shadow::State::kLeaving) coverage_.count(Loss::kLeaving);
    if (object.state != Shadow::State::kLoading) continue;
    coverage_.count(Loss::kLoading);
    const auto waits = std::count_if(shadow_.runs().begin(), shadow_.runs().end(), [&](const auto& entry) {
      return entry.second.executor == key.first && Shadow::needs(*entry.second.submit, key.second);
    });
    if (waits > 1) coverage_.count(Loss::kAwaited);
  }
  for (const auto& [key, lane] : shadow_.lanes())
    if (lane.is_leaving && is_lost(key.first)) coverage_.count(Loss::kLeaving);
}

}  // namespace quern::sim
