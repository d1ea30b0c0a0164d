// SPDX-License-Identifier: Apache-2.0
#include "daemon/deployer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/units.h"
#include "daemon/hidden_paths.h"
#include "daemon/mistakes.h"
#include "function/tar.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

// Threads that check and store, and those that wait for compilers; a tenant has all but one, or two, of them at most,
// so that a busy one leaves some to others.
constexpr int kCheckers = 4, kBuilders = 3;
// More than may be uploaded: Storage has the tighter limit.
constexpr size_t kMostWaiting = 16 * Storage::kMostUploads, kMostWaitingOfTenant = Storage::kMostUploadsOfTenant;
constexpr Duration kBetweenProgress = Duration::seconds(1);

Result<Settings> with_overrides(Settings settings, const std::map<std::string, std::string>& overrides) {
  for (const auto& [path, value] : overrides) {
    QUERN_TRY(settings, change_setting(settings, path, value));
  }
  return settings;
}

/// The object of the manifest of a stored version, in which its settings are; empty if it is not stored.
Result<std::string> stored_manifest(State& state, const DeployedFunction& function) {
  QUERN_TRY(const auto records, state.functions());
  for (const FunctionRecord& one : records)
    if (one.tenant == function.tenant && one.name == function.name && one.version == function.version)
      if (const auto file = one.files.find("function.yaml"); file != one.files.end()) return file->second;
  return std::string();
}

Error stopping() { return unavailable("the server is stopping; deploy again later"); }

}  // namespace

Deployer::Deployer(const Config& config, std::string run_folder, std::vector<const DeviceRecord*> targets,
                   std::unique_ptr<State> state, os::Event stop, Registry& registry, std::shared_ptr<const Gone> gone,
                   LiveCounters& counters, HostTier* tier)
    : config_(config),
      run_folder_(std::move(run_folder)),
      targets_(std::move(targets)),
      stop_(std::move(stop)),
      registry_(registry),
      gone_(std::move(gone)),
      tier_(tier),
      cache_(config.binary_cache),
      objects_(state->objects()),
      storage_(config),
      counters_(counters),
      intake_(config.host_cores),
      state_(std::move(state), config.host_cores),
      checks_({kMostWaiting, kMostWaitingOfTenant, kCheckers - 2}),
      builds_queue_({kMostWaiting, kMostWaitingOfTenant, kBuilders - 1}) {}

Deployer::~Deployer() { stop(); }

void Deployer::start(std::function<void(const DeployedRef&)> is_back) {
  is_back_ = std::move(is_back);
  const auto add = [&](std::string name, auto work) {
    threads_.emplace_back(std::move(name), [this, work] {
      if (!config_.host_cores.empty()) (void)os::pin_to(config_.host_cores);
      work();
    });
  };
  const auto serve = [](FairQueue<JobRef>& queue, auto work) {
    while (auto item = queue.pop()) {
      work(item->work);
      item->work = nullptr;
      queue.done(item->tenant);
    }
  };
  for (int i = 0; i < kCheckers; ++i)
    add(fmt::format("deploy{}", i), [=, this] { serve(checks_, [this](const JobRef& job) { check(job); }); });
  for (int i = 0; i < kBuilders; ++i)
    add(fmt::format("build{}", i), [=, this] { serve(builds_queue_, [this](const JobRef& job) { build_all(job); }); });
  add("recover", [this] {
    bring_all_back();
    is_recovered_ = true;
    is_recovered_.notify_all();
  });
}

void Deployer::stop_deploys() {
  is_stopping_ = true;
  stop_.signal();
  for (FairQueue<JobRef>* queue : {&checks_, &builds_queue_})
    for (const JobRef& job : queue->close()) end(job, stopping());
}

void Deployer::stop() {
  stop_deploys();
  threads_.clear();  // joins
  intake_.stop();
}

Error Deployer::told(Error error) const {
  std::string text = without_paths(without_paths(error.text, config_.state_folder), run_folder_);
  if (text == error.text) return error;
  os::log_warning("{}", error.text);
  if (error.code == ErrorCode::kExhausted) text += "; tell its operator to make room";
  return Error{error.code, std::move(text)};
}

