// SPDX-License-Identifier: Apache-2.0
#include "daemon/deployer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/units.h"
#include "daemon/builder_process.h"
#include "function/plan_builder.h"
#include "function/tar.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

constexpr size_t kMostWaiting = 64;
constexpr int kBuilders = 2;

std::atomic<uint64_t> next_function{1};
std::atomic<uint64_t> next_build{1};

std::string list_mistakes(const std::vector<Mistake>& mistakes) {
  std::string text;
  for (const Mistake& mistake : mistakes)
    if (!mistake.is_warning) text += (text.empty() ? "" : "\n") + to_string(mistake);
  return text;
}

void collect_warnings(const std::vector<Mistake>& mistakes, std::vector<std::string>& into) {
  for (const Mistake& mistake : mistakes)
    if (mistake.is_warning) into.push_back(to_string(mistake));
}

Result<Settings> with_overrides(Settings settings, const std::map<std::string, std::string>& overrides) {
  for (const auto& [path, value] : overrides) {
    QUERN_TRY(settings, change_setting(settings, path, value));
  }
  return settings;
}

std::vector<Signature> signatures_of(const std::vector<ipc::SignatureFrame>& frames) {
  std::vector<Signature> signatures;
  for (const auto& frame : frames) {
    Signature signature;
    signature.entry = frame.entry;
    signature.required_local = frame.required_local;
    signature.local_memory_bytes = frame.local_memory_bytes;
    signature.unsliceable = frame.unsliceable;
    for (const auto& argument : frame.arguments)
      signature.arguments.push_back({argument.name, argument.type, argument.space, argument.is_const});
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

}  // namespace

Deployer::Deployer(const Config& config, std::string run_folder, std::vector<const DeviceRecord*> targets,
                   std::unique_ptr<State> state, os::Event stop, Registry& registry, std::shared_ptr<const Gone> gone,
                   HostTier* tier)
    : config_(config),
      run_folder_(std::move(run_folder)),
      targets_(std::move(targets)),
      stop_(std::move(stop)),
      registry_(registry),
      gone_(std::move(gone)),
      tier_(tier),
      cache_(config.binary_cache),
      objects_(state->objects()),
      jobs_(kMostWaiting),
      state_(std::move(state)) {}

Deployer::~Deployer() { stop(); }

void Deployer::start() {
  for (int i = 0; i < kBuilders; ++i)
    threads_.emplace_back(fmt::format("deploy{}", i), [this] {
      if (!config_.host_cores.empty()) (void)os::pin_to(config_.host_cores);
      work();
    });
}

void Deployer::stop() {
  for (Job& job : jobs_.close()) job.done(unavailable("the server is stopping; deploy again later"));
  stop_.signal();
  threads_.clear();  // joins
}

void Deployer::work() {
  while (auto job = jobs_.pop()) job->done(deploy_now(*job));
}

void Deployer::deploy(const std::string& tenant, std::string name, Bytes tar, Done done) {
  Job job{tenant, std::move(name), std::move(tar), std::move(done)};
  if (!jobs_.push(std::move(job))) job.done(exhausted("too many deploys are waiting; retry later"));
}

Result<std::vector<DeployedRef>> Deployer::remove(const std::string& tenant, std::string_view name) {
  return changing_.with([&](bool&) -> Result<std::vector<DeployedRef>> {
    QUERN_TRY(registry_.find(tenant, name, ""));
    std::vector<DeployedRef> removed;
    QUERN_TRY(state_.with([&](auto& state) -> Status {
      QUERN_TRY(state->remove_function(tenant, name));
      removed = registry_.remove(tenant, name);
      leave(removed);
      return {};
    }));
    collect();
    return removed;
  });
}

// The one place where what is current changes. `changing_` is held.
void Deployer::make_current(DeployedRef function) {
  const std::string tenant = function->tenant, name = function->name;
  const auto past = registry_.put(std::move(function));
  if (past.empty()) return;
  state_.with([&](auto& state) {
    for (const DeployedRef& old : past) {
      const Status removed = state->remove_version(tenant, name, old->version);
      if (!removed.ok()) os::log_warning("function {}: an old version is not removed: {}", name, removed.error().text);
    }
    leave(past);
  });
  collect();
}

Result<DeployedRef> Deployer::rollback(const std::string& tenant, std::string_view name, std::string_view version) {
  return changing_.with([&](bool&) -> Result<DeployedRef> {
    QUERN_TRY(DeployedRef target, registry_.find(tenant, name, version));
    const auto versions = registry_.versions(tenant, name);
    if (version.empty()) {
      // The next older one: going back twice goes back by two.
      DeployedRef older;
      for (const DeployedRef& one : versions)
        if (one->order < target->order && (!older || one->order > older->order)) older = one;
      if (!older) return conflict(fmt::format("function {}: has no older version to go back to", name));
      target = older;
    }
    if (target == versions.front())
      return conflict(fmt::format("function {}: version {} is the current one", name, short_version(target->version)));
    QUERN_TRY(check_quota(tenant, name, target->settings()));
    QUERN_TRY(state_.with([&](auto& state) -> Status {
      QUERN_TRY(state->make_current(tenant, name, target->version));
      return state->add_history(tenant, name, {os::wall_time(), "rolled back", target->version});
    }));
    make_current(target);
    return target;
  });
}

Result<DeployedRef> Deployer::set(const std::string& tenant, std::string_view name,
                                  const std::map<std::string, std::string>& changes) {
  return changing_.with([&](bool&) -> Result<DeployedRef> {
    QUERN_TRY(const DeployedRef current, registry_.find(tenant, name, ""));
    QUERN_TRY(auto overrides, state_.with([&](auto& state) { return state->settings(tenant, name); }));
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
    QUERN_TRY(state_.with([&](auto& state) -> Status {
      for (const auto& [path, value] : changes) {
        QUERN_TRY(state->put_setting(tenant, name, path, value));
        QUERN_TRY(state->add_history(tenant, name,
                                     {os::wall_time(), fmt::format("set {}={}", path, value), current->version}));
      }
      return {};
    }));
    for (const auto& [one, settings] : changed) one->live_settings->set(settings);
    return current;
  });
}

Result<History> Deployer::history(const std::string& tenant, std::string_view name) const {
  QUERN_TRY(registry_.find(tenant, name, ""));
  History history;
  for (const DeployedRef& one : registry_.versions(tenant, name))
    history.versions.push_back({one->version, one->created_at, history.versions.empty()});
  QUERN_TRY(const auto records, state_.with([&](auto& state) { return state->history(tenant, name); }));
  for (const HistoryRecord& record : records) history.items.push_back({record.at, record.what, record.version});
  return history;
}

Result<Deployed> Deployer::deploy_now(const Job& job) {
  QUERN_TRY(const Files files, read_tar(job.tar));
  ParsedManifest parsed = parse_manifest(files);
  if (!parsed.manifest) return invalid(list_mistakes(parsed.mistakes));
  if (parsed.manifest->name != job.name)
    return invalid(fmt::format("function {}: its manifest says name: {}; deploy it under that name", job.name,
                               parsed.manifest->name));
  Deployed deployed;
  collect_warnings(parsed.mistakes, deployed.warnings);
  const std::string version = version_of(*parsed.manifest, files);
  QUERN_TRY(const Content content, content_of(*parsed.manifest, files));
  const DeployedRef current = registry_.current(job.tenant, job.name);
  const bool is_same = current && current->version == version &&
                       settings_text(current->manifest.settings) == settings_text(parsed.manifest->settings);
  if (is_same) {
    // What the disk lost of it since is there again: that is what the error of a damaged object advises.
    QUERN_TRY(put_again(content));
    deployed.is_new = false;
    deployed.function = current;
    return deployed;
  }
  QUERN_TRY(auto function,
            assemble(job.tenant, *std::move(parsed.manifest), version, files, content.constants, deployed.warnings));
  return changing_.with([&](bool&) -> Result<Deployed> {
    QUERN_TRY(const auto overrides, state_.with([&](auto& state) { return state->settings(job.tenant, job.name); }));
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
    const DeployedRef before = registry_.current(job.tenant, job.name);
    deployed.is_new = !before || before->version != function->version;
    if (!deployed.is_new) function->created_at = before->created_at;
    deployed.has_new_settings = !deployed.is_new;
    QUERN_TRY(function->order, store(*function, content));
    deployed.function = function;
    make_current(std::move(function));
    return deployed;
  });
}

Result<std::shared_ptr<DeployedFunction>> Deployer::assemble(const std::string& tenant, Manifest manifest,
                                                             std::string version, const Files& files,
                                                             const std::map<std::string, ConstantRecord>& constants,
                                                             std::vector<std::string>& warnings) {
  std::shared_ptr<DeployedFunction> function(new DeployedFunction, [gone = gone_](DeployedFunction* old) {
    const uint64_t id = old->id;
    delete old;
    if (gone && *gone) (*gone)(id);
  });
  function->id = next_function.fetch_add(1);
  function->tenant = tenant;
  function->name = manifest.name;
  function->version = std::move(version);
  function->created_at = os::wall_time();
  function->manifest = std::move(manifest);
  function->live_settings = std::make_shared<LiveSettings>(function->manifest.settings);
  const Manifest& kept = function->manifest;

  bool any = false;
  for (const DeviceRecord* device : targets_) {
    // The fake device runs OpenCL C whose entries it has host versions of.
    const ProgramDecl* program = kept.program_for(device->caps.driver);
    if (!program && device->caps.driver == "fake") program = kept.program_for("opencl");
    if (!program) continue;
    QUERN_TRY(Binary binary, binary_for(*device, *program, kept, files));
    const auto mistakes = check_signatures(kept, binary.signatures);
    if (std::string text = list_mistakes(mistakes); !text.empty()) return invalid(text);
    if (!any) collect_warnings(mistakes, warnings);
    // Which device runs it is not known here: one that cannot slice it is one too many.
    function->unsliceable.resize(kept.kernels.size());
    for (size_t i = 0; i < kept.kernels.size(); ++i) {
      binary.unsliceable.push_back(device->caps.launch_offset ? unsliceable(kept.kernels[i], binary.signatures)
                                                              : "the device has no launch offset");
      if (function->unsliceable[i].empty()) function->unsliceable[i] = binary.unsliceable[i];
    }
    function->binaries.emplace(device->caps.build_key, std::move(binary));
    any = true;
  }
  if (!any) {
    std::string drivers;
    for (const DeviceRecord* device : targets_) drivers += (drivers.empty() ? "" : ", ") + device->caps.driver;
    return unsupported(fmt::format("function {}: has no program for any device here ({})", kept.name, drivers));
  }
  for (const DeviceRecord* device : targets_) {
    function->limits.alignment_bytes =
        std::max<uint64_t>(function->limits.alignment_bytes, device->caps.alignment_bytes);
    function->limits.max_allocation_bytes =
        std::min(function->limits.max_allocation_bytes, device->caps.max_allocation_bytes);
  }
  QUERN_TRY(check_fits(*function, warnings));
  QUERN_TRY(name_constants(*function, constants));
  return function;
}

// Every launch finds a device that takes groups of its size.
Status Deployer::check_groups(const DeployedFunction& function, const Plan& plan) const {
  for (const PlannedLaunch& launch : plan.launches) {
    uint64_t group = 1, local_bytes = 0;
    for (const uint64_t size : launch.local) group *= std::max<uint64_t>(1, size);  // each is at most 2^16
    for (const PlannedArgument& argument : launch.arguments) local_bytes += argument.local_bytes;
    const auto takes = [&](const DeviceRecord* device) {
      const ipc::DeviceCaps& caps = device->caps;
      if (!function.binaries.contains(caps.build_key) || local_bytes > caps.local_memory_bytes) return false;
      for (size_t i = 0; i < 3; ++i)
        if (launch.local[i] > caps.max_group_sizes[i]) return false;
      return group <= caps.max_group_size;
    };
    if (std::any_of(targets_.begin(), targets_.end(), takes)) continue;
    uint64_t most_group = 0, most_bytes = 0;
    for (const DeviceRecord* device : targets_) {
      most_group = std::max<uint64_t>(most_group, device->caps.max_group_size);
      most_bytes = std::max(most_bytes, device->caps.local_memory_bytes);
    }
    return invalid(
        fmt::format("function {}: kernel '{}' has a local size of {}x{}x{} and {} of local memory, and devices here "
                    "take at most {} "
                    "work-items and {}; make it smaller",
                    function.name, launch.entry, launch.local[0], launch.local[1], launch.local[2],
                    show_bytes(local_bytes), most_group, show_bytes(most_bytes)));
  }
  return {};
}

// What can never run is refused now; what may not, is told. A corner that cannot be planned was told with the manifest.
Status Deployer::check_fits(const DeployedFunction& function, std::vector<std::string>& warnings) const {
  uint64_t most = 0;
  for (const DeviceRecord* device : targets_)
    if (function.binaries.contains(device->caps.build_key)) most = std::max(most, device->usable_bytes());
  for (const Corner corner : {Corner::kSmallest, Corner::kLargest}) {
    const auto plan = make_plan(function.manifest, corner_of(function.manifest, corner), function.limits);
    if (plan.ok()) QUERN_TRY(check_groups(function, *plan));
    if (!plan.ok() || plan->memory_bytes <= most) continue;
    const bool is_smallest = corner == Corner::kSmallest;
    std::string text =
        fmt::format("function {}: at its {} it needs {} of device memory, and the largest device has {}", function.name,
                    is_smallest ? "smallest" : "largest", show_bytes(plan->memory_bytes), show_bytes(most));
    if (is_smallest) return invalid(std::move(text));
    warnings.push_back("warning: " + text + "; such requests are refused");
  }
  return {};
}

Result<Binary> Deployer::binary_for(const DeviceRecord& device, const ProgramDecl& program, const Manifest& manifest,
                                    const Files& files) {
  QUERN_TRY(std::string text, source_text(program, files));
  std::string options = option_text(program);
  std::string identity = fmt::format("quern binary 2\n{}\n{}\n", device.caps.build_key, options);
  for (const Size3& size : group_sizes_of(manifest)) identity += fmt::format("{}x{}x{} ", size[0], size[1], size[2]);
  ipc::BuildFrame frame;
  for (const std::string& name : program.headers) {
    frame.headers.emplace_back(name, as_text(files.at(name)));
    identity += fmt::format("\nheader {} {}", name, sha256(files.at(name)));
  }
  const std::string key = sha256(identity + "\n" + text);

  std::optional<BinaryContent> content;
  QUERN_TRY(const auto known, state_.with([&](auto& state) { return state->binary(key); }));
  if (known) {
    QUERN_TRY(Bytes binary, state_.with([&](auto& state) { return state->objects().get(known->object); }));
    content = BinaryContent{std::move(binary), known->signatures};
  } else if (!(content = cache_.get(key))) {
    frame.text = std::move(text);
    frame.options = std::move(options);
    QUERN_TRY(content, build(device, manifest, std::move(frame)));
    cache_.put(key, *content);
  }
  if (!known)
    QUERN_TRY(state_.with([&](auto& state) -> Status {
      QUERN_TRY(const std::string object, state->objects().put(content->binary));
      return state->put_binary({key, object, content->signatures});
    }));
  Binary binary;
  QUERN_TRY(const auto frames, ipc::decode_signatures(content->signatures));
  binary.signatures = signatures_of(frames);
  QUERN_TRY(binary.object, hold(content->binary));
  return binary;
}

Result<BinaryContent> Deployer::build(const DeviceRecord& device, const Manifest& manifest, ipc::BuildFrame frame) {
  frame.device.driver = device.config.driver;
  frame.device.index = device.config.index;
  frame.device.memory_bytes = device.config.memory_bytes;
  // Beside the devices where there is room: compiling is not device work.
  std::vector<int> cores = config_.host_cores.empty() ? os::allowed_cores() : config_.host_cores;
  std::vector<int> free;
  for (int core : cores)
    if (!std::count(device.config.cores.begin(), device.config.cores.end(), core)) free.push_back(core);
  if (!device.config.cores.empty()) frame.device.cores = {free.empty() ? device.config.cores.front() : free.front()};
  for (const Size3& size : group_sizes_of(manifest)) frame.group_sizes.push_back(size);
  const std::string folder = fmt::format("{}/builder-{}", run_folder_, next_build.fetch_add(1));
  ++builds_;
  auto built = build_program(std::move(frame), folder, config_.build_limit, stop_);
  if (!built.ok())
    return Error{built.error().code, fmt::format("function {}: its program does not build for device {}:\n{}",
                                                 manifest.name, device.config.name, built.error().text)};
  if (built->build_key != device.caps.build_key)
    return internal(
        fmt::format("builder: built for '{}' where '{}' was asked for", built->build_key, device.caps.build_key));
  return BinaryContent{std::move(built->binary), ipc::encode(built->signatures)};
}

Result<HostObjectRef> Deployer::hold(std::span<const std::byte> bytes) {
  const std::string hash = sha256(bytes);
  HostObjectRef known = programs_.with([&](auto& programs) {
    const auto it = programs.find(hash);
    return it == programs.end() ? nullptr : it->second.lock();
  });
  if (known) return known;
  auto object = std::make_shared<HostObject>();
  object->hash = hash;
  object->size_bytes = bytes.size();
  QUERN_TRY(object->fd, os::immutable_copy("quern-object", bytes));
  return programs_.with([&](auto& programs) -> HostObjectRef {
    std::erase_if(programs, [](const auto& item) { return item.second.expired(); });
    auto& one = programs[hash];
    // Another thread may have been faster.
    if (HostObjectRef theirs = one.lock()) return theirs;
    one = object;
    return object;
  });
}

Status Deployer::recover() {
  QUERN_TRY(const auto records, state_.with([](auto& state) { return state->functions(); }));
  for (const FunctionRecord& record : records)
    if (const Status back = bring_back(record); !back.ok())
      os::log_error("function {} of tenant {}: does not come back: {}", record.name, record.tenant, back.error().text);
  collect();
  return {};
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
  QUERN_TRY(auto function,
            assemble(record.tenant, *std::move(parsed.manifest), record.version, files, record.constants, ignored));
  function->created_at = record.created_at;
  function->order = record.order;
  QUERN_TRY(const auto overrides,
            state_.with([&](auto& state) { return state->settings(record.tenant, record.name); }));
  QUERN_TRY(const Settings settings, with_overrides(function->manifest.settings, overrides));
  function->live_settings->set(settings);
  registry_.put(std::move(function));
  return {};
}

}  // namespace quern::daemon
