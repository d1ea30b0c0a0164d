// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/units.h"
#include "daemon/deployer.h"
#include "daemon/discover.h"
#include "daemon/profile_keeper.h"
#include "daemon/registry.h"
#include "daemon/runner.h"
#include "daemon/standings_keeper.h"
#include "daemon/state.h"
#include "daemon/tenant_objects.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

/// The tensors of the tenants of one domain on their way.
struct DomainArenas {
  uint64_t id = 0;
  std::shared_ptr<ipc::Arena> input, output;
};

// Code is loaded from there: memory is five times as fast as a disk, where it may hold code at all. The name follows
// from the state folder, so that what a killed server left is found and cleared away by the next.
std::string run_folder_for(const std::string& state_folder) {
  if (os::can_hold_code("/dev/shm"))
    return fmt::format("/dev/shm/quern-{}-{}", getuid(), sha256(os::absolute(state_folder)).substr(0, 12));
  return state_folder + "/run";
}

class LiveDaemon final : public Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> create(Config config);
  ~LiveDaemon() override { stop(Duration{0}); }

  void stop(Duration limit) override;
  Result<const Tenant*> authenticate(std::string_view key) const override;
  Result<FunctionRef> find(const Tenant& tenant, std::string_view name, std::string_view version) const override;
  std::vector<FunctionRef> functions(const Tenant& tenant) const override;
  std::vector<DeviceStatus> devices() const override;
  Counters counters() const override;
  bool is_ready() const override;
  void deploy(const Tenant& tenant, std::string name, Bytes tar, std::function<void(Result<Deployed>)> done) override;
  Status remove(const Tenant& tenant, std::string_view name) override;
  Result<History> history(const Tenant& tenant, std::string_view name) const override {
    return deployer_->history(tenant.name, name);
  }
  Result<FunctionRef> rollback(const Tenant& tenant, std::string_view name, std::string_view version) override;
  Result<FunctionRef> set(const Tenant& tenant, std::string_view name,
                          const std::map<std::string, std::string>& changes) override;
  Status admits(const Tenant& tenant, Duration* retry_after) const override;
  Result<std::unique_ptr<Call>> prepare(const Tenant& tenant, const FunctionRef& function, const CallSpec& spec,
                                        const CallOptions& options) override;
  void submit(std::unique_ptr<Call> call, std::function<void(std::unique_ptr<Call>)> done) override;
  void cancel(const std::string& call_id) override;
  Result<ProgramLink> join(const Tenant& tenant, const ProgramSpec& spec) override;
  void leave(uint64_t program) override;
  void trace(const Tenant& tenant, std::string id, Duration length, std::function<void(Result<Trace>)> done) override;
  void end_trace(const std::string& id) override { (void)runner_->post(EndTraceMessage{id, nullptr, {}}); }
  void end_trace(const Tenant& tenant, std::function<void(Status)> done) override;
  void requests(const Tenant& tenant, std::function<void(Result<std::vector<RequestStatus>>)> done) override;
  void cancel(const Tenant& tenant, const std::string& call_id, std::function<void(Status)> done) override;
  void why(const Tenant& tenant, const std::string& call_id, std::function<void(Result<Story>)> done) override;
  void memory(const Tenant& tenant, std::function<void(Result<std::vector<MemoryPlace>>)> done) override;
  void accounts(const Tenant& tenant, AccountBy by, std::function<void(Result<AccountTable>)> done) override;
  void profile(const Tenant& tenant, std::string_view name, std::string_view version,
               std::function<void(Result<FunctionProfile>)> done) override;
  Status keep(const Tenant& tenant, std::string_view name, KeepWarm stage, Duration lease) override;
  void put_object(const Tenant& tenant, Upload upload, std::function<void(Result<ObjectStatus>)> done) override {
    objects_->put(tenant.name, std::move(upload), std::move(done));
  }
  void open_objects(const Tenant& tenant, std::vector<std::string> ids,
                    std::function<void(Result<std::vector<ObjectRef>>)> done) override {
    objects_->open(tenant.name, std::move(ids), os::now(), std::move(done));
  }
  void read_object(const Tenant& tenant, std::string id, bool keep,
                   std::function<void(Result<ObjectRef>)> done) override {
    objects_->read(tenant.name, std::move(id), keep, os::now(), std::move(done));
  }
  void unread_object(const ObjectRef& object) override { objects_->unread(object, os::now()); }
  void remove_object(const Tenant& tenant, std::string id, std::function<void(Status)> done) override {
    objects_->remove(tenant.name, std::move(id), os::now(), std::move(done));
  }
  void objects(const Tenant& tenant, std::function<void(Result<std::vector<ObjectStatus>>)> done) override {
    objects_->list(tenant.name, os::now(), std::move(done));
  }
  void keep_outputs(Call& call) override;
  void count_copied(uint64_t bytes) override { copied_bytes_ += bytes; }

 private:
  explicit LiveDaemon(Config config);
  /// Its settings say how far the current version stays ready; those before it do not.
  void keep_as_set(const Tenant& tenant, std::string_view name);
  std::vector<sched::TenantSet> tenant_sets(const std::map<std::string, int64_t>& vtimes) const;
  Status check_fits(const DeployedFunction& function, const Settings& settings, const LiveCall& call) const;
  Status give_room(LiveCall& call, const CallSpec& spec, const CallOptions& options, const Manifest& manifest);
  Result<ipc::Block> keep_later(LiveCall& call, CallTensor& output, ipc::Block block, Duration lease);
  /// The number in an id of ours; 0 if it is none.
  uint64_t request_of(const std::string& call_id) const;

  // Constant after create().
  Config config_;
  std::string run_folder_;
  std::deque<Tenant> tenants_;
  std::map<std::string, const Tenant*, std::less<>> by_key_;  ///< by SHA-256 of the key
  std::map<std::string, DomainArenas> domains_;
  std::string id_prefix_;
  // Any thread.
  Registry registry_;
  std::atomic<uint64_t> next_request_{1};
  std::atomic<uint64_t> copied_bytes_{0};
  std::atomic<bool> stopped_{false};
  std::shared_ptr<Deployer::Gone> gone_ = std::make_shared<Deployer::Gone>();
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<HostTier> tier_;  ///< hands over to the runner
  std::unique_ptr<Deployer> deployer_;
  std::unique_ptr<TenantObjects> objects_;
  bool has_own_memory_ = false;  ///< some device has
  std::unique_ptr<StandingsKeeper> standings_;
  std::unique_ptr<ProfileKeeper> profiles_;
};