Result<std::unique_ptr<Upload>> Deployer::begin_deploy(const std::string& tenant, uint64_t size_bytes) {
  if (is_stopping_) return stopping();
  QUERN_TRY(auto room, storage_.take(tenant, size_bytes, false));
  auto folder = std::make_unique<FolderReceiver>(objects_);
  folder->room = std::move(room);
  return intake_.begin(std::move(folder));
}

void Deployer::deploy(const std::string& tenant, std::string id, std::string name, std::unique_ptr<Upload> tar,
                      Done<Deployed> done) {
  auto abandoned = os::Event::create();
  if (!abandoned.ok()) return done(std::move(abandoned).error());
  const JobRef job(new Job{std::move(id),
                           tenant,
                           std::move(name),
                           Intake::finish<FolderReceiver>(std::move(tar)),
                           std::move(done),
                           *std::move(abandoned),
                           {},
                           false});
  by_id_.with([&](auto& jobs) { jobs[job->id] = job; });
  if (checks_.push(tenant, JobRef(job))) return;
  end(job, is_stopping_ ? stopping()
                        : exhausted(fmt::format("tenant {}: too many deploys are waiting; retry later", tenant)));
}

void Deployer::abandon(const std::string& id) {
  const JobRef job = by_id_.with([&](auto& jobs) -> JobRef {
    const auto it = jobs.find(id);
    return it == jobs.end() ? nullptr : it->second.lock();
  });
  if (!job) return;
  job->abandoned.signal();
  for (FairQueue<JobRef>* queue : {&checks_, &builds_queue_})
    for (const JobRef& waiting : queue->take_out([&](const JobRef& one) { return one == job; }))
      end(waiting, cancelled(*job));
}

void Deployer::end(const JobRef& job, Result<Deployed> deployed) {
  by_id_.with([&](auto& jobs) { jobs.erase(job->id); });
  // Its room is free before anyone is told. What is left of it on disk takes time to remove, and this may be the thread
  // of an event loop.
  if (job->folder) {
    job->folder->room = nullptr;
    intake_.run([folder = std::shared_ptr<FolderReceiver>(std::move(job->folder))]() mutable { folder = nullptr; });
  }
  std::exchange(job->done, nullptr)(told(std::move(deployed)));
}

Error Deployer::cancelled(const Job& job) {
  return {ErrorCode::kCancelled, fmt::format("function {}: nobody waited for its deploy", job.name)};
}

void Deployer::check(const JobRef& job) {
  if (job->abandoned.wait({0})) return end(job, cancelled(*job));
  auto deployed = deploy_now(*job);
  if (!deployed.ok()) return end(job, std::move(deployed).error());
  if (*deployed) return end(job, **std::move(deployed));
  if (job->was_built)
    return end(
        job, internal(fmt::format("function {}: what was built for it is gone again; deploy it once more", job->name)));
  if (builds_queue_.push(job->tenant, JobRef(job))) return;
  end(job, is_stopping_
               ? stopping()
               : exhausted(fmt::format("tenant {}: too many programs wait for a compiler; retry later", job->tenant)));
}

void Deployer::build_all(const JobRef& job) {
  for (BuildOrder& order : std::exchange(job->orders, {})) {
    if (job->abandoned.wait({0})) return end(job, cancelled(*job));
    // Another deploy may have been faster.
    if (find_binary(order.key)) continue;
    const auto built = build(job->name, std::move(order), &job->abandoned);
    if (!built.ok()) return end(job, built.error());
  }
  job->was_built = true;
  if (!checks_.push_again(job->tenant, JobRef(job))) end(job, stopping());
}

