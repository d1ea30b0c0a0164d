// SPDX-License-Identifier: Apache-2.0
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
#include "daemon/live_daemon.h"
#include "daemon/profile_keeper.h"
#include "daemon/registry.h"
#include "daemon/run_folder.h"
#include "daemon/runner.h"
#include "daemon/standings_keeper.h"
#include "daemon/state.h"
#include "daemon/tenant_objects.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

Error strand_is_full() { return exhausted("the server has more to do than it can take; retry later"); }

// Asks the strand a question. `make` gets the callback that the strand is to call with the answer, and returns the
// message that holds the callback. `done` is called once: with the answer, on the thread of the strand, or with
// kExhausted before this returns, where the mailbox of the strand is full.
template <class Answer, class Make>
void ask_strand(Runner& runner, std::function<void(Answer)> done, Make make) {
  // Shared, for a message that is refused is destroyed with its callback, and `done` is still to be called.
  const auto shared = std::make_shared<std::function<void(Answer)>>(std::move(done));
  if (!runner.post(make([shared](auto answer) { (*shared)(std::move(answer)); }))) (*shared)(strand_is_full());
}

}  // namespace

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
  QUERN_TRY(auto state, State::open(self->config_.state_folder, self->config_.before_disk));
  QUERN_TRY(RunFolder folder, make_run_folder(self->config_.state_folder));
  self->run_folder_ = std::move(folder.path);
  self->run_lock_ = std::move(folder.lock);
  if (self->config_.devices.empty()) {
    QUERN_TRY(self->config_.devices, discover_devices(self->run_folder_ + "/discover"));
  }
  QUERN_TRY(const auto vtimes, state->vtimes());
  QUERN_TRY(auto learned, state->profiles());
  QUERN_TRY(self->tier_, HostTier::create(state->objects(), self->config_.host_cores));
  QUERN_TRY(self->runner_,
            Runner::create(self->config_, self->run_folder_, self->tenant_sets(vtimes), *self->tier_, self->counters_));
  self->runner_->remember(std::move(learned));
  std::vector<const DeviceRecord*> targets;
  std::set<std::string> kinds;
  std::vector<CoreUser> core_users;
  for (const auto& device : self->runner_->devices()) {
    if (kinds.insert(device->caps.build_key).second) targets.push_back(device.get());
    self->has_own_memory_ |= !device->in_place();
    os::log_info("device {}: {} ({}), {} units, {}", device->config.name, device->caps.name, device->caps.driver,
                 device->caps.units, show_bytes(device->caps.memory_bytes));
    // Workers that are threads of this machine; the key of its builds tells one driver from another.
    if (device->caps.worker_classes)
      core_users.push_back({device->config.name, device->caps.build_key, device->config.cores});
  }
  for (const std::string& warning : warnings_of_shared_cores(core_users)) os::log_warning("{}", warning);
  QUERN_TRY(os::Event stop, os::Event::create());
  self->deployer_ =
      std::make_unique<Deployer>(self->config_, self->run_folder_, std::move(targets), std::move(state),
                                 std::move(stop), self->registry_, self->gone_, self->counters_, self->tier_.get());
  QUERN_TRY(self->deployer_->recover());
  ObjectLimits limits;
  limits.memory_bytes = host_bytes_of(self->config_);
  std::function<PassingRef()> new_passing;
  if (self->has_own_memory_) new_passing = [runner = self->runner_.get()] { return runner->new_passing(); };
  self->objects_ =
      std::make_unique<TenantObjects>(*self->deployer_, self->config_.host_cores, limits, std::move(new_passing));
  *self->gone_ = [runner = self->runner_.get()](uint64_t function) { runner->tell_gone(function); };
  std::vector<std::string> names;
  for (const Tenant& tenant : self->tenants_) names.push_back(tenant.name);
  QUERN_TRY(self->standings_, StandingsKeeper::create(*self->runner_, *self->deployer_, std::move(names)));
  QUERN_TRY(self->profiles_, ProfileKeeper::create(*self->runner_, *self->deployer_));
  self->runner_->start();
  self->deployer_->start([self = self.get()](const DeployedRef& function) {
    for (const Tenant& tenant : self->tenants_)
      if (tenant.name == function->tenant) self->keep_as_set(tenant, function->name);
  });
  self->objects_->start();
  self->standings_->start();
  self->profiles_->start();
  return std::unique_ptr<Daemon>(std::move(self));
}