LiveDaemon::LiveDaemon(Config config) : config_(std::move(config)) {
  if (config_.tenants.empty()) config_.tenants.push_back({"default", "", "", 1, {}});
  for (const TenantConfig& tenant : config_.tenants) {
    const std::string domain = tenant.domain.empty() ? tenant.name : tenant.domain;
    DomainArenas& arenas = domains_[domain];
    if (arenas.id == 0) {
      arenas.id = domains_.size();
      arenas.input = ipc::Arena::create("input", ipc::Direction::kInput, config_.arena_bytes);
      arenas.output = ipc::Arena::create("output", ipc::Direction::kOutput, config_.arena_bytes);
    }
    Tenant& known = tenants_.emplace_back();
    known.id = tenants_.size();
    known.name = tenant.name;
    known.domain = domain;
    known.domain_id = arenas.id;
    known.weight = tenant.weight;
    known.limits = tenant.limits;
    by_key_[tenant.key_sha256] = &tenants_.back();
  }
  // Ids of two runs of the server differ, so that a log line or an answer is never taken for another's.
  id_prefix_ = sha256(fmt::format("{} {} {}", os::wall_time(), os::now().ns, getpid())).substr(0, 8);
}

Result<std::unique_ptr<Daemon>> LiveDaemon::create(Config config) {
  std::unique_ptr<LiveDaemon> self(new LiveDaemon(std::move(config)));
  QUERN_TRY(os::make_folders(self->config_.state_folder));
  QUERN_TRY(auto state, State::open(self->config_.state_folder));
  // We hold the state's lock, so nobody else uses this folder.
  self->run_folder_ = run_folder_for(self->config_.state_folder);
  os::remove_tree(self->run_folder_);
  QUERN_TRY(os::make_folders(self->run_folder_, 0700));
  if (self->config_.devices.empty()) {
    QUERN_TRY(self->config_.devices, discover_devices(self->run_folder_ + "/discover"));
  }
  QUERN_TRY(const auto vtimes, state->vtimes());
  QUERN_TRY(auto learned, state->profiles());
  QUERN_TRY(self->tier_, HostTier::create(state->objects(), self->config_.host_cores));
  QUERN_TRY(self->runner_, Runner::create(self->config_, self->run_folder_, self->tenant_sets(vtimes), *self->tier_));
  self->runner_->remember(std::move(learned));
  std::vector<const DeviceRecord*> targets;
  std::set<std::string> kinds;
  for (const auto& device : self->runner_->devices()) {
    if (kinds.insert(device->caps.build_key).second) targets.push_back(device.get());
    self->has_own_memory_ |= !device->in_place();
    os::log_info("device {}: {} ({}), {} units, {}", device->config.name, device->caps.name, device->caps.driver,
                 device->caps.units, show_bytes(device->caps.memory_bytes));
  }
  QUERN_TRY(os::Event stop, os::Event::create());
  self->deployer_ = std::make_unique<Deployer>(self->config_, self->run_folder_, std::move(targets), std::move(state),
                                               std::move(stop), self->registry_, self->gone_, self->tier_.get());
  QUERN_TRY(self->deployer_->recover());
  ObjectLimits limits;
  limits.memory_bytes = host_bytes_of(self->config_);
  std::function<PassingRef()> new_passing;
  if (self->has_own_memory_) new_passing = [runner = self->runner_.get()] { return runner->new_passing(); };
  self->objects_ =
      std::make_unique<TenantObjects>(*self->deployer_, self->config_.host_cores, limits, std::move(new_passing));
  *self->gone_ = [runner = self->runner_.get()](uint64_t function) {
    (void)runner->post(FunctionGoneMessage{function});
  };
  std::vector<std::string> names;
  for (const Tenant& tenant : self->tenants_) names.push_back(tenant.name);
  QUERN_TRY(self->standings_, StandingsKeeper::create(*self->runner_, *self->deployer_, std::move(names)));
  QUERN_TRY(self->profiles_, ProfileKeeper::create(*self->runner_, *self->deployer_));
  for (const Tenant& tenant : self->tenants_)
    for (const DeployedRef& function : self->registry_.list(tenant.name)) self->keep_as_set(tenant, function->name);
  self->runner_->start();
  self->deployer_->start();
  self->objects_->start();
  self->standings_->start();
  self->profiles_->start();
  return std::unique_ptr<Daemon>(std::move(self));
}