Result<std::optional<Deployed>> Deployer::deploy_now(Job& job) {
  QUERN_TRY(job.folder->finish());
  const Files& files = job.folder->files();
  const auto check_small = [&](const std::string& name) -> Status {
    if (!files.large.contains(name)) return {};
    return invalid(fmt::format("function {}: file '{}' has {}, and sources may have {} each and {} together", job.name,
                               name, show_bytes(files.large.at(name).size_bytes),
                               show_bytes(FolderReceiver::kSmallFile), show_bytes(FolderReceiver::kInMemory)));
  };
  QUERN_TRY(check_links(files));
  QUERN_TRY(check_small("function.yaml"));
  ParsedManifest parsed = parse_manifest(files);
  if (!parsed.manifest) return invalid(list_mistakes(parsed.mistakes));
  if (parsed.manifest->name != job.name)
    return invalid(fmt::format("function {}: its manifest says name: {}; deploy it under that name", job.name,
                               parsed.manifest->name));
  for (const ProgramDecl& program : parsed.manifest->programs)
    for (const auto* names : {&program.files, &program.headers})
      for (const std::string& name : *names) QUERN_TRY(check_small(name));
  Deployed deployed;
  collect_warnings(parsed.mistakes, deployed.warnings);
  const std::string version = version_of(*parsed.manifest, files);
  QUERN_TRY(const Content content, content_of(*parsed.manifest, {files, job.folder.get()}));
  const DeployedRef current = registry_.current(job.tenant, job.name);
  const bool is_same = current && current->version == version &&
                       settings_text(current->manifest.settings) == settings_text(parsed.manifest->settings);
  if (is_same) {
    // What the disk lost of it since is there again: that is what the error of a damaged object advises.
    QUERN_TRY(put_again(job.tenant, content));
    deployed.is_new = false;
    deployed.function = current;
    return std::optional<Deployed>(std::move(deployed));
  }
  QUERN_TRY(auto function, assemble(job.tenant, *std::move(parsed.manifest), version, files, content.constants,
                                    deployed.warnings, &job.orders));
  if (!function) return std::optional<Deployed>();
  QUERN_TRY(deployed, store_and_switch(job, std::move(function), content, std::move(deployed)));
  return std::optional<Deployed>(std::move(deployed));
}

Result<Deployed> Deployer::store_and_switch(const Job& job, std::shared_ptr<DeployedFunction> function,
                                            const Content& content, Deployed deployed) {
  return put_and_record(job.tenant, content.pieces, [&](State& state) -> Result<Deployed> {
    if (job.abandoned.wait({0})) return cancelled(job);
    QUERN_TRY(const auto overrides, state.settings(job.tenant, job.name));
    if (!overrides.empty()) {
      QUERN_TRY(const Settings settings, with_overrides(function->manifest.settings, overrides));
      function->live_settings->set(settings);
      std::string list;
      for (const auto& [path, value] : overrides) list += fmt::format("{}{}={}", list.empty() ? "" : ", ", path, value);
      deployed.warnings.push_back(fmt::format(
          "settings: {} by 'quern set' stay, whatever the manifest says; 'quern set {} PATH=' takes one back", list,
          job.name));
    }
    QUERN_TRY(check_quota(job.tenant, job.name, function->settings()));
    // The version may be current and not ready yet.
    const auto slots = registry_.slots(job.tenant, job.name);
    deployed.is_new = slots.empty() || slots.front().version != function->version;
    if (!deployed.is_new) function->created_at = slots.front().created_at;
    deployed.has_new_settings = !deployed.is_new;
    if (!deployed.is_new && !slots.front().function) {
      QUERN_TRY(const std::string manifest, stored_manifest(state, *function));
      deployed.has_new_settings = manifest != content.files.at("function.yaml");
    }
    FunctionRecord record;
    record.tenant = function->tenant;
    record.name = function->name;
    record.version = function->version;
    record.created_at = function->created_at;
    record.files = content.files;
    record.constants = content.constants;
    QUERN_TRY(state.atomically([&]() -> Status {
      QUERN_TRY(function->order, state.put_function(record));
      if (!deployed.is_new && !deployed.has_new_settings) return {};
      return state.add_history(record.tenant, record.name, {os::wall_time(), "deployed", record.version});
    }));
    deployed.function = function;
    make_current(state, std::move(function));
    tell_storage(state, job.tenant);
    return deployed;
  });
}

// The one place where what is current changes, on the thread of the state.
void Deployer::make_current(State& state, DeployedRef function) {
  const std::string tenant = function->tenant, name = function->name;
  std::vector<DeployedRef> left;
  // The same version with other settings: calls may still have the one that is replaced.
  for (const DeployedRef& other : registry_.versions(tenant, name))
    if (other->version == function->version && other != function) left.push_back(other);
  auto past = registry_.put(std::move(function));
  if (past.empty()) return leave(left);
  for (VersionSlot& old : past) {
    const Status removed = state.remove_version(tenant, name, old.version);
    if (!removed.ok()) os::log_warning("function {}: an old version is not removed: {}", name, removed.error().text);
    if (old.function) left.push_back(std::move(old.function));
  }
  leave(left);
  collect(state, Collected::kReleased);
}

