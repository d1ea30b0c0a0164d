// SPDX-License-Identifier: Apache-2.0
#include "sim/limits_checker.h"

#include <algorithm>
#include <set>

#include "sched/policy/table.h"

namespace quern::sim {

using sched::End;

namespace {

bool has_levels(const sched::Config& config) {
  const auto fairness = sched::make_fairness(config.policy.fairness);
  return fairness && fairness->has_levels();
}

// The core asks no more often than this for a run that is not at the front of its device.
constexpr Duration kLeastWait = Duration::millis(1);

std::string show(sched::LevelNo level) {
  return sched::is_own(level) ? fmt::format("{}.{}", sched::priority_of(level), level & 255)
                              : fmt::format("{}", sched::priority_of(level));
}

bool shares_nothing(const sched::Config& config) {
  const auto setup = sched::make_setup(config.policy.setup);
  return setup && setup->share == sched::Setup::Share::kNobody;
}

}  // namespace

LimitsChecker::LimitsChecker(const sched::Config& config)
    : Checker("limits"),
      config_(config),
      has_levels_(has_levels(config)),
      shares_nothing_(shares_nothing(config)),
      shadow_(config.granularity_bytes) {}

void LimitsChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                            const sched::Scheduler& core) {
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) {
    if (const auto* prepare = std::get_if<sched::Prepare>(&action)) check(now, *prepare);
    if (const auto* run = std::get_if<sched::Run>(&action)) check(now, *run);
    if (const auto* stop = std::get_if<sched::StopRun>(&action)) check(now, *stop);
    shadow_.carry_out(now, action);
  }
  check_times(now);
  if (const auto* submit = std::get_if<sched::Submit>(&event)) check_door(now, *submit, actions, core);

  const auto standings = core.standings();
  compare(now, standings);
  if (++steps_ % kAllEvery == 0) check_all(now, core, standings);
  queued_ = core.counts().queued;
  for (const auto& standing : standings) queued_of_tenant_[standing.tenant] = standing.queued;
}

void LimitsChecker::on_restart(Time) {
  shadow_.restart();
  prepared_.clear();
  queued_ = 0;
  queued_of_tenant_.clear();
}

sched::Limits LimitsChecker::limits_of(sched::TenantId tenant) const {
  const auto found = shadow_.tenants().find(tenant);
  return found == shadow_.tenants().end() ? sched::Limits{} : found->second.limits;
}

uint64_t LimitsChecker::most_queued_of(sched::TenantId tenant) const {
  const uint32_t own = limits_of(tenant).queued;
  return own > 0 ? own : config_.most_queued_per_tenant;
}

uint64_t LimitsChecker::queued_of(sched::FunctionId function, const sched::Scheduler& core) const {
  uint64_t queued = 0;
  for (const auto& [id, request] : shadow_.requests())
    queued += request.submit->function == function && core.progress(id) == Progress::kQueued;
  return queued;
}

void LimitsChecker::check(Time now, const sched::Prepare& action) {
  const Shadow::Request* request = shadow_.find(action.request);
  expect(request && !shadow_.run_of(*request), now, "run{} is announced for r{}, which does not wait for one",
         action.run.value, action.request.value);
  expect(!shadow_.find(action.run), now, "run{} is announced and was sent", action.run.value);
  expect(prepared_.emplace(action.run, action).second, now, "run{} is announced twice", action.run.value);
}

void LimitsChecker::check(Time now, const sched::Run& action) {
  if (const auto prepared = prepared_.extract(action.run))
    expect(prepared.mapped().request == action.request && prepared.mapped().executor == action.executor, now,
           "run{} is of r{} on e{}; it was announced of r{} on e{}", action.run.value, action.request.value,
           action.executor.value, prepared.mapped().request.value, prepared.mapped().executor.value);
  const Shadow::Executor* executor = shadow_.find(action.executor);
  const Shadow::Request* request = shadow_.find(action.request);
  expect(request != nullptr, now, "run{} is of r{}, which does not wait", action.run.value, action.request.value);
  if (!executor || !request) return;
  expect(!shadow_.find(action.run), now, "run{} is sent twice", action.run.value);
  expect(!shadow_.run_of(*request), now, "r{} has two runs", action.request.value);
  expect(request->submit->deadline > now, now, "run{} is sent past the deadline of r{}", action.run.value,
         action.request.value);
  expect(request->attempts < config_.most_attempts, now, "r{} runs for the {}th time, {} are allowed",
         action.request.value, request->attempts + 1, config_.most_attempts);
  expect(action.lane < config_.all_lanes(), now, "run{} is sent to lane {} of {}", action.run.value, action.lane,
         config_.all_lanes());
  const uint8_t priority = has_levels_ ? request->level : uint8_t{0};
  const bool has_quota = has_levels_ && request->submit->quota != sched::Quota{};
  expect(sched::priority_of(action.level) == priority && sched::is_own(action.level) == has_quota, now,
         "run{} is sent at level {}; r{} is of priority {} and has {}", action.run.value, show(action.level),
         action.request.value, priority, has_quota ? "a quota" : "no quota");
  check_beside(now, action, *executor, *request);

  // Its tenant. Runs that have a slot and were not sent yet come on top, and are seen in compare().
  const sched::Limits limits = limits_of(request->submit->tenant);
  Use use{.runs = 1, .bytes = shadow_.bytes_of(*request->submit)};
  for (const auto& [id, run] : shadow_.runs()) {
    if (run.submit->tenant != request->submit->tenant) continue;
    ++use.runs;
    use.bytes += shadow_.bytes_of(*run.submit);
  }
  expect(limits.in_flight == 0 || use.runs <= limits.in_flight, now, "t{} has {} in flight, {} are allowed",
         request->submit->tenant.value, use.runs, limits.in_flight);
  expect(limits.memory_bytes == 0 || use.bytes <= limits.memory_bytes, now, "t{} has {} bytes in flight of {}",
         request->submit->tenant.value, use.bytes, limits.memory_bytes);
}

