// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner.h"

#include <algorithm>

#include "os/clock.h"
#include "os/log.h"
#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

// Bounded by what the core would queue, and some for cancels.
constexpr size_t kMailboxCapacity = 16384;

// How long before and after its predicted end the most urgent run is looked for, and how far ahead a prediction is any
// good.
constexpr Duration kSpinMargin = Duration::micros(60);
constexpr Duration kLongestPrediction = Duration::millis(50);
// A look that took so long: someone else had the core meanwhile.
constexpr Duration kTaken = Duration::micros(50);
// Where more runs than these are on devices somebody is about to tell something anyway.
constexpr size_t kMostLookedAt = 8;

// A page: whatever a driver's allocator rounds to on the devices we know, it is no more.
constexpr uint64_t kGranularity = 4096;

sched::Config core_config_of(const Config& config) {
  sched::Config core;
  // On devices that have classes: DeviceUp says which.
  if (config.classes && os::can_change_class()) core.best_effort = kBestEffort;
  core.least_share = config.least_share;
  core.granularity_bytes = kGranularity;
  if (!config.policy.fairness.empty()) core.policy.fairness = config.policy.fairness;
  if (!config.policy.placement.empty()) core.policy.placement = config.policy.placement;
  if (!config.policy.eviction.empty()) core.policy.eviction = config.policy.eviction;
  if (!config.policy.setup.empty()) core.policy.setup = config.policy.setup;
  if (!config.policy.exit.empty()) core.policy.exit = config.policy.exit;
  if (!config.policy.dispatch.empty()) core.policy.dispatch = config.policy.dispatch;
  return core;
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(const Config& config, const std::string& run_folder,
                                               const std::vector<sched::TenantSet>& tenants, HostTier& host,
                                               LiveCounters& counters) {
  QUERN_TRY(os::Poller poller, os::Poller::create());
  QUERN_TRY(os::Event event, os::Event::create());
  std::unique_ptr<Runner> self(
      new Runner(config, run_folder, tenants.size(), host, counters, std::move(poller), std::move(event)));
  QUERN_TRY(self->poller_.add(self->mailbox_.event().fd(), token(0, Source::kMailbox)));
  for (const DeviceConfig& device : config.devices) {
    auto record = std::make_unique<DeviceRecord>();
    record->id = self->devices_.size() + 1;
    record->config = device;
    self->devices_.push_back(std::move(record));
    QUERN_TRY(self->start_process(self->devices_.size()));
  }
  if (!config.record_file.empty()) {
    QUERN_TRY(self->recorder_, Recorder::create(config.record_file, config.record_bytes, self->core_config_));
  }
  QUERN_TRY(self->wait_for_greetings());
  for (const sched::TenantSet& tenant : tenants) self->feed(tenant);
  self->feed(sched::HostUp{host_bytes_of(config)});
  for (auto& device : self->devices_) {
    // What blank executors hold is nobody's to use.
    const uint64_t blanks = self->most_blanks(*device) * device->config.context_bytes;
    self->feed(sched::DeviceUp{.device = {device->id},
                               .memory_bytes = device->caps.memory_bytes - std::min(device->caps.memory_bytes, blanks),
                               .context_bytes = device->config.context_bytes,
                               .in_place = device->in_place(),
                               .units = {std::max(1U, device->caps.units), device->caps.partitions},
                               .classes = device->caps.worker_classes,
                               .shares_time = device->caps.overlap == ipc::kOverlapAcrossProcesses});
  }
  return self;
}

Runner::Runner(const Config& config, std::string run_folder, size_t tenants, HostTier& host, LiveCounters& counters,
               os::Poller poller, os::Event mailbox_event)
    : config_(config),
      run_folder_(std::move(run_folder)),
      host_(host),
      core_config_(core_config_of(config)),
      mailbox_(std::move(mailbox_event), kMailboxCapacity),
      counters_(counters),
      poller_(std::move(poller)),
      core_(core_config_),
      requests_(tenants),
      accounts_(tenants, os::now()),
      turns_(tenants),
      has_classes_(core_config_.best_effort == kBestEffort) {
  if (config.classes && !has_classes_) os::log_debug("classes are off: workers could not be raised again");
}

Runner::~Runner() { stop(Duration{0}); }

void Runner::start() {
  thread_ = os::Thread("strand", [this] {
    if (!config_.host_cores.empty()) (void)os::pin_to(config_.host_cores);
    os::want_exact_timers();
    // It parses nothing and waits for nobody: a few microseconds at a time, ahead of everything else on its core.
    is_realtime_ = os::make_realtime();
    if (!is_realtime_) os::log_debug("the strand is not real-time: not permitted");
    serve();
  });
}

void Runner::stop(Duration limit) {
  if (!thread_.joinable()) return;
  while (!post(StopMessage{os::now() + limit})) std::this_thread::yield();
  thread_.join();
}

void Runner::serve() {
  while (!stop_at_ || (!calls_.empty() && os::now() < *stop_at_)) {
    const Time now = os::now();
    if (now >= next_wake_) {
      next_wake_ = Time::never();
      feed(sched::Tick{});
    }
    check_greetings(now);
    const Time flights_due = check_flights(now);
    if (now >= pools_due_ && !stop_at_) fill_pools();
    Time wake = std::min({next_wake_, flights_due, stop_at_ ? Time::never() : pools_due_});
    if (recorder_) {
      if (now >= recorder_->due()) recorder_->write();
      wake = std::min(wake, recorder_->due());
    }
    if (tracing_) look_at_trace(now);
    if (tracing_) wake = std::min(wake, tracing_->due);
    if (stop_at_) wake = std::min(wake, *stop_at_);
    for (auto& [key, executor] : executors_)
      if (!executor.process->greeted()) wake = std::min(wake, executor.greeting_due);

    bool sleep = !mailbox_.maybe_filled();
    if (const auto window = end_window(); sleep && window) {
      if (os::now() >= window->first)
        sleep = !spin_until(std::min(window->second, wake));
      else
        wake = std::min(wake, window->first);
    }
    for (uint64_t key : active_) sleep = executors_.at(key).process->prepare_sleep() && sleep;
    for (auto& [number, program] : programs_) sleep = program.gate->prepare_sleep() && sleep;
    const Duration limit = !sleep                  ? Duration{0}
                           : wake == Time::never() ? Duration::forever()
                                                   : std::max(Duration{0}, wake - os::now());
    const std::vector<uint64_t> ready = poller_.wait(limit);
    for (uint64_t key : active_) executors_.at(key).process->woke();
    for (auto& [number, program] : programs_) program.gate->woke();

    // First what is quick and others wait for: a program that has work again.
    for (auto it = programs_.begin(); it != programs_.end();) drain_program((it++)->first);
    mailbox_.drain(inbox_);
    forget_objects();
    for (Message& message : inbox_) handle(message);
    inbox_.clear();
    for (const uint64_t function : functions_gone_.take()) forget_function(function);
    const std::vector<uint64_t> active(active_.begin(), active_.end());
    for (uint64_t key : active) drain_events(key);
    for (uint64_t which : ready) look_at(which);
  }
  end_everything();
}

// The most urgent run, if there is one and its end is predicted: its caller waits for nothing but us, and so does
// whoever may have the device next, so being awake when it ends saves the wake-up of an idle core (30-100 us). The
// window is small, and others that want our core get it.
std::optional<std::pair<Time, Time>> Runner::end_window() const {
  if (!programs_.empty()) return std::nullopt;  // whose threads may be on our core, and are not to find us there
  const LiveRun* first = nullptr;
  const Executor* on = nullptr;
  size_t seen = 0;
  for (const uint64_t key : active_) {
    const Executor& executor = executors_.at(key);
    for (const uint64_t id : executor.pushed) {
      if (++seen > kMostLookedAt) return std::nullopt;
      const LiveRun& run = runs_.at(id);
      if (first && first->level < run.level) continue;
      on = first && first->level == run.level ? nullptr : &executor;  // of two equals neither
      first = &run;
    }
  }
  if (!on) return std::nullopt;
  const Duration expected = on->process->round_trip(first->plan->id);
  if (expected.ns == 0 || expected > kLongestPrediction) return std::nullopt;
  const Duration margin{kSpinMargin.ns + expected.ns / 32};
  const Time end = first->pushed_at + expected;
  const Time until{end.ns + 2 * margin.ns};
  if (os::now() >= until) return std::nullopt;
  return std::pair{Time{end.ns - margin.ns}, until};
}

// True if there is something to do.
bool Runner::spin_until(Time until) {
  const auto is_due = [&] {
    return mailbox_.maybe_filled() || std::any_of(active_.begin(), active_.end(), [&](uint64_t key) {
             return executors_.at(key).process->has_events();
           });
  };
  // Real-time threads do not give way, so this one is ordinary while it looks.
  if (is_realtime_) os::make_ordinary();
  for (Time last = os::now(); !is_due() && last < until;) {
    os::yield();
    const Time now = os::now();
    // Whoever wants this core has it for as long as it likes. A real-time thread that sleeps is back sooner.
    if (now - last > kTaken) break;
    last = now;
  }
  if (is_realtime_) os::make_realtime();
  return is_due();
}

void Runner::handle(Message& message) {
  if (auto* submit = std::get_if<SubmitMessage>(&message)) {
    LiveCall& call = *submit->call;
    call.times.taken = os::now();
    if (stop_at_) {
      call.error = unavailable("the server is stopping; retry elsewhere or later");
      return give_back(std::move(submit->call));
    }
    called(*call.function);
    sched::Submit event;
    event.request = {call.request};
    event.function = {call.function->id};
    event.tenant = {call.tenant->id};
    event.domain = {call.tenant->domain_id};
    event.priority = call.priority;
    event.memory_bytes = call.plan->run_bytes;
    event.objects = call.function->objects;
    take_tensors(call, event);
    event.deadline = call.times.submitted + call.timeout;
    event.device_time = call.device_time;
    event.quota = call.quota;
    requests_.add(call);
    os::log_debug("request {} of {}: queued", call.id, call.function->name);
    queue_up(call, call.times.taken);
    for (const CallTensor& input : call.inputs) call.account.bytes_in += input.bytes.size();
    calls_.emplace(call.request, std::move(submit->call));
    feed(std::move(event));
  } else if (auto* cancel = std::get_if<CancelMessage>(&message)) {
    const auto call = calls_.find(cancel->request);
    const bool is_theirs = call != calls_.end() && (!cancel->tenant || call->second->tenant == cancel->tenant);
    if (is_theirs) feed(sched::Cancel{{cancel->request}});
    if (cancel->done) cancel->done(is_theirs);
  } else if (auto* gone = std::get_if<FunctionGoneMessage>(&message)) {
    forget_function(gone->function);
  } else if (auto* fetched = std::get_if<FetchedMessage>(&message)) {
    const auto it = hosted_.find(fetched->object);
    if (it == hosted_.end()) return;  // the core changed its mind
    it->second.span.to = os::now();
    const bool failed = !fetched->end.ok();
    if (tracer_.is_on()) tracer_.load_ended(0, fetched->object, failed, it->second.span.to);
    if (failed) {
      load_errors_[fetched->object] = fetched->end.error().text;
      hosted_.erase(it);
    } else {
      it->second.object = *std::move(fetched->end);
      ++counters_.fetches;
      counters_.fetched_bytes += it->second.object->size_bytes;
    }
    feed(sched::Fetched{{fetched->object}, failed});
  } else if (auto* keep = std::get_if<KeepMessage>(&message)) {
    meet(*keep->function);
    feed(sched::Keep{{keep->function->id}, {keep->domain}, keep->stage, keep->until, keep->function->objects});
  } else if (auto* memory_of = std::get_if<MemoryMessage>(&message)) {
    memory_of->done(memory(*memory_of->tenant));
  } else if (auto* accounts_of = std::get_if<AccountsMessage>(&message)) {
    accounts_of->done(accounts_.table(accounts_of->tenant->name, accounts_of->by, os::now()));
  } else if (auto* story_of = std::get_if<StoryMessage>(&message)) {
    story_of->done(story(*story_of->tenant, story_of->request));
  } else if (auto* list = std::get_if<ListMessage>(&message)) {
    list->done(list_requests(*list->tenant));
  } else if (auto* standings = std::get_if<StandingsMessage>(&message)) {
    const sched::Scheduler::Lag lag = core_.lag();
    counters_.fairness_lag_ns.store(lag.lag, std::memory_order_relaxed);
    counters_.fairness_bound_ns.store(lag.bound, std::memory_order_relaxed);
    standings->done(core_.standings());
  } else if (auto* joins = std::get_if<JoinMessage>(&message)) {
    joins->done(stop_at_ ? Result<ProgramLink>(unavailable("the server is stopping"))
                         : join(*joins->tenant, joins->spec));
  } else if (auto* leaves = std::get_if<LeaveMessage>(&message)) {
    leave(leaves->program);
  } else if (auto* trace = std::get_if<TraceMessage>(&message)) {
    begin_trace(*trace);
  } else if (auto* ends = std::get_if<EndTraceMessage>(&message)) {
    end_trace(*ends);
  } else if (auto* profiles = std::get_if<ProfileMessage>(&message)) {
    profiles->done(profiles->function ? std::optional(profile(*profiles->tenant, *profiles->function))
                                      : program_profile(*profiles->tenant, profiles->name));
  } else if (auto* takes = std::get_if<TakeProfilesMessage>(&message)) {
    takes->done(take_profiles());
  } else if (auto* stop = std::get_if<StopMessage>(&message)) {
    stop_at_ = stop_at_ ? std::min(*stop_at_, stop->limit) : stop->limit;
  }
}

void Runner::tell_gone(uint64_t function) {
  if (post(FunctionGoneMessage{function})) return;
  functions_gone_.add(function);
  mailbox_.event().signal();  // the strand may have emptied the mailbox meanwhile, and sleep
}

void Runner::forget_function(uint64_t function) {
  for (auto& [key, executor] : executors_) executor.process->forget_function(function);
  feed(sched::FunctionGone{{function}});
  forget_profile(function);
  function_names_.erase(function);
  std::erase_if(load_errors_, [&](const auto& item) { return !hosted_.contains(item.first); });
}

std::vector<RequestStatus> Runner::list_requests(const Tenant& tenant) {
  std::map<uint64_t, const std::string*> devices;  // of requests that hold a slot; the newest run of each is the last
  for (const auto& [id, run] : runs_)
    if (const auto on = executors_.find(run.executor); on != executors_.end())
      devices[run.request] = &device(on->second.device).config.name;
  return requests_.list(tenant, os::now(), [&](const LiveCall& call) -> RequestList::Whereabouts {
    const auto progress = core_.progress({call.request});
    const auto where = devices.find(call.request);
    const bool is_queued = !progress || *progress == sched::Scheduler::Progress::kQueued;
    return {progress ? name_of(*progress) : "queued", is_queued || where == devices.end() ? "" : *where->second};
  });
}

void Runner::end_everything() {
  if (tracing_) finish_trace(os::now());
  for (auto& [request, call] : calls_) {
    call->error = unavailable("the server is stopping; retry elsewhere or later");
    give_back(std::move(call));
  }
  calls_.clear();
  requests_.clear();
  for (auto& [key, executor] : executors_) executor.process->kill();
  executors_.clear();
  runs_.clear();
  // What was posted after the stop is answered too.
  mailbox_.drain(inbox_);
  for (Message& message : inbox_) handle(message);
  if (recorder_) recorder_->write();
}

}  // namespace quern::daemon
