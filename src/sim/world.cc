// SPDX-License-Identifier: Apache-2.0
//
// Time jumps from one entry of the agenda to the next. An entry makes events; each event is one step of the core; each
// action of that step puts entries on the agenda, at the same time at the earliest. So a step never happens inside
// another, and what happens at one instant happens in the order in which it was brought about.
#include "sim/world.h"

#include <algorithm>
#include <utility>

#include "sim/arrivals.h"
#include "sim/faults.h"
#include "sim/id_table.h"
#include "sim/programs.h"
#include "sim/tensors.h"
#include "sim/virtual_pool.h"

namespace quern::sim {
namespace {

constexpr Duration kToDrain = Duration::seconds(3600);
// A core that asks for a Tick at once, again and again, would never come to an end.
constexpr uint64_t kMostStepsAtOnce = 20'000'000;
constexpr uint64_t kStepsPerProgress = 4096;

}  // namespace

class World::Impl {
 public:
  Impl(const Model& model, uint64_t seed)
      : model_(model),
        faults_(model_.faults, Prng(~seed).next(), agenda_),
        pool_(model_, agenda_, faults_),
        programs_(model_, seed, agenda_, pool_),
        arrivals_(model_, seed, agenda_),
        tensors_(model_, seed, agenda_),
        core_(std::make_unique<sched::Scheduler>(model_.config)) {
    uint64_t next_domain = 0;
    for (const TenantModel& tenant : model_.tenants) next_domain = std::max(next_domain, tenant.domain);
    std::vector<uint64_t> domains;
    for (const TenantModel& tenant : model_.tenants)
      domains.push_back(tenant.domain != 0 ? tenant.domain : ++next_domain);
    for (size_t i = 0; i < model_.functions.size(); ++i) {
      const FunctionModel& function = model_.functions[i];
      sched::Submit submit;
      submit.function = {i + 1};
      submit.tenant = {uint64_t{function.tenant} + 1};
      submit.domain = {domains.at(function.tenant)};
      submit.priority = function.priority;
      submit.memory_bytes = function.memory_bytes;
      for (const uint32_t object : function.objects)
        submit.objects.push_back({sched::ObjectId{uint64_t{object} + 1}, model_.objects.at(object).bytes});
      submit.device_time = function.device_limit;
      submit.quota = function.quota;
      submits_.emplace_back(std::move(submit));
      std::vector<uint32_t>& objects = objects_.emplace_back(function.objects);
      for (uint32_t& object : objects) ++object;
    }
  }

  void observe(Observer& observer) { observers_.push_back(&observer); }

  Outcome run(bool (*should_stop)(void*), void* stop_context, Progress progress, void* progress_context) {
    should_stop_ = should_stop, stop_context_ = stop_context;
    progress_ = progress, progress_context_ = progress_context;
    const Time limit = Time{0} + model_.length + kToDrain;
    introduce({}, {});
    bool drained = false;
    while (!is_stopped_) {
      if (!programs_.are_over() && live_.empty() && arrivals_.is_over() && !model_.loads.empty()) {
        heard_.clear();
        programs_.end(now_, heard_);
        step_all();
        continue;
      }
      if (agenda_.empty() && live_.empty() && pool_.runs() == 0) {
        const auto counts = core_->counts();
        drained = counts.queued == 0 && counts.running == 0;
        if (drained || wake_at_ == Time::never()) break;
      }
      const Time next = agenda_.empty() ? wake_at_ : std::min(wake_at_, agenda_.top().at);
      if (next == Time::never() || next > limit || steps_at_once_ > kMostStepsAtOnce) break;
      if (next > now_) now_ = next, steps_at_once_ = 0;
      if (agenda_.empty() || wake_at_ <= agenda_.top().at) {
        wake_at_ = Time::never();
        step(sched::Tick{});
      } else {
        happen(agenda_.take());
      }
    }
    for (Observer* observer : observers_) observer->on_end(now_, drained, *core_);
    if (progress_) progress_(progress_context_, requests_made_ - live_.size(), arrivals_.expected());
    return {now_, drained, steps_, requests_made_, faults_.counts(), programs_.take_rounds()};
  }

 private:
  struct Request {
    uint32_t load = 0, function = 0;
    uint32_t live_at = 0;  ///< in live_
    Duration work;
    Tensors::Held tensors;
  };

