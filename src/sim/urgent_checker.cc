// SPDX-License-Identifier: Apache-2.0
#include "sim/urgent_checker.h"

#include <algorithm>
#include <set>

#include "sched/policy/table.h"

namespace quern::sim {

using Progress = sched::Scheduler::Progress;

namespace {

constexpr int kMostLooked = 4;  // of many devices the core looks at a few for who comes

bool applies_to(const sched::Config& config) {
  const auto fairness = sched::make_fairness(config.policy.fairness);
  const auto setup = sched::make_setup(config.policy.setup);
  return fairness && fairness->has_levels() && setup && setup->share != sched::Setup::Share::kNobody &&
         config.policy.placement != "exclusive";
}

}  // namespace

UrgentChecker::UrgentChecker(const sched::Config& config)
    : Checker("urgent"), config_(config), applies_(applies_to(config)), shadow_(config.granularity_bytes) {}

void UrgentChecker::on_restart(Time) {
  shadow_.restart();
  prepared_.clear();
}

void UrgentChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                            const sched::Scheduler& core) {
  if (!applies_) return;
  shadow_.happened(now, event);
  std::vector<sched::RunId> came;
  for (const sched::Action& action : actions) {
    shadow_.carry_out(now, action);
    if (const auto* answer = std::get_if<sched::Answer>(&action)) prepared_.erase(answer->request);
    if (const auto* prepare = std::get_if<sched::Prepare>(&action)) {
      Prepared& prepared = prepared_[prepare->request];
      prepared = {prepare->run, prepare->executor, prepared.times + 1};
      came.push_back(prepare->run);
    } else if (const auto* run = std::get_if<sched::Run>(&action)) {
      const auto prepared = prepared_.find(run->request);
      if (prepared == prepared_.end() || prepared->second.run != run->run) came.push_back(run->run);
    }
  }
  if (came.empty() && core.counts().queued == 0) return;
  const auto there = placed(core);
  for (const sched::RunId run : came)
    for (const auto& [device, runs] : there)
      if (runs.contains(run)) check_spares(now, run, runs);
  check_waiting(now, core, there);
}

std::map<sched::DeviceId, UrgentChecker::OnDevice> UrgentChecker::placed(const sched::Scheduler& core) const {
  std::map<sched::DeviceId, OnDevice> there;
  for (const auto& [id, run] : shadow_.runs()) there[run.device][id] = {run.executor, run.submit->domain, run.level};
  for (const auto& [request_id, prepare] : prepared_) {
    const Shadow::Request* request = shadow_.find(request_id);
    const Shadow::Executor* executor = shadow_.find(prepare.executor);
    if (!request || shadow_.run_of(*request) || core.progress(request_id) != Progress::kPlaced) continue;
    const auto& submit = *request->submit;
    const sched::LevelNo level =
        submit.quota == sched::Quota{} ? sched::level_of(request->level) : sched::level_of(request->level, 0);
    // An executor that waits for room to start is known to nobody but the core: where it will be is not said.
    if (executor) there[executor->device][prepare.run] = {prepare.executor, submit.domain, level};
  }
  return there;
}

// Whoever came before it was there, and so was what came in this step with a lower number.
void UrgentChecker::check_spares(Time now, sched::RunId came, const OnDevice& there) {
  const Placed& run = there.at(came);
  const auto priority = sched::priority_of(run.level);
  uint32_t of_executor = 0;
  bool has_own = sched::is_own(run.level), is_first_of_executor = true, is_first_level = true;
  std::set<sched::LevelNo> levels;
  for (const auto& [id, other] : there) {
    if (id >= came) break;
    if (!sched::is_own(other.level)) {
      levels.insert(other.level);
      is_first_level &= priority < sched::priority_of(other.level);
    }
    if (other.executor != run.executor) continue;
    ++of_executor;
    has_own |= sched::is_own(other.level);
    is_first_of_executor &= priority < sched::priority_of(other.level);
  }
  // Those with quotas leave lanes to others, and have a count of their own.
  if (!has_own)
    expect(of_executor < config_.lanes || is_first_of_executor, now,
           "run{} of priority {} has a spare lane of e{} beside {} that are no less urgent", came.value, priority,
           run.executor.value, of_executor);
  if (!sched::is_own(run.level) && !levels.contains(run.level))
    expect(levels.size() < config_.levels_in_flight || is_first_level, now,
           "run{} of priority {} has a spare level beside {} that are no less urgent", came.value, priority,
           levels.size());
}

