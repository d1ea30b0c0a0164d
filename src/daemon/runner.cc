// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/clock.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

// Bounded by what the core would queue, and some for cancels.
constexpr size_t kMailboxCapacity = 16384;
// Opening a vendor's context takes 20-40 ms here, seconds on a GPU.
constexpr Duration kGreetingLimit = Duration::seconds(60);

// How long before and after its predicted end a lone call is looked for, and how far ahead a prediction is any good.
constexpr Duration kSpinMargin = Duration::micros(60);
constexpr Duration kLongestPrediction = Duration::millis(50);

enum Source : uint64_t { kMailbox, kSocket, kWake, kEnd, kLog };
uint64_t token(uint64_t key, Source source) { return key << 3 | source; }

// What the executor reports, by the names of the manifest; more than the plan has is nothing.
void tell_rounds(const std::vector<uint64_t>& rounds, LiveCall& call) {
  const auto& reported = call.plan->plan.reported;
  for (size_t i = 0; i < std::min(rounds.size(), reported.size()); ++i) {
    const std::string& name = call.function->manifest.repeats[reported[i]].name;
    call.rounds.emplace_back(name.empty() ? "rounds" : "rounds." + name, rounds[i]);
  }
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(const Config& config, const std::string& run_folder) {
  QUERN_TRY(os::Poller poller, os::Poller::create());
  QUERN_TRY(os::Event event, os::Event::create());
  std::unique_ptr<Runner> self(new Runner(config, run_folder, std::move(poller), std::move(event)));
  QUERN_TRY(self->poller_.add(self->mailbox_.event().fd(), token(0, kMailbox)));
  for (const DeviceConfig& device : config.devices) {
    auto record = std::make_unique<DeviceRecord>();
    record->id = self->devices_.size() + 1;
    record->config = device;
    self->devices_.push_back(std::move(record));
    QUERN_TRY(self->start_process(self->devices_.size()));
  }
  QUERN_TRY(self->wait_for_greetings());
  for (auto& device : self->devices_) self->feed(sched::DeviceUp{{device->id}, device->caps.memory_bytes});
  return self;
}

Runner::Runner(const Config& config, std::string run_folder, os::Poller poller, os::Event mailbox_event)
    : config_(config),
      run_folder_(std::move(run_folder)),
      mailbox_(std::move(mailbox_event), kMailboxCapacity),
      poller_(std::move(poller)),
      core_(core_config()) {}

Runner::~Runner() { stop(Duration{0}); }

Result<uint64_t> Runner::start_process(uint64_t device_id) {
  const uint64_t key = next_key_++;
  QUERN_TRY(auto process, ExecutorProcess::start(device(device_id).config, core_config().lanes,
                                                 fmt::format("{}/executor-{}", run_folder_, key)));
  QUERN_TRY(poller_.add(process->socket_fd(), token(key, kSocket)));
  QUERN_TRY(poller_.add(process->wake_fd(), token(key, kWake)));
  QUERN_TRY(poller_.add(process->pidfd(), token(key, kEnd)));
  QUERN_TRY(poller_.add(process->log_fd(), token(key, kLog)));
  Executor executor;
  executor.process = std::move(process);
  executor.device = device_id;
  executor.greeting_due = os::now() + kGreetingLimit;
  executors_.emplace(key, std::move(executor));
  ++counters_.executors_started;
  ++device(device_id).executors;
  return key;
}

Status Runner::wait_for_greetings() {
  for (auto& [key, executor] : executors_) {
    const std::string& name = device(executor.device).config.name;
    while (!executor.process->greeted()) {
      const Duration left = executor.greeting_due - os::now();
      if (left.ns <= 0 || !os::wait_readable(executor.process->socket_fd(), left))
        return unavailable(fmt::format("device {}: its executor did not come up in time", name));
      const auto taken = executor.process->take_frame();
      if (taken.ok()) continue;
      executor.process->kill();
      const ExecutorEnd end = executor.process->end();
      return unavailable(fmt::format("device {}: cannot be opened: {}", name,
                                     end.last_words.empty() ? taken.error().text : end.last_words));
    }
    device(executor.device).caps = executor.process->caps();
    executor.greeting_due = Time::never();
  }
  return {};
}

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
    Time wake = next_wake_;
    if (stop_at_) wake = std::min(wake, *stop_at_);
    for (auto& [key, executor] : executors_)
      if (!executor.process->greeted()) wake = std::min(wake, executor.greeting_due);

    bool sleep = !mailbox_.maybe_filled();
    if (const auto window = lone_window(); sleep && window) {
      if (os::now() >= window->first)
        sleep = !spin_until(window->second);
      else
        wake = std::min(wake, window->first);
    }
    for (uint64_t key : active_) sleep = executors_.at(key).process->prepare_sleep() && sleep;
    const Duration limit = !sleep                  ? Duration{0}
                           : wake == Time::never() ? Duration::forever()
                                                   : std::max(Duration{0}, wake - os::now());
    const std::vector<uint64_t> ready = poller_.wait(limit);
    for (uint64_t key : active_) executors_.at(key).process->woke();

    mailbox_.drain(inbox_);
    for (Message& message : inbox_) handle(message);
    inbox_.clear();
    const std::vector<uint64_t> active(active_.begin(), active_.end());
    for (uint64_t key : active) drain_events(key);
    for (uint64_t which : ready) look_at(which);
  }
  end_everything();
}