  /// What a core that has just come to life hears first. `standings` and `gaps` are those of the one before it.
  void introduce(const std::vector<sched::Scheduler::Standing>& standings, const std::vector<sched::GapsKnown>& gaps) {
    if (const auto host = pool_.host_event()) step(*host);
    for (size_t i = 0; i < pool_.size() && !is_stopped_; ++i)
      if (pool_.is_up(i)) step(pool_.up_event(i));
    std::vector<int64_t> vtimes(model_.tenants.size());
    for (const auto& standing : standings)
      if (standing.tenant.value - 1 < vtimes.size()) vtimes[standing.tenant.value - 1] = standing.vtime;
    for (size_t i = 0; i < model_.tenants.size() && !is_stopped_; ++i) {
      const TenantModel& tenant = model_.tenants[i];
      step(sched::TenantSet{sched::TenantId{i + 1}, tenant.weight, tenant.limits, vtimes[i]});
    }
    for (size_t i = 0; i < submits_.size() && !is_stopped_; ++i)
      if (model_.functions[i].keep_warm != sched::Stage::kNothing) step(keep_warm(i));
    for (size_t i = 0; i < gaps.size() && !is_stopped_; ++i) step(gaps[i]);
  }

  std::vector<sched::GapsKnown> known_gaps() const {
    std::vector<sched::GapsKnown> known;
    const auto take = [&](sched::FunctionId function) {
      for (auto& seen : core_->gaps(function))
        known.push_back({seen.device, function, seen.after, std::move(seen.gaps)});
    };
    for (const sched::Event& submit : submits_) take(std::get<sched::Submit>(submit).function);
    for (size_t i = 0; i < programs_.size(); ++i) take(Programs::function_of(i));
    return known;
  }

  sched::Keep keep_warm(size_t function) const { return keep(function, model_.functions[function].keep_warm); }
  sched::Keep keep(size_t function, sched::Stage stage, Time until = Time::never()) const {
    const auto& submit = std::get<sched::Submit>(submits_[function]);
    sched::Keep keep{submit.function, submit.domain, stage, until, submit.objects};
    std::erase_if(keep.objects, [](const sched::ObjectNeed& need) { return need.passing; });
    return keep;
  }

  void step(const sched::Event& event) {
    ++steps_, ++steps_at_once_;
    const std::vector<sched::Action>& actions = core_->step(now_, event);
    for (Observer* observer : observers_) observer->on_step(now_, event, actions, *core_);
    for (const sched::Action& action : actions) std::visit([&](const auto& one) { carry_out(one); }, action);
    if (progress_ && steps_ % kStepsPerProgress == 0)
      progress_(progress_context_, requests_made_ - live_.size(), arrivals_.expected());
    if (should_stop_ && should_stop_(stop_context_)) is_stopped_ = true;
  }

  void happen(const Agenda::Entry& entry) {
    if (entry.kind() == Agenda::Kind::kCall) return call(entry);
    heard_.clear();
    if (entry.kind() == Agenda::Kind::kFault) {
      strike(static_cast<Fault>(entry.a));
    } else if (entry.kind() == Agenda::Kind::kObjectGone) {
      heard_.push_back(sched::ObjectGone{sched::ObjectId{entry.a}});
    } else if (entry.kind() == Agenda::Kind::kFaultsEnd) {
      faults_.disarm();
      pool_.mend(now_, heard_);
    } else if (entry.kind() == Agenda::Kind::kProgram || entry.kind() == Agenda::Kind::kProgramTells ||
               entry.kind() == Agenda::Kind::kProgramEnds) {
      programs_.happen(now_, entry, heard_);
    } else {
      pool_.happen(now_, entry, heard_);
      for (const sched::LauncherId program : pool_.take_ended()) programs_.work_ended(now_, program, heard_);
    }
    step_all();
  }

  void step_all() {
    for (size_t i = 0; i < heard_.size() && !is_stopped_; ++i) step(heard_[i]);
  }