void LiveDaemon::keep_as_set(const Tenant& tenant, std::string_view name) {
  bool is_current = true;
  for (const DeployedRef& function : registry_.versions(tenant.name, name)) {
    const KeepWarm wanted = function->live_settings->get().keep_warm;
    const auto stage = std::exchange(is_current, false) ? static_cast<sched::Stage>(wanted) : sched::Stage::kNothing;
    (void)runner_->post(KeepMessage{function, tenant.domain_id, stage, Time::never()});
  }
}

std::vector<sched::TenantSet> LiveDaemon::tenant_sets(const std::map<std::string, int64_t>& vtimes) const {
  std::vector<sched::TenantSet> sets;
  for (const Tenant& tenant : tenants_) {
    const TenantLimits& limits = tenant.limits;
    sched::TenantSet& one = sets.emplace_back();
    one.tenant = {tenant.id};
    one.weight = tenant.weight;
    one.limits = {limits.in_flight, limits.queued, limits.memory_bytes, limits.priority};
    if (const auto stood = vtimes.find(tenant.name); stood != vtimes.end()) one.vtime = stood->second;
  }
  return sets;
}

void LiveDaemon::stop(Duration limit) {
  if (stopped_.exchange(true)) return;
  if (objects_) objects_->stop();
  if (deployer_) deployer_->stop();
  if (runner_) runner_->stop(limit);
  if (tier_) tier_->stop();
  if (standings_) standings_->stop();
  if (profiles_) profiles_->stop();
  // From here on nobody listens: functions that are let go of are just let go of.
  *gone_ = nullptr;
  os::remove_tree(run_folder_);
}