// A single call in flight, whose end is predicted: its caller waits for nothing but us, so being awake when it ends
// saves the wake-up of an idle core (30-100 us). The window is small, and others that want our core get it.
std::optional<std::pair<Time, Time>> Runner::lone_window() const {
  if (calls_.size() != 1 || active_.size() != 1) return std::nullopt;
  const Executor& executor = executors_.at(*active_.begin());
  if (executor.pushed.size() != 1) return std::nullopt;
  const LiveRun& run = runs_.at(executor.pushed.front());
  const Duration expected = executor.process->round_trip(run.plan->id);
  if (expected.ns == 0 || expected > kLongestPrediction) return std::nullopt;
  const Duration margin{kSpinMargin.ns + expected.ns / 32};
  const Time end = run.pushed_at + expected;
  const Time until{end.ns + 2 * margin.ns};
  if (os::now() >= until) return std::nullopt;
  return std::pair{Time{end.ns - margin.ns}, until};
}

// True if there is something to do.
bool Runner::spin_until(Time until) {
  const ExecutorProcess& process = *executors_.at(*active_.begin()).process;
  const auto is_due = [&] { return process.has_events() || mailbox_.maybe_filled(); };
  // Real-time threads do not give way, so this one is ordinary while it looks.
  if (is_realtime_) os::make_ordinary();
  while (!is_due() && os::now() < until) os::yield();
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
    sched::Submit event;
    event.request = {call.request};
    event.function = {call.function->id};
    event.tenant = {call.tenant->id};
    event.domain = {call.tenant->domain_id};
    event.priority = call.priority;
    event.memory_bytes = call.plan->plan.memory_bytes;
    event.deadline = call.times.submitted + call.timeout;
    event.device_time = call.device_time;
    event.queue = call.tenant->queue;
    calls_.emplace(call.request, std::move(submit->call));
    feed(event);
  } else if (auto* cancel = std::get_if<CancelMessage>(&message)) {
    if (calls_.contains(cancel->request)) feed(sched::Cancel{{cancel->request}});
  } else if (auto* gone = std::get_if<FunctionGoneMessage>(&message)) {
    for (auto& [key, executor] : executors_) executor.process->forget_function(gone->function);
    feed(sched::FunctionGone{{gone->function}});
  } else if (auto* stop = std::get_if<StopMessage>(&message)) {
    stop_at_ = stop_at_ ? std::min(*stop_at_, stop->limit) : stop->limit;
  }
}

void Runner::look_at(uint64_t which) {
  const uint64_t key = which >> 3;
  const auto it = executors_.find(key);
  if (it == executors_.end()) return;  // the mailbox, or an executor that is gone by now
  switch (static_cast<Source>(which & 7)) {
    case kSocket:
      for (;;) {
        const auto taken = it->second.process->take_frame();
        if (!taken.ok()) return doom(key, taken.error());
        if (!*taken) break;
        greet(key);
        if (!executors_.contains(key)) return;
        const std::set<uint64_t> runs = it->second.runs;
        for (uint64_t run : runs) try_push(run);
      }
      break;
    case kWake:
      drain_events(key);
      break;
    case kEnd:
      lose(key);
      break;
    case kLog:
      if (!it->second.process->take_log()) poller_.remove(it->second.process->log_fd());
      break;
    case kMailbox:
      break;
  }
}

// A Hello that came: an executor that the core waits for is up.
void Runner::greet(uint64_t key) {
  Executor& executor = executors_.at(key);
  if (!executor.process->greeted() || executor.greeting_due == Time::never()) return;
  executor.greeting_due = Time::never();
  set_spin(executor.device);
  if (executor.id) feed(sched::ExecutorUp{*executor.id});
}