void LiveDaemon::keep_as_set(const Tenant& tenant, std::string_view name) {
  const std::vector<VersionSlot> slots = registry_.slots(tenant.name, name);
  for (const VersionSlot& slot : slots) {
    if (!slot.function) continue;
    // The first slot is the current version, ready or not: an older one is not kept in its place.
    const bool is_current = &slot == &slots.front();
    const KeepWarm wanted = slot.function->live_settings->get().keep_warm;
    const auto stage = is_current ? static_cast<sched::Stage>(wanted) : sched::Stage::kNothing;
    (void)runner_->post(KeepMessage{slot.function, tenant.domain_id, stage, Time::never()});
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
  if (deployer_) deployer_->stop_deploys();
  if (objects_) objects_->stop();
  if (deployer_) deployer_->stop();
  if (runner_) runner_->stop(limit);
  if (tier_) tier_->stop();
  if (standings_) standings_->stop();
  if (profiles_) profiles_->stop();
  // From here on nobody listens: functions that are let go of are just let go of.
  *gone_ = nullptr;
  if (!run_folder_.empty()) remove_run_folder(run_folder_);
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

bool LiveDaemon::is_ready() const {
  return !stopped_ && std::any_of(runner_->devices().begin(), runner_->devices().end(),
                                  [](const auto& device) { return device->is_up.load(); });
}

std::vector<FunctionRef> LiveDaemon::versions(const Tenant& tenant, std::string_view name) const {
  const auto versions = registry_.versions(tenant.name, name);
  return {versions.begin(), versions.end()};
}

void LiveDaemon::deploy(const Tenant& tenant, std::string id, std::string name, std::unique_ptr<Upload> tar,
                        std::function<void(Result<Deployed>)> done) {
  deployer_->deploy(tenant.name, std::move(id), std::move(name), std::move(tar),
                    [this, &tenant, done = std::move(done)](Result<Deployed> deployed) {
                      if (deployed.ok()) keep_as_set(tenant, deployed->function->name);
                      done(std::move(deployed));
                    });
}

void LiveDaemon::remove(const Tenant& tenant, std::string name, std::function<void(Status)> done) {
  deployer_->remove(tenant.name, std::move(name),
                    [this, done = std::move(done)](Result<std::vector<DeployedRef>> versions) {
                      if (!versions.ok()) return done(std::move(versions).error());
                      // Waiting requests end now; running requests may end.
                      for (const DeployedRef& function : *versions) runner_->tell_gone(function->id);
                      done({});
                    });
}

void LiveDaemon::rollback(const Tenant& tenant, std::string name, std::string version,
                          std::function<void(Result<FunctionRef>)> done) {
  deployer_->rollback(tenant.name, std::move(name), std::move(version),
                      [this, &tenant, done = std::move(done)](Result<DeployedRef> function) {
                        if (!function.ok()) return done(std::move(function).error());
                        keep_as_set(tenant, (*function)->name);
                        done(FunctionRef(*std::move(function)));
                      });
}

void LiveDaemon::set(const Tenant& tenant, std::string name, std::map<std::string, std::string> changes,
                     std::function<void(Result<FunctionRef>)> done) {
  const bool keeps = changes.contains("keep_warm");
  deployer_->set(tenant.name, std::move(name), std::move(changes),
                 [this, &tenant, keeps, done = std::move(done)](Result<DeployedRef> function) {
                   if (!function.ok()) return done(std::move(function).error());
                   if (keeps) keep_as_set(tenant, (*function)->name);  // it ends leases, too
                   done(FunctionRef(*std::move(function)));
                 });
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
    return strand_is_full();
  return {};
}

void LiveDaemon::memory(const Tenant& tenant, std::function<void(Result<std::vector<MemoryPlace>>)> done) {
  ask_strand(*runner_, std::move(done), [&](auto told) {
    return MemoryMessage{&tenant, [this, &tenant, told](std::vector<MemoryPlace> places) {
                           for (MemoryPlace& place : places)
                             if (place.is_host) objects_->show(tenant.name, os::now(), place);
                           told(std::move(places));
                         }};
  });
}

void LiveDaemon::accounts(const Tenant& tenant, AccountBy by, std::function<void(Result<AccountTable>)> done) {
  ask_strand(*runner_, std::move(done), [&](auto told) { return AccountsMessage{&tenant, by, told}; });
}

void LiveDaemon::why(const Tenant& tenant, const std::string& call_id, std::function<void(Result<Story>)> done) {
  ask_strand(*runner_, std::move(done), [&](auto told) { return StoryMessage{&tenant, call_id, told}; });
}

void LiveDaemon::profile(const Tenant& tenant, std::string_view name, std::string_view version,
                         std::function<void(Result<FunctionProfile>)> done) {
  const auto function = registry_.find(tenant.name, name, version);
  if (!function.ok() && !version.empty()) return done(function.error());
  // Else the name may be that of a program.
  ask_strand(*runner_, std::move(done), [&](auto told) {
    return ProfileMessage{&tenant, std::string(name), function.ok() ? *function : nullptr,
                          [told, function](std::optional<FunctionProfile> profile) {
                            told(profile ? Result<FunctionProfile>(*std::move(profile)) : function.error());
                          }};
  });
}

Status LiveDaemon::admits(const Tenant& tenant, Duration* retry_after) const {
  if (stopped_) return unavailable("the server is stopping; retry elsewhere or later");
  // What is on its way waits, or runs: at least this many wait. The core knows exactly, once the body is read.
  const sched::Config& core = runner_->core_config();
  const uint64_t may_run = runner_->devices().size() * core.runs_in_flight;
  const uint64_t may_wait = tenant.limits.queued ? tenant.limits.queued : core.most_queued_per_tenant;
  if (counters_.queued < core.most_queued && tenant.on_their_way < may_wait + may_run) return {};
  if (retry_after) *retry_after = Duration::seconds(1);
  return exhausted(fmt::format("tenant {}: too many requests are waiting; retry later", tenant.name));
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
  const auto none = [call_id] {
    return not_found(fmt::format("request {}: has ended, or never was; 'quern requests' lists them", call_id));
  };
  const uint64_t request = request_of(call_id);
  if (request == 0) return done(none());
  ask_strand(*runner_, std::move(done), [&](auto told) {
    return CancelMessage{request, &tenant, [told, none](bool is_theirs) { told(is_theirs ? Status() : none()); }};
  });
}

Result<ProgramLink> LiveDaemon::join(const Tenant& tenant, const ProgramSpec& spec) {
  std::promise<Result<ProgramLink>> link;
  const std::function<void(Result<ProgramLink>)> done = [&](Result<ProgramLink> end) {
    link.set_value(std::move(end));
  };
  ask_strand(*runner_, done, [&](auto told) { return JoinMessage{&tenant, spec, told}; });
  return link.get_future().get();
}

void LiveDaemon::leave(uint64_t program) {
  while (!runner_->post(LeaveMessage{program})) std::this_thread::yield();
}

void LiveDaemon::trace(const Tenant& tenant, std::string id, Duration length, std::function<void(Result<Trace>)> done) {
  ask_strand(*runner_, std::move(done), [&](auto told) {
    return TraceMessage{&tenant, std::move(id), std::min(length, kLongestTrace), told};
  });
}

void LiveDaemon::end_trace(const Tenant& tenant, std::function<void(Status)> done) {
  ask_strand(*runner_, std::move(done), [&](auto told) { return EndTraceMessage{"", &tenant, told}; });
}

void LiveDaemon::requests(const Tenant& tenant, std::function<void(Result<std::vector<RequestStatus>>)> done) {
  ask_strand(*runner_, std::move(done), [&](auto told) { return ListMessage{&tenant, told}; });
}

Result<std::unique_ptr<Daemon>> Daemon::create(Config config) { return LiveDaemon::create(std::move(config)); }

}  // namespace quern::daemon