void LimitsChecker::check_beside(Time now, const sched::Run& action, const Shadow::Executor& executor,
                                 const Shadow::Request& request) {
  uint32_t of_level = 1, of_executor = 1;
  std::set<sched::LevelNo> levels;
  if (!sched::is_own(action.level)) levels.insert(action.level);
  for (const auto& [id, run] : shadow_.runs()) {
    if (run.device != executor.device) continue;
    if (!sched::is_own(run.level)) levels.insert(run.level);
    expect(run.attempt == 1 && request.attempts == 0 && !shares_nothing_, now,
           "run{} beside run{}: one of them is to run alone", action.run.value, id.value);
    const bool is_same = run.executor == action.executor;
    if (run.level == action.level) {
      ++of_level;
      expect(is_same, now, "run{} on e{} beside run{} on e{}: two executors at level {} of d{}", action.run.value,
             action.executor.value, id.value, run.executor.value, show(run.level), run.device.value);
    }
    if (!is_same) continue;
    ++of_executor;
    expect(run.lane != action.lane, now, "run{} is sent to lane {}, where run{} is", action.run.value, action.lane,
           id.value);
    expect(run.stopped >= request.since, now, "run{} is put beside run{}, which was told to stop", action.run.value,
           id.value);
  }
  expect(of_level <= config_.runs_in_flight, now, "run{} is the {}th at level {} of d{}, {} are allowed",
         action.run.value, of_level, show(action.level), executor.device.value, config_.runs_in_flight);
  expect(of_executor <= config_.all_lanes(), now, "run{} is the {}th of e{}, {} are allowed", action.run.value,
         of_executor, action.executor.value, config_.all_lanes());
  const uint32_t most_levels = config_.levels_in_flight + config_.spare_levels;
  expect(levels.size() <= 1 || levels.size() <= most_levels, now, "run{} makes {} levels on d{}, {} are allowed",
         action.run.value, levels.size(), executor.device.value, most_levels);
}

// Before the shadow takes it in. Its time on the device is at most that of its launches that ended, and that since the
// oldest of the others was made.
void LimitsChecker::check(Time now, const sched::StopRun& action) {
  const Shadow::Run* run = shadow_.find(action.run);
  if (!run || !shadow_.find(run->submit->request)) return;  // its caller is gone
  const auto& launch = run->in_flight;
  Duration most = launch ? launch->used : Duration{0};
  if (launch && launch->number != 0) most = most + (now - launch->since);
  expect(now >= run->submit->deadline || most >= run->submit->device_time, now,
         "run{} is told to stop, and has not had its {}ns on the device", action.run.value,
         run->submit->device_time.ns);
}

void LimitsChecker::check_times(Time now) {
  for (const auto& [id, run] : shadow_.runs()) {
    if (shadow_.find(run.executor)->is_killed || run.stopped != Time::never()) continue;
    if (run.submit->device_time == Duration::forever() || run.started == Time::never()) continue;
    const Time since = std::max(run.started, shadow_.find(run.device)->last_flight);
    const Time limit = since + run.submit->device_time;
    if (limit >= run.submit->deadline) continue;  // that comes first, and is looked at elsewhere
    expect(now <= limit + kLeastWait, now,
           "run{} may have had its {}ns since {}ns, and nobody asked whether it is on the device", id.value,
           run.submit->device_time.ns, since.ns);
  }
}