void Runner::check_greetings(Time now) {
  for (auto& [key, executor] : executors_)
    if (!executor.process->greeted() && now >= executor.greeting_due && !executor.killed_by_us) {
      executor.killed_by_us = true;
      os::log_warning("executor {}: did not come up in time", executor.process->pid());
      executor.process->kill();
    }
}

void Runner::drain_events(uint64_t key) {
  for (uint32_t lane = 0; lane < core_config().lanes; ++lane) {
    for (;;) {
      const auto it = executors_.find(key);
      if (it == executors_.end()) return;
      auto event = it->second.process->take_event(lane);
      if (!event.ok()) return doom(key, event.error());
      if (!*event) break;
      ended(key, lane, **event);
    }
  }
}

void Runner::ended(uint64_t key, uint32_t lane, const ipc::RunEnded& event) {
  const auto it = runs_.find(event.run);
  if (it == runs_.end() || it->second.executor != key || it->second.lane != lane || !it->second.pushed)
    return doom(key, invalid(fmt::format("reports run {} that it does not have", event.run)));
  LiveRun& run = it->second;
  Executor& executor = executors_.at(key);
  if (!event.ok) run.report.error = Error{event.code, event.text};
  run.read = {event.taken_ns};
  run.started = {event.started_ns};
  run.finished = {event.ended_ns};
  run.reported = {event.reported_ns};
  run.device_time_ns = event.device_time_ns;
  run.rounds = event.rounds;
  run.kernels = event.kernels;
  executor.process->learn(run.plan->id, os::now() - run.pushed_at);
  DeviceRecord& on = device(executor.device);
  ++on.runs_ended;
  on.device_time_ns += event.device_time_ns;
  if (run.stopped) executor.process->open_gate(lane);
  std::erase(executor.pushed, event.run);
  mark_started(executor);
  finish(event.run, !event.ok);
}

// The run is forgotten once the core has heard of its end and what it asked for was done: its answer needs the report.
void Runner::finish(uint64_t run_id, bool failed) {
  over_.push_back(run_id);
  feed(sched::Finished{{run_id}, failed});
}

void Runner::forget_run(uint64_t run_id) {
  const auto it = runs_.find(run_id);
  if (it == runs_.end()) return;
  if (const auto on = executors_.find(it->second.executor); on != executors_.end()) {
    if (it->second.pinned) on->second.process->unpin(it->second.plan->id);
    on->second.runs.erase(run_id);
    if (on->second.runs.empty()) active_.erase(on->first);
    --device(on->second.device).running;
  }
  runs_.erase(it);
}

// It talks nonsense, or not at all any more: end it. The core hears of it when the process is gone.
void Runner::doom(uint64_t key, const Error& why) {
  Executor& executor = executors_.at(key);
  poller_.remove(executor.process->socket_fd());
  active_.erase(key);
  if (why.code != ErrorCode::kUnavailable)
    os::log_warning("executor {}: {}; it is ended", executor.process->pid(), why.text);
  executor.process->kill();
}

void Runner::lose(uint64_t key) {
  // What it reported before it died did happen.
  for (uint32_t lane = 0; lane < core_config().lanes; ++lane)
    for (;;) {
      auto event = executors_.at(key).process->take_event(lane);
      if (!event.ok() || !*event) break;
      const auto run = runs_.find((*event)->run);
      if (run == runs_.end() || run->second.executor != key || run->second.lane != lane || !run->second.pushed) break;
      ended(key, lane, **event);
    }
  Executor& executor = executors_.at(key);
  const ExecutorEnd end = executor.process->end();
  ++counters_.executors_lost;
  const std::optional<uint64_t> culprit = find_culprit(executor, end);
  if (!executor.killed_by_us)
    os::log_warning("executor {} on {}: ended by {}{}{}", key, device(executor.device).config.name,
                    end.exit.signal ? fmt::format("signal {}", end.exit.signal) : fmt::format("exit {}", end.exit.code),
                    culprit ? fmt::format(", function {} is to blame", runs_.at(*culprit).function->name) : "",
                    end.last_words.empty() ? "" : "; its last words: " + end.last_words);
  const auto id = executor.id;
  const uint64_t device_id = executor.device;
  const std::set<uint64_t> runs = executor.runs;
  // The memory of its runs may be used again: the process is gone.
  if (id) {
    sched::ExecutorLost event{*id, std::nullopt};
    if (culprit) event.culprit = sched::RunId{*culprit};
    feed(event);
  }
  for (uint64_t run : runs) forget_run(run);
  erase_executor(key);
  set_spin(device_id);
}