void Deployer::remove(const std::string& tenant, std::string name, Done<std::vector<DeployedRef>> done) {
  state_.post(tenant, [this, tenant, name = std::move(name), done = std::move(done)](State& state) {
    done(told([&]() -> Result<std::vector<DeployedRef>> {
      if (registry_.slots(tenant, name).empty()) QUERN_TRY(registry_.find(tenant, name, ""));
      QUERN_TRY(state.remove_function(tenant, name));
      auto removed = registry_.remove(tenant, name);
      leave(removed);
      collect(state, Collected::kReleased);
      tell_storage(state, tenant);
      return removed;
    }()));
  });
}

void Deployer::rollback(const std::string& tenant, std::string name, std::string version, Done<DeployedRef> done) {
  state_.post(tenant, [this, tenant, name = std::move(name), version = std::move(version), done = std::move(done)](
                          State& state) { done(told(rollback_now(state, tenant, name, version))); });
}

Result<DeployedRef> Deployer::rollback_now(State& state, const std::string& tenant, const std::string& name,
                                           const std::string& version) {
  const auto slots = registry_.slots(tenant, name);
  DeployedRef target;
  if (version.empty() && !slots.empty()) {
    // The next older one: going back twice goes back by two. One that is damaged is no reason to stay; one that is
    // being made ready is there in a moment.
    const VersionSlot* next = nullptr;
    for (const VersionSlot& one : slots) {
      const bool is_whole = one.function || (one.problem && one.problem->code == ErrorCode::kUnavailable);
      if (is_whole && one.order < slots.front().order && (!next || one.order > next->order)) next = &one;
    }
    if (next && !next->function) return *next->problem;
    if (next) target = next->function;
    if (!target) return conflict(fmt::format("function {}: has no older version to go back to", name));
  } else {
    QUERN_TRY(target, registry_.find(tenant, name, version));
  }
  if (target->version == slots.front().version)
    return conflict(fmt::format("function {}: version {} is the current one", name, short_version(target->version)));
  QUERN_TRY(check_quota(tenant, name, target->settings()));
  QUERN_TRY(state.atomically([&]() -> Status {
    QUERN_TRY(state.make_current(tenant, name, target->version));
    return state.add_history(tenant, name, {os::wall_time(), "rolled back", target->version});
  }));
  make_current(state, target);
  return target;
}

void Deployer::set(const std::string& tenant, std::string name, std::map<std::string, std::string> changes,
                   Done<DeployedRef> done) {
  state_.post(tenant, [this, tenant, name = std::move(name), changes = std::move(changes),
                       done = std::move(done)](State& state) { done(told(set_now(state, tenant, name, changes))); });
}

Result<DeployedRef> Deployer::set_now(State& state, const std::string& tenant, const std::string& name,
                                      const std::map<std::string, std::string>& changes) {
  QUERN_TRY(const DeployedRef current, registry_.find(tenant, name, ""));
  QUERN_TRY(auto overrides, state.settings(tenant, name));
  for (const auto& [path, value] : changes) {
    if (value.empty())
      overrides.erase(path);
    else
      overrides[path] = value;
    // Also what is taken back must be a setting.
    QUERN_TRY(change_setting(Settings{}, path, value));
  }
  // Each version has settings of its own below what was changed.
  std::vector<std::pair<DeployedRef, Settings>> changed;
  for (const DeployedRef& one : registry_.versions(tenant, name)) {
    QUERN_TRY(Settings settings, with_overrides(one->manifest.settings, overrides));
    changed.emplace_back(one, settings);
    if (one == current) QUERN_TRY(check_quota(tenant, name, settings));
  }
  QUERN_TRY(state.atomically([&]() -> Status {
    for (const auto& [path, value] : changes) {
      QUERN_TRY(state.put_setting(tenant, name, path, value));
      QUERN_TRY(
          state.add_history(tenant, name, {os::wall_time(), fmt::format("set {}={}", path, value), current->version}));
    }
    return {};
  }));
  for (const auto& [one, settings] : changed) one->live_settings->set(settings);
  return current;
}