Result<const Tenant*> LiveDaemon::authenticate(std::string_view key) const {
  if (config_.tenants.front().key_sha256.empty()) return &tenants_.front();
  if (key.empty()) return denied("no key was sent; send 'Authorization: Bearer KEY'");
  const auto it = by_key_.find(sha256(key));
  if (it == by_key_.end()) return denied("the key is not known; check it");
  return it->second;
}

Result<FunctionRef> LiveDaemon::find(const Tenant& tenant, std::string_view name, std::string_view version) const {
  QUERN_TRY(DeployedRef function, registry_.find(tenant.name, name, version));
  return FunctionRef(std::move(function));
}

std::vector<FunctionRef> LiveDaemon::functions(const Tenant& tenant) const {
  const auto deployed = registry_.list(tenant.name);
  return {deployed.begin(), deployed.end()};
}

std::vector<DeviceStatus> LiveDaemon::devices() const {
  std::vector<DeviceStatus> list;
  for (const auto& device : runner_->devices()) {
    DeviceStatus status;
    status.name = device->config.name;
    status.driver = device->config.driver;
    status.model = device->caps.name;
    status.is_up = device->is_up;
    status.memory_bytes = device->caps.memory_bytes;
    status.units = device->caps.units;
    status.cores = device->config.cores;
    status.in_place = device->in_place();
    status.worker_classes = device->caps.worker_classes;
    status.executors = device->executors;
    status.running = device->running;
    status.runs_ended = device->runs_ended;
    status.device_time_ns = device->device_time_ns;
    list.push_back(std::move(status));
  }
  return list;
}

Counters LiveDaemon::counters() const {
  const RunnerCounters& runner = runner_->counters();
  Counters counters;
  counters.copied_bytes = copied_bytes_ + objects_->copied_bytes();
  counters.builds = deployer_->builds();
  counters.executors_started = runner.executors_started;
  counters.executors_lost = runner.executors_lost;
  counters.evictions = runner.evictions;
  counters.exits = runner.exits;
  counters.prefetches = runner.prefetches;
  counters.object_hits = runner.hits;
  counters.object_misses = runner.misses;
  counters.loads = runner.loads;
  counters.loaded_bytes = runner.loaded_bytes;
  counters.fetches = runner.fetches;
  counters.fetched_bytes = runner.fetched_bytes;
  counters.queued = runner.queued;
  counters.past_gate = runner.past_gate;
  counters.fairness_lag_ns = runner.fairness_lag_ns;
  counters.fairness_bound_ns = runner.fairness_bound_ns;
  counters.standings_saved = standings_->saved();
  counters.profiles_saved = profiles_->saved();
  return counters;
}

bool LiveDaemon::is_ready() const {
  return !stopped_ && std::any_of(runner_->devices().begin(), runner_->devices().end(),
                                  [](const auto& device) { return device->is_up.load(); });
}