  void call(const Agenda::Entry& entry) {
    if (model_.most_requests != 0 && requests_made_ >= model_.most_requests) return arrivals_.skip();
    const Arrivals::Call call = arrivals_.call(now_, entry);
    const uint64_t id = ++requests_made_;
    sched::Event& event = submits_[call.function];
    auto& submit = std::get<sched::Submit>(event);
    requests_.add(id) = {static_cast<uint32_t>(entry.a), call.function, static_cast<uint32_t>(live_.size()), call.work,
                         tensors_.begin(call.function, submit)};
    live_.push_back(id);
    submit.request = {id};
    submit.deadline = now_ + model_.functions[call.function].timeout;
    step(event);
  }

  void strike(Fault fault) {
    faults_.plan_next(now_, fault);
    bool struck = false;
    switch (fault) {
      case Fault::kSlowLoad:
      case Fault::kFailedLoad:
      case Fault::kFailedStart:
      case Fault::kLateEvent:
      case Fault::kSlowFetch:
      case Fault::kFailedFetch:
      case Fault::kNoRoom:
      case Fault::kWrongProfile:
      case Fault::kNewKernel:
        return faults_.arm(fault);
      case Fault::kExecutorLoss:
        struck = pool_.lose_some_executor(now_, heard_);
        break;
      case Fault::kKernelFault:
        struck = pool_.fault_some_kernel(now_, heard_);
        break;
      case Fault::kHang:
        if (const auto run = pool_.hang_some_run()) {
          for (Observer* observer : observers_) observer->on_hang(now_, *run);
          struck = true;
        }
        break;
      case Fault::kFailedRun:
      case Fault::kFailedLaunch:
        struck = pool_.fail_some_run(fault == Fault::kFailedLaunch);
        break;
      case Fault::kUnclearLoss:
        struck = pool_.lose_unclearly(now_, heard_);
        break;
      case Fault::kDeviceLoss:
        struck = pool_.lose_some_device(now_, heard_);
        if (struck) {
          const sched::DeviceId device = std::get<sched::DeviceDown>(heard_.back()).device;
          programs_.lose_device(now_, device, heard_);
        }
        break;
      case Fault::kLostMemory:
        struck = pool_.take_some_memory(now_, heard_);
        break;
      case Fault::kRestart:
        restart();
        struck = true;
        break;
      case Fault::kCancel:
        struck = !live_.empty();
        if (struck) heard_.push_back(sched::Cancel{sched::RequestId{live_[faults_.draw_below(live_.size())]}});
        break;
      case Fault::kRemoval:
        struck = !submits_.empty();
        if (struck) remove_some_function();
        break;
      case Fault::kHostMemory:
        struck = pool_.take_host_memory(now_, heard_);
        break;
      case Fault::kLease:
        struck = !submits_.empty();
        if (struck) lease_some_function();
        break;
      case Fault::kProgramLoss:
        struck = programs_.size() > 0 && programs_.lose_some(now_, faults_.draw_below(programs_.size()), heard_);
        break;
      case Fault::kSilence:
        struck = programs_.size() > 0 && programs_.silence_some(faults_.draw_below(programs_.size()));
        break;
      case Fault::kIgnoredGate:
        struck = programs_.size() > 0 && programs_.let_some_ignore_its_gate(now_, faults_.draw_below(programs_.size()));
        break;
      case Fault::kSettings:
        struck = !submits_.empty();
        if (struck) change_some_settings();
        break;
    }
    if (struck) faults_.count(fault);
  }

  void remove_some_function() {
    const size_t function = faults_.draw_below(submits_.size());
    auto& submit = std::get<sched::Submit>(submits_[function]);
    heard_.push_back(sched::FunctionGone{submit.function});
    submit.function.value += submits_.size();
    if (model_.functions[function].keep_warm != sched::Stage::kNothing) heard_.push_back(keep_warm(function));
  }

  /// Of those that had no quota most have none after it.
  void change_some_settings() {
    auto& submit = std::get<sched::Submit>(submits_[faults_.draw_below(submits_.size())]);
    const auto share = [&] { return static_cast<uint32_t>(faults_.draw_below(11) * 100); };
    if (faults_.draw_below(2) == 0) {
      submit.priority = static_cast<uint8_t>(faults_.draw_below(sched::kLeastUrgent + 1));
    } else if (submit.quota == sched::Quota{} && faults_.draw_below(4) > 0) {
      submit.quota.limit = 100 + share() * 9 / 10;
    } else if (faults_.draw_below(3) == 0) {
      submit.quota = {};
    } else {
      submit.quota.request = share();
      submit.quota.limit = std::max(submit.quota.request, 100 + share() * 9 / 10);
      if (faults_.draw_below(2) == 0) submit.quota.units = 100 + share() * 9 / 10;
    }
  }