void Runner::erase_executor(uint64_t key) {
  const auto it = executors_.find(key);
  if (it == executors_.end()) return;
  --device(it->second.device).executors;
  if (it->second.id) executor_keys_.erase(it->second.id->value);
  active_.erase(key);
  executors_.erase(it);  // its descriptors close, and so leave the poller
}

std::optional<uint64_t> Runner::find_culprit(const Executor& executor, const ExecutorEnd& end) {
  if (executor.killed_by_us || end.signal == 0) return std::nullopt;
  std::vector<uint64_t> in_lanes;
  for (uint64_t run : executor.pushed)
    if (executor.process->running_launch(runs_.at(run).lane, run)) in_lanes.push_back(run);
  // The code that faulted names the kernel; without it, only a run that was alone can be blamed.
  std::optional<uint64_t> culprit;
  for (uint64_t run_id : in_lanes) {
    LiveRun& run = runs_.at(run_id);
    if (end.program != 0 && executor.process->program_of(run.plan->id) != end.program) continue;
    if (end.program == 0 && in_lanes.size() > 1) return std::nullopt;
    if (end.program != 0 && end.entry < run.binary->signatures.size())
      run.report.kernel = run.binary->signatures[end.entry].entry;
    else
      run.report.kernel = kernel_at(executor, run_id);
    run.report.signal = end.signal;
    run.report.address = end.address;
    if (!culprit) culprit = run_id;
  }
  return culprit;
}

std::string Runner::kernel_at(const Executor& executor, uint64_t run_id) const {
  const LiveRun& run = runs_.at(run_id);
  const auto launch = executor.process->running_launch(run.lane, run_id);
  const auto& launches = run.plan->plan.launches;
  return launch && *launch < launches.size() ? launches[*launch].entry : "";
}

void Runner::try_push(uint64_t run_id) {
  const auto it = runs_.find(run_id);
  if (it == runs_.end() || it->second.pushed || it->second.stopped || it->second.report.error) return;
  LiveRun& run = it->second;
  Executor& executor = executors_.at(run.executor);
  const auto there = executor.process->require(*run.function, run.plan, *run.binary, *run.blocks);
  if (!there.ok()) {
    if (there.error().code == ErrorCode::kUnavailable) return doom(run.executor, there.error());
    run.report.error = there.error();
    return finish(run_id, true);
  }
  if (!*there) return;  // on its way; we are called again
  run.pinned = true;
  ipc::RunCommand command;
  command.run = run_id;
  command.plan = run.plan->id;
  command.profile = run.profile;
  for (const ipc::Block& block : *run.blocks) command.bindings.push_back({block.segment()->id, block.offset()});
  for (const Scalar& scalar : run.scalars) command.scalars.push_back(scalar.bits);
  run.pushed = true;
  run.pushed_at = os::now();
  active_.insert(run.executor);
  executor.pushed.push_back(run_id);
  if (const Status pushed = executor.process->push_run(run.lane, command); !pushed.ok())
    return doom(run.executor, pushed.error());
  if (executor.pushed.size() == 1) mark_started(executor);
}

// The device takes runs in order: one counts as started when all before it have ended.
void Runner::mark_started(Executor& executor) {
  if (!executor.pushed.empty()) feed(sched::Started{{executor.pushed.front()}});
}

void Runner::set_spin(uint64_t device_id) {
  // Long enough for the next call of a caller that waits for each answer; nothing where a neighbour needs the core.
  constexpr uint64_t kSpinNs = 500'000;
  uint64_t on_device = 0;
  for (auto& [key, executor] : executors_)
    if (executor.device == device_id && executor.id) ++on_device;
  const bool has_own_cores = !device(device_id).config.cores.empty();
  for (auto& [key, executor] : executors_)
    if (executor.device == device_id) executor.process->allow_spin(on_device == 1 && has_own_cores ? kSpinNs : 0);
}

void Runner::end_everything() {
  for (auto& [request, call] : calls_) {
    call->error = unavailable("the server is stopping; retry elsewhere or later");
    give_back(std::move(call));
  }
  calls_.clear();
  for (auto& [key, executor] : executors_) executor.process->kill();
  executors_.clear();
  runs_.clear();
  // What was posted after the stop is answered too.
  mailbox_.drain(inbox_);
  for (Message& message : inbox_) handle(message);
}