void LiveDaemon::deploy(const Tenant& tenant, std::string name, Bytes tar, std::function<void(Result<Deployed>)> done) {
  deployer_->deploy(tenant.name, std::move(name), std::move(tar),
                    [this, &tenant, done = std::move(done)](Result<Deployed> deployed) {
                      if (deployed.ok()) keep_as_set(tenant, deployed->function->name);
                      done(std::move(deployed));
                    });
}

Status LiveDaemon::remove(const Tenant& tenant, std::string_view name) {
  QUERN_TRY(const auto versions, deployer_->remove(tenant.name, name));
  // Those that wait end now; those that run may end.
  for (const DeployedRef& function : versions) (void)runner_->post(FunctionGoneMessage{function->id});
  return {};
}

Result<FunctionRef> LiveDaemon::rollback(const Tenant& tenant, std::string_view name, std::string_view version) {
  QUERN_TRY(DeployedRef function, deployer_->rollback(tenant.name, name, version));
  keep_as_set(tenant, name);
  return FunctionRef(std::move(function));
}

Result<FunctionRef> LiveDaemon::set(const Tenant& tenant, std::string_view name,
                                    const std::map<std::string, std::string>& changes) {
  QUERN_TRY(DeployedRef function, deployer_->set(tenant.name, name, changes));
  if (changes.contains("keep_warm")) keep_as_set(tenant, name);  // it ends leases, too
  return FunctionRef(std::move(function));
}

Status LiveDaemon::keep(const Tenant& tenant, std::string_view name, KeepWarm stage, Duration lease) {
  QUERN_TRY(const DeployedRef function, registry_.find(tenant.name, name, ""));
  if (stage == KeepWarm::kNothing || lease.ns <= 0) {
    keep_as_set(tenant, name);
    return {};
  }
  const auto wanted = std::max(stage, function->live_settings->get().keep_warm);
  if (!runner_->post(KeepMessage{function, tenant.domain_id, static_cast<sched::Stage>(wanted),
                                 os::now() + std::min(lease, kLongestLease)}))
    return exhausted("the server has more to do than it can take; retry later");
  return {};
}

void LiveDaemon::memory(const Tenant& tenant, std::function<void(Result<std::vector<MemoryPlace>>)> done) {
  const auto shared = std::make_shared<std::function<void(Result<std::vector<MemoryPlace>>)>>(std::move(done));
  const auto told = [this, shared, &tenant](std::vector<MemoryPlace> places) {
    for (MemoryPlace& place : places)
      if (place.is_host) objects_->show(tenant.name, os::now(), place);
    (*shared)(std::move(places));
  };
  if (!runner_->post(MemoryMessage{&tenant, told}))
    (*shared)(exhausted("the server has more to do than it can take; retry later"));
}

void LiveDaemon::accounts(const Tenant& tenant, AccountBy by, std::function<void(Result<AccountTable>)> done) {
  const auto shared = std::make_shared<std::function<void(Result<AccountTable>)>>(std::move(done));
  if (!runner_->post(AccountsMessage{&tenant, by, [shared](AccountTable table) { (*shared)(std::move(table)); }}))
    (*shared)(exhausted("the server has more to do than it can take; retry later"));
}

void LiveDaemon::why(const Tenant& tenant, const std::string& call_id, std::function<void(Result<Story>)> done) {
  const auto shared = std::make_shared<std::function<void(Result<Story>)>>(std::move(done));
  if (!runner_->post(StoryMessage{&tenant, call_id, [shared](Result<Story> story) { (*shared)(std::move(story)); }}))
    (*shared)(exhausted("the server has more to do than it can take; retry later"));
}