void UrgentChecker::check_waiting(Time now, const sched::Scheduler& core,
                                  const std::map<sched::DeviceId, OnDevice>& there) {
  const Shadow::Request* first = nullptr;
  sched::RequestId first_id;
  for (const auto& [id, request] : shadow_.requests()) {
    const auto progress = core.progress(id);
    // Who runs again has the device for itself; of who has a slot in an executor that has not begun to start it is not
    // known where.
    if (progress == Progress::kPlaced && !shadow_.run_of(request)) {
      const auto prepared = prepared_.find(id);
      if (prepared == prepared_.end() || !shadow_.find(prepared->second.executor)) return;
    }
    if (progress != Progress::kQueued) continue;
    if (request.attempts > 0 || prepared_.contains(id)) return;
    if (first && request.level > first->level) continue;
    if (first && request.level == first->level) return;
    first = &request;
    first_id = id;
  }
  if (!first || first->submit->quota != sched::Quota{}) return;
  const auto up = std::count_if(shadow_.devices().begin(), shadow_.devices().end(),
                                [](const auto& entry) { return entry.second.is_up; });
  if (up > kMostLooked) return;
  for (const auto& standing : core.standings()) {
    const auto tenant = shadow_.tenants().find(standing.tenant);
    if (standing.tenant != first->submit->tenant || tenant == shadow_.tenants().end()) continue;
    const sched::Limits& limits = tenant->second.limits;
    if (limits.in_flight > 0 || limits.memory_bytes > 0) return;
  }
  for (const auto& [id, device] : shadow_.devices()) {
    const auto runs = there.find(id);
    if (!device.is_up || runs == there.end()) continue;
    expect(!could_begin(now, *first, id, device, runs->second, core), now,
           "r{} of priority {} waits, and d{} has a lane and a level for who is more urgent than all {} there",
           first_id.value, first->level, id.value, runs->second.size());
  }
}

bool UrgentChecker::could_begin(Time now, const Shadow::Request& request, sched::DeviceId id,
                                const Shadow::Device& device, const OnDevice& there,
                                const sched::Scheduler& core) const {
  uint32_t of_domain = 0;
  std::set<sched::LevelNo> levels;
  for (const auto& [run_id, run] : there) {
    if (sched::priority_of(run.level) <= request.level) return false;
    if (!sched::is_own(run.level)) levels.insert(run.level);
    of_domain += run.domain == request.submit->domain;
    const Shadow::Run* sent = shadow_.find(run_id);
    if (!sent) continue;
    if (sent->attempt > 1 || sent->stopped != Time::never()) return false;
    // It may have been announced for somewhere else before, and wants its device for itself then.
    const auto before = prepared_.find(sent->submit->request);
    if (before != prepared_.end() && before->second.run != run_id) return false;
  }
  for (const auto& [request_id, prepared] : prepared_) {
    const Shadow::Request* other = shadow_.find(request_id);
    const bool is_again = prepared.times > 1 || (other && other->attempts > 0 && !shadow_.run_of(*other));
    if (is_again && there.contains(prepared.run)) return false;
  }
  if (of_domain >= config_.all_lanes() || levels.size() >= config_.levels_in_flight + config_.spare_levels)
    return false;
  if (device.is_doubted(now, config_.room_back) || device.is_claimed(request.submit->domain, now, config_.room_back))
    return false;
  const auto books = core.books(id);
  if (!books) return false;
  // All that is there and pinned, or on its way out of a process, and a lane that may be larger than it needs.
  uint64_t taken = books->promised_bytes + 2 * device.context_bytes + shadow_.bytes_of(*request.submit);
  using Entry = sched::Scheduler::Entry;
  for (const Entry& entry : books->entries) {
    const bool may_leave =
        entry.kind == Entry::Kind::kObject && entry.pins == 0 && entry.state >= Entry::State::kResident;
    taken += may_leave ? 0 : entry.bytes;
  }
  return taken <= books->memory_bytes;
}

}  // namespace quern::sim