void Runner::feed(sched::Event event) {
  waiting_events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  while (!waiting_events_.empty()) {
    const sched::Event next = std::move(waiting_events_.front());
    waiting_events_.pop_front();
    for (const sched::Action& action : core_.step(os::now(), next))
      std::visit([this](const auto& what) { carry_out(what); }, action);
  }
  stepping_ = false;
  for (uint64_t run : over_) forget_run(run);
  over_.clear();
  counters_.queued.store(core_.counts().queued, std::memory_order_relaxed);
}

void Runner::carry_out(const sched::StartExecutor& action) {
  // A blank one is bound to its domain once, and never goes back.
  for (auto& [key, executor] : executors_) {
    if (executor.id || executor.device != action.device.value || !executor.process->greeted()) continue;
    executor.id = action.executor;
    executor_keys_[action.executor.value] = key;
    set_spin(action.device.value);
    waiting_events_.push_back(sched::ExecutorUp{action.executor});
    return;
  }
  const auto key = start_process(action.device.value);
  if (!key.ok()) {
    os::log_error("device {}: an executor cannot be started: {}", device(action.device.value).config.name,
                  key.error().text);
    waiting_events_.push_back(sched::ExecutorLost{action.executor, std::nullopt});
    return;
  }
  executors_.at(*key).id = action.executor;
  executor_keys_[action.executor.value] = *key;
}

void Runner::carry_out(const sched::KillExecutor& action) {
  const auto it = executor_keys_.find(action.executor.value);
  if (it == executor_keys_.end()) return;
  Executor& executor = executors_.at(it->second);
  if (action.because && runs_.contains(action.because->value)) {
    LiveRun& run = runs_.at(action.because->value);
    run.report.kernel = kernel_at(executor, action.because->value);
    os::log_warning("executor {}: kernel '{}' of function {} does not end; it is killed", executor.process->pid(),
                    run.report.kernel, run.function->name);
  }
  executor.killed_by_us = true;
  executor.process->kill();
}

void Runner::carry_out(const sched::Run& action) {
  const LiveCall& call = *calls_.at(action.request.value);
  LiveRun run;
  run.request = call.request;
  run.executor = executor_keys_.at(action.executor.value);
  run.lane = action.lane;
  run.function = call.function;
  run.plan = call.plan;
  run.scalars = call.scalars;
  run.blocks = call.blocks;
  run.profile = call.profile;
  Executor& executor = executors_.at(run.executor);
  const auto binary = call.function->binaries.find(executor.process->caps().build_key);
  executor.runs.insert(action.run.value);
  ++device(executor.device).running;
  if (binary == call.function->binaries.end()) {
    run.report.error = unsupported(fmt::format("has no program for device {}", device(executor.device).config.name));
    runs_.emplace(action.run.value, std::move(run));
    return finish(action.run.value, true);
  }
  run.binary = &binary->second;
  runs_.emplace(action.run.value, std::move(run));
  try_push(action.run.value);
}

void Runner::carry_out(const sched::StopRun& action) {
  const auto it = runs_.find(action.run.value);
  if (it == runs_.end() || it->second.stopped) return;
  LiveRun& run = it->second;
  run.stopped = true;
  if (!run.pushed) return finish(action.run.value, true);  // nothing of it is on the device
  Executor& executor = executors_.at(run.executor);
  run.report.kernel = kernel_at(executor, action.run.value);
  if (const Status stopped = executor.process->stop_run(run.lane, action.run.value); !stopped.ok())
    doom(run.executor, stopped.error());
}

void Runner::carry_out(const sched::Answer& action) {
  const auto it = calls_.find(action.request.value);
  QUERN_CHECK(it != calls_.end(), "a request is answered twice");
  std::unique_ptr<LiveCall> call = std::move(it->second);
  calls_.erase(it);
  RunReport report;
  if (action.run)
    if (const auto run = runs_.find(action.run->value); run != runs_.end()) {
      report = run->second.report;
      call->times.pushed = run->second.pushed_at;
      call->times.read = run->second.read;
      call->times.started = run->second.started;
      call->times.finished = run->second.finished;
      call->times.reported = run->second.reported;
      call->times.device_time_ns = run->second.device_time_ns;
      tell_rounds(run->second.rounds, *call);
      for (const auto& kernel : run->second.kernels) call->kernels.push_back({kernel.launches, kernel.time_ns});
    }
  if (action.end != sched::End::kDone) call->error = answer_error(action.end, *call, report);
  call->retry_after = action.retry_after;
  call->times.answered = os::now();
  give_back(std::move(call));
}

void Runner::carry_out(const sched::WakeAt& action) { next_wake_ = action.time; }

}  // namespace quern::daemon