void LiveDaemon::profile(const Tenant& tenant, std::string_view name, std::string_view version,
                         std::function<void(Result<FunctionProfile>)> done) {
  const auto shared = std::make_shared<std::function<void(Result<FunctionProfile>)>>(std::move(done));
  const auto function = registry_.find(tenant.name, name, version);
  if (!function.ok() && !version.empty()) return (*shared)(function.error());
  // Else it may be a program.
  if (!runner_->post(ProfileMessage{&tenant, std::string(name), function.ok() ? *function : nullptr,
                                    [shared, function](std::optional<FunctionProfile> profile) {
                                      (*shared)(profile ? Result<FunctionProfile>(*std::move(profile))
                                                        : function.error());
                                    }}))
    (*shared)(exhausted("the server has more to do than it can take; retry later"));
}

Status LiveDaemon::admits(const Tenant& tenant, Duration* retry_after) const {
  if (stopped_) return unavailable("the server is stopping; retry elsewhere or later");
  // What is on its way waits, or runs: at least this many wait. The core knows exactly, once the body is read.
  const sched::Config& core = runner_->core_config();
  const uint64_t may_run = runner_->devices().size() * core.runs_in_flight;
  const uint64_t may_wait = tenant.limits.queued ? tenant.limits.queued : core.most_queued_per_tenant;
  if (runner_->counters().queued < core.most_queued && tenant.on_their_way < may_wait + may_run) return {};
  if (retry_after) *retry_after = Duration::seconds(1);
  return exhausted(fmt::format("tenant {}: too many requests are waiting; retry later", tenant.name));
}

Status LiveDaemon::check_fits(const DeployedFunction& function, const Settings& settings, const LiveCall& call) const {
  const Plan& plan = call.plan->plan;
  uint64_t bytes = call.plan->run_bytes + function.object_bytes();
  for (const PlannedBuffer& buffer : plan.buffers) bytes += buffer.passed ? buffer.size_bytes : 0;
  const auto& limit = settings.memory_bytes;
  if (limit && bytes > *limit)
    return invalid(fmt::format("function {}: this call needs {} and limits.memory is {}", function.name,
                               show_bytes(bytes), show_bytes(*limit)));
  uint64_t most = 0, most_at_once = 0;
  for (const auto& device : runner_->devices()) {
    most = std::max(most, device->usable_bytes());
    most_at_once = std::max(most_at_once, device->caps.max_allocation_bytes);
  }
  if (bytes > most)
    return invalid(fmt::format("function {}: this call needs {} of device memory, and the largest device has {}",
                               function.name, show_bytes(bytes), show_bytes(most)));
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.size_bytes > most_at_once)
      return invalid(fmt::format("function {}: a buffer of {} is more than any device allocates at once ({})",
                                 function.name, show_bytes(buffer.size_bytes), show_bytes(most_at_once)));
  return {};
}

Result<std::unique_ptr<Call>> LiveDaemon::prepare(const Tenant& tenant, const FunctionRef& function,
                                                  const CallSpec& spec, const CallOptions& options) {
  auto deployed = std::static_pointer_cast<const DeployedFunction>(function);
  const Manifest& manifest = deployed->manifest;
  QUERN_TRY(const Binding binding, bind(manifest, spec));
  auto call = std::make_unique<LiveCall>();
  QUERN_TRY(call->plan, deployed->plan_for(binding));
  std::vector<uint32_t> passed;
  if (has_own_memory_) passed = passed_inputs(manifest, call->plan->plan, spec, options);
  if (!passed.empty()) {
    QUERN_TRY(call->plan, deployed->plan_for(binding, passed));
  }
  const Settings settings = deployed->settings();
  QUERN_TRY(check_fits(*deployed, settings, *call));
  QUERN_TRY(call->scalars, scalars_of(manifest, call->plan->plan, binding));
  call->request = next_request_.fetch_add(1);
  call->id = fmt::format("{}-{}", id_prefix_, call->request);
  call->tenant = &tenant;
  call->timeout = std::min(options.timeout.value_or(settings.timeout), settings.timeout);
  call->device_time = settings.device_time.value_or(call->timeout);
  call->priority = options.priority.value_or(settings.priority);
  call->quota = quota_of(settings);
  call->profile = options.profile;

  QUERN_TRY(give_room(*call, spec, options, manifest));
  call->function = std::move(deployed);
  return std::unique_ptr<Call>(std::move(call));
}