void LimitsChecker::check_door(Time now, const sched::Submit& submit, std::span<const sched::Action> actions,
                               const sched::Scheduler& core) {
  std::optional<End> end;
  for (const sched::Action& action : actions)
    if (const auto* answer = std::get_if<sched::Answer>(&action); answer && answer->request == submit.request)
      end = answer->end;
  const uint64_t bytes = shadow_.bytes_of(submit), most = most_queued_of(submit.tenant);
  const uint64_t most_bytes = limits_of(submit.tenant).memory_bytes;
  const bool is_over = most_bytes > 0 && bytes > most_bytes;
  const auto found = queued_of_tenant_.find(submit.tenant);
  const uint64_t queued = found == queued_of_tenant_.end() ? 0 : found->second;
  const bool is_full = queued_ >= config_.most_queued || queued >= most;
  // Of its function only the number after the step is known: itself is one of them, if it was accepted.
  const uint64_t of_function = queued_of(submit.function, core);

  expect(end || !is_over, now, "r{} is accepted with {} bytes; t{} may use {}", submit.request.value, bytes,
         submit.tenant.value, most_bytes);
  expect(end != End::kOverLimit || is_over, now, "r{} is over-limit with {} bytes; t{} may use {}",
         submit.request.value, bytes, submit.tenant.value, most_bytes);
  expect(end || !is_full, now, "r{} is accepted; {} wait of {}, and {} of t{}, which may have {}", submit.request.value,
         queued_, config_.most_queued, queued, submit.tenant.value, most);
  expect(end || of_function <= config_.most_queued_per_function, now, "r{} is accepted; {} wait for f{} of {}",
         submit.request.value, of_function, submit.function.value, config_.most_queued_per_function);
  // While this step was under way, some that waited may have got a slot or passed their deadline.
  if (end == End::kQueueFull && !is_full) {
    const uint64_t left = queued_ - std::min(queued_, core.counts().queued);
    expect(of_function + left >= config_.most_queued_per_function, now,
           "r{} is refused; {} wait of {}, {} of t{}, {} for f{}", submit.request.value, queued_, config_.most_queued,
           queued, submit.tenant.value, of_function, submit.function.value);
  }
}

void LimitsChecker::compare(Time now, const std::vector<sched::Scheduler::Standing>& standings) {
  std::map<sched::TenantId, Use> sent;
  for (const auto& [id, run] : shadow_.runs()) {
    Use& use = sent[run.submit->tenant];
    ++use.runs;
    use.bytes += shadow_.bytes_of(*run.submit);
  }
  for (const auto& standing : standings) {
    const sched::Limits limits = limits_of(standing.tenant);
    expect(limits.in_flight == 0 || standing.in_flight <= limits.in_flight, now, "t{} has {} in flight, {} are allowed",
           standing.tenant.value, standing.in_flight, limits.in_flight);
    expect(limits.memory_bytes == 0 || standing.in_flight_bytes <= limits.memory_bytes, now,
           "t{} has {} bytes in flight of {}", standing.tenant.value, standing.in_flight_bytes, limits.memory_bytes);
    const Use use = sent[standing.tenant];
    expect(standing.in_flight >= use.runs && standing.in_flight_bytes >= use.bytes, now,
           "t{} has {} runs with {} bytes, the core says {} with {}", standing.tenant.value, use.runs, use.bytes,
           standing.in_flight, standing.in_flight_bytes);
    sent.erase(standing.tenant);
  }
  expect(sent.empty(), now, "t{} has runs, and the core does not know it",
         sent.empty() ? 0 : sent.begin()->first.value);
}

void LimitsChecker::check_all(Time now, const sched::Scheduler& core,
                              const std::vector<sched::Scheduler::Standing>& standings) {
  std::map<sched::TenantId, Use> in_flight;
  std::map<sched::TenantId, uint64_t> queued;
  uint64_t slots = 0, waiting = 0;
  const auto take = [&](const sched::Submit& submit) {
    Use& use = in_flight[submit.tenant];
    ++use.runs, ++slots;
    use.bytes += shadow_.bytes_of(submit);
  };
  for (const auto& [id, run] : shadow_.runs()) take(*run.submit);
  for (const auto& [id, request] : shadow_.requests()) {
    const auto progress = core.progress(id);
    expect(progress.has_value(), now, "r{} waits for an answer, and the core does not know it", id.value);
    const Shadow::Run* run = shadow_.run_of(request);
    const bool is_running = run && run->started != Time::never();
    expect((progress == Progress::kRunning) == is_running && (!run || progress != Progress::kQueued), now,
           "r{} {} on a device, the core says otherwise", id.value, is_running ? "runs" : "does not run");
    if (progress == Progress::kPlaced && !run) take(*request.submit);
    if (progress == Progress::kQueued) ++queued[request.submit->tenant], ++waiting;
  }
  for (const auto& standing : standings) {
    const Use use = in_flight[standing.tenant];
    expect(standing.in_flight == use.runs && standing.in_flight_bytes == use.bytes, now,
           "t{} has {} in flight with {} bytes, the core says {} with {}", standing.tenant.value, use.runs, use.bytes,
           standing.in_flight, standing.in_flight_bytes);
    expect(standing.queued == queued[standing.tenant], now, "of t{} {} wait, the core says {}", standing.tenant.value,
           queued[standing.tenant], standing.queued);
  }
  const auto counts = core.counts();
  expect(counts.running == slots && counts.queued == waiting, now,
         "{} have a slot and {} wait, the core says {} and {}", slots, waiting, counts.running, counts.queued);
  expect(counts.executors >= shadow_.executors().size(), now, "{} executors are there, the core says {}",
         shadow_.executors().size(), counts.executors);
}

}  // namespace quern::sim