  void lease_some_function() {
    const size_t function = faults_.draw_below(submits_.size());
    const auto stage = static_cast<sched::Stage>(faults_.draw_below(4));
    const Duration length = faults_.draw_between(Duration::millis(1), Duration::millis(300));
    heard_.push_back(keep(function, stage, faults_.draw_below(8) == 0 ? Time::never() : now_ + length));
  }

  void restart() {
    const auto standings = core_->standings();
    const auto gaps = known_gaps();
    core_ = std::make_unique<sched::Scheduler>(model_.config);
    pool_.forget_executors(now_);
    programs_.restart(now_);
    wake_at_ = Time::never();
    std::vector<uint64_t> lost;
    lost.swap(live_);
    for (const uint64_t id : lost) arrivals_.ended(now_, requests_.find(id)->load, sched::End::kLost, {0});
    requests_.clear();
    tensors_.restart();
    for (Observer* observer : observers_) observer->on_restart(now_);
    introduce(standings, gaps);
  }

  void carry_out(const sched::StartExecutor& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::KillExecutor& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::Fetch& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::Load& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::Unload& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::Trim& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::Forget& /*action*/) {}   // takes no time
  void carry_out(const sched::Prepare& /*action*/) {}  // what it gets ready is in `launch`
  void carry_out(const sched::StopRun& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::AskFlight& action) { pool_.carry_out(now_, action); }
  void carry_out(const sched::Grant& action) {
    pool_.carry_out(now_, action);
    programs_.granted(now_, action);
  }
  void carry_out(const sched::WakeAt& action) { wake_at_ = std::max(action.time, now_); }

  void carry_out(const sched::Run& action) {
    // A run without a request is for the checkers to tell; here it is short.
    const Request* request = requests_.find(action.request.value);
    if (!request) return pool_.carry_out(now_, action, Duration::millis(1), false, {});
    const FunctionModel& function = model_.functions[request->function];
    const bool can_hang = function.device_limit != Duration::forever();
    const VirtualPool::Needs needs{&objects_[request->function], request->tensors.passed, request->tensors.made != 0};
    pool_.carry_out(now_, action, request->work, can_hang, needs, &function);
  }

  void carry_out(const sched::Answer& action) {
    const Request* request = requests_.find(action.request.value);
    if (!request) return;
    const uint32_t at = request->live_at, load = request->load;
    tensors_.end(now_, request->function, request->tensors, action.end == sched::End::kDone);
    live_[at] = live_.back();
    requests_.find(live_[at])->live_at = at;
    live_.pop_back();
    requests_.erase(action.request.value);
    arrivals_.ended(now_, load, action.end, action.retry_after);
  }

  const Model model_;
  Agenda agenda_;
  Faults faults_;
  VirtualPool pool_;
  Programs programs_;
  Arrivals arrivals_;
  Tensors tensors_;
  std::unique_ptr<sched::Scheduler> core_;
  std::vector<Observer*> observers_;

  Time now_, wake_at_ = Time::never();
  uint64_t steps_ = 0, steps_at_once_ = 0, requests_made_ = 0;
  IdTable<Request> requests_;
  std::vector<uint64_t> live_;                  ///< requests, in no order
  std::vector<sched::Event> submits_;           ///< by function, filled in as far as calls are alike
  std::vector<std::vector<uint32_t>> objects_;  ///< ids, by function
  std::vector<sched::Event> heard_;
  bool is_stopped_ = false;
  bool (*should_stop_)(void*) = nullptr;
  void* stop_context_ = nullptr;
  Progress progress_ = nullptr;
  void* progress_context_ = nullptr;
};

World::World(const Model& model, uint64_t seed) : impl_(std::make_unique<Impl>(model, seed)) {}
World::~World() = default;
void World::observe(Observer& observer) { impl_->observe(observer); }
World::Outcome World::run(bool (*should_stop)(void*), void* stop_context, Progress progress, void* progress_context) {
  return impl_->run(should_stop, stop_context, progress, progress_context);
}

}  // namespace quern::sim