// Inputs that are objects have their memory already.
Status LiveDaemon::give_room(LiveCall& call, const CallSpec& spec, const CallOptions& options,
                             const Manifest& manifest) {
  // What leases that are over still hold is the arena's again.
  objects_->sweep(os::now());
  const DomainArenas& arenas = domains_.at(call.tenant->domain);
  const Plan& plan = call.plan->plan;
  call.blocks = std::make_shared<std::vector<ipc::Block>>();
  call.inputs.resize(spec.inputs.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    if (buffer.role != Role::kInput && buffer.role != Role::kOutput) continue;
    const std::string& name = manifest.buffers[i].name;
    CallTensor tensor{name, buffer.dtype, buffer.shape, {}};
    ipc::Block block;
    if (buffer.role == Role::kInput) {
      const auto found =
          std::find_if(spec.inputs.begin(), spec.inputs.end(), [&](auto& in) { return in.name == name; });
      QUERN_CHECK(found != spec.inputs.end(), "bind let a call without one of its inputs pass");
      const auto at = static_cast<size_t>(found - spec.inputs.begin());
      if (at < options.objects.size() && options.objects[at]) {
        const auto object = std::static_pointer_cast<const MappedObject>(options.objects[at]);
        QUERN_CHECK(object->tenant == call.tenant->name, "an object of another tenant");
        if (object->bytes.size() != buffer.size_bytes)
          return invalid(fmt::format("input {}: object {} has {} bytes, but {} of shape {} takes {}", name, object->id,
                                     object->bytes.size(), protocol_name_of(buffer.dtype), show_shape(buffer.shape),
                                     buffer.size_bytes));
        block = block_of(object);
        call.borrowed.push_back(static_cast<uint32_t>(call.blocks->size()));
        if (buffer.passed) call.pass(object->number, buffer.size_bytes, object->id.substr(0, 12));
      } else {
        QUERN_TRY(block, arenas.input->take(buffer.size_bytes));
        if (buffer.passed) call.pass(runner_->new_passing(), buffer.size_bytes, name);
      }
      tensor.bytes = block.bytes();
      call.inputs[at] = std::move(tensor);
    } else {
      QUERN_TRY(block, arenas.output->take(buffer.size_bytes));
      tensor.bytes = block.bytes();
      if (const auto kept = options.kept.find(name); kept != options.kept.end()) {
        QUERN_TRY(block, keep_later(call, tensor, std::move(block), kept->second));
      }
      call.outputs.push_back(std::move(tensor));
    }
    call.blocks->push_back(std::move(block));
  }
  return {};
}

// The lease owns the memory and the call borrows it, so that either may end first.
Result<ipc::Block> LiveDaemon::keep_later(LiveCall& call, CallTensor& output, ipc::Block block, Duration lease) {
  const auto owned = std::make_shared<const ipc::Block>(std::move(block));
  QUERN_TRY(LeaseRef made, objects_->reserve(call.tenant->name, owned, lease, os::now()));
  output.object = made->id;
  output.lease = lease;
  if (made->number && owned->size() > 0)
    call.leaves.push_back({made->number, static_cast<uint32_t>(call.blocks->size()), made->id.substr(0, 12), lease});
  call.kept.push_back(std::move(made));
  return ipc::Block::borrow(owned->segment(), owned->offset(), owned->size(), owned);
}

void LiveDaemon::keep_outputs(Call& call) {
  for (LeaseRef& lease : std::exchange(static_cast<LiveCall&>(call).kept, {}))
    objects_->keep(std::move(lease), os::now());
}