void Deployer::history(const std::string& tenant, std::string name, Done<History> done) {
  state_.post(tenant, [this, tenant, name = std::move(name), done = std::move(done)](State& state) {
    done(told([&]() -> Result<History> {
      const auto slots = registry_.slots(tenant, name);
      if (slots.empty()) QUERN_TRY(registry_.find(tenant, name, ""));
      History history;
      for (const VersionSlot& one : slots)
        history.versions.push_back({one.version, one.created_at, history.versions.empty()});
      QUERN_TRY(const auto records, state.history(tenant, name));
      for (const HistoryRecord& record : records) history.items.push_back({record.at, record.what, record.version});
      return history;
    }()));
  });
}

Status Deployer::recover() {
  QUERN_TRY(stored_, state_.ask(StateThread::kServer, [](State& state) { return state.functions(); }));
  std::set<std::string> tenants;
  for (const TenantConfig& tenant : config_.tenants) tenants.insert(tenant.name);
  for (const FunctionRecord& record : stored_) {
    tenants.insert(record.tenant);
    VersionSlot slot{record.version, record.created_at, record.order, record.turn, nullptr, {}};
    slot.problem = unavailable(
        fmt::format("function {}: is being made ready after the start of the server; retry in a moment", record.name));
    registry_.announce(record.tenant, record.name, std::move(slot));
  }
  // Those that calls without a version want come first.
  std::set<std::pair<std::string, std::string>> seen;
  std::reverse(stored_.begin(), stored_.end());
  std::stable_partition(stored_.begin(), stored_.end(), [&](const FunctionRecord& record) {
    return seen.insert({record.tenant, record.name}).second;
  });
  state_.ask(StateThread::kServer, [&](State& state) {
    for (const std::string& tenant : tenants) tell_storage(state, tenant);
    return true;
  });
  return {};
}

void Deployer::bring_all_back() {
  const size_t all = stored_.size();
  if (all == 0) return os::log_info("functions: none are stored");
  size_t ready = 0, damaged = 0;
  Time told_at = os::now();
  for (FunctionRecord& record : stored_) {
    const Status back = bring_back(record);
    if (is_stopping_) return;
    if (back.ok()) {
      ++ready;
    } else if (const auto slots = registry_.slots(record.tenant, record.name);
               std::any_of(slots.begin(), slots.end(),
                           [&](const auto& slot) { return slot.version == record.version && !slot.function; })) {
      ++damaged;
      os::log_error("function {} of tenant {}: version {} does not come back: {}", record.name, record.tenant,
                    short_version(record.version), back.error().text);
      registry_.fail(record.tenant, record.name, record.version,
                     internal(fmt::format("function {}: version {} cannot be called: {}", record.name,
                                          short_version(record.version), told(back.error()).text)));
    }
    if (os::now() - told_at < kBetweenProgress) continue;
    told_at = os::now();
    os::log_info("functions: {} of {} versions are ready{}", ready, all,
                 damaged > 0 ? fmt::format(", {} are damaged", damaged) : "");
  }
  stored_.clear();
  // What constants were taken out of, and what a crash left.
  state_.ask(StateThread::kServer, [this](State& state) {
    collect(state, Collected::kAll);
    return true;
  });
  os::log_info("functions: all {} stored versions were looked at, {} are ready", all, ready);
}

Status Deployer::bring_back(FunctionRecord record) {
  Files files;
  for (const auto& [path, hash] : record.files) {
    QUERN_TRY(files[path], objects_.get(hash));
  }
  // Its constants were checked when it was deployed, and nobody needs them yet.
  ParsedManifest parsed =
      parse_manifest(files, record.constants.empty() ? ConstantFiles::kHere : ConstantFiles::kElsewhere);
  if (!parsed.manifest) return invalid(list_mistakes(parsed.mistakes));
  if (record.constants.empty()) QUERN_TRY(take_constants_out(record, *parsed.manifest, files));
  std::vector<std::string> ignored;
  QUERN_TRY(auto function, assemble(record.tenant, *std::move(parsed.manifest), record.version, files, record.constants,
                                    ignored, nullptr));
  function->created_at = record.created_at;
  function->order = record.order;
  const DeployedRef back = function;
  QUERN_TRY(state_.ask(StateThread::kServer, [&](State& state) -> Status {
    QUERN_TRY(const auto overrides, state.settings(record.tenant, record.name));
    QUERN_TRY(const Settings settings, with_overrides(function->manifest.settings, overrides));
    function->live_settings->set(settings);
    registry_.restore(std::move(function));
    return {};
  }));
  if (is_back_) is_back_(back);
  return {};
}

}  // namespace quern::daemon