void LiveDaemon::submit(std::unique_ptr<Call> call, std::function<void(std::unique_ptr<Call>)> done) {
  std::unique_ptr<LiveCall> live(static_cast<LiveCall*>(call.release()));
  live->times.submitted = os::now();
  live->done = std::move(done);
  ++live->tenant->on_their_way;
  SubmitMessage message{std::move(live)};
  Message posted(std::move(message));
  if (runner_->post(std::move(posted))) return;
  // `post` took nothing: the strand has more than it can take.
  auto& left = std::get<SubmitMessage>(posted).call;
  left->error = exhausted("too many requests are waiting; retry later");
  left->retry_after = Duration::seconds(1);
  give_back(std::move(left));
}

uint64_t LiveDaemon::request_of(const std::string& call_id) const {
  const size_t dash = call_id.rfind('-');
  if (dash == std::string::npos || call_id.compare(0, dash, id_prefix_) != 0) return 0;
  uint64_t number = 0;
  const char* end = call_id.data() + call_id.size();
  const auto [rest, problem] = std::from_chars(call_id.data() + dash + 1, end, number);
  return problem == std::errc() && rest == end ? number : 0;
}

void LiveDaemon::cancel(const std::string& call_id) {
  if (const uint64_t request = request_of(call_id)) (void)runner_->post(CancelMessage{request, nullptr, nullptr});
}

void LiveDaemon::cancel(const Tenant& tenant, const std::string& call_id, std::function<void(Status)> done) {
  // Shared, for what is posted may come back, and what is moved into a message does not.
  const auto told = std::make_shared<std::function<void(Status)>>(std::move(done));
  const auto none = [call_id] {
    return not_found(fmt::format("request {}: has ended, or never was; 'quern requests' lists them", call_id));
  };
  const uint64_t request = request_of(call_id);
  if (request == 0) return (*told)(none());
  if (!runner_->post(CancelMessage{request, &tenant,
                                   [told, none](bool is_theirs) { (*told)(is_theirs ? Status() : Status(none())); }}))
    (*told)(exhausted("too many requests are waiting; retry later"));
}

Result<ProgramLink> LiveDaemon::join(const Tenant& tenant, const ProgramSpec& spec) {
  std::promise<Result<ProgramLink>> promise;
  auto link = promise.get_future();
  if (!runner_->post(JoinMessage{&tenant, spec, [&](Result<ProgramLink> end) { promise.set_value(std::move(end)); }}))
    return exhausted("too many requests are waiting; retry later");
  return link.get();
}

void LiveDaemon::leave(uint64_t program) {
  while (!runner_->post(LeaveMessage{program})) std::this_thread::yield();
}

void LiveDaemon::trace(const Tenant& tenant, std::string id, Duration length, std::function<void(Result<Trace>)> done) {
  const auto told = std::make_shared<decltype(done)>(std::move(done));
  if (!runner_->post(TraceMessage{&tenant, std::move(id), std::min(length, kLongestTrace),
                                  [told](Result<Trace> trace) { (*told)(std::move(trace)); }}))
    (*told)(exhausted("too many requests are waiting; retry later"));
}

void LiveDaemon::end_trace(const Tenant& tenant, std::function<void(Status)> done) {
  const auto told = std::make_shared<decltype(done)>(std::move(done));
  if (!runner_->post(EndTraceMessage{"", &tenant, [told](Status status) { (*told)(std::move(status)); }}))
    (*told)(exhausted("too many requests are waiting; retry later"));
}

void LiveDaemon::requests(const Tenant& tenant, std::function<void(Result<std::vector<RequestStatus>>)> done) {
  const auto told = std::make_shared<decltype(done)>(std::move(done));
  if (!runner_->post(ListMessage{&tenant, [told](std::vector<RequestStatus> list) { (*told)(std::move(list)); }}))
    (*told)(exhausted("too many requests are waiting; retry later"));
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::create(Config config) { return LiveDaemon::create(std::move(config)); }

}  // namespace quern::daemon
