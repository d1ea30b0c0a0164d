// SPDX-License-Identifier: Apache-2.0
#include "daemon/deployer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "daemon/builder_process.h"
#include "function/constant.h"
#include "function/plan_builder.h"
#include "function/tar.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

constexpr size_t kMostWaiting = 64;
constexpr int kThreads = 2;

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

std::vector<Signature> signatures_of(const std::vector<ipc::SignatureFrame>& frames) {
  std::vector<Signature> signatures;
  for (const auto& frame : frames) {
    Signature signature;
    signature.entry = frame.entry;
    signature.required_local = frame.required_local;
    signature.local_memory_bytes = frame.local_memory_bytes;
    for (const auto& argument : frame.arguments)
      signature.arguments.push_back({argument.name, argument.type, argument.space, argument.is_const});
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

}  // namespace

Deployer::Deployer(const Config& config, std::string run_folder, std::vector<const DeviceRecord*> targets,
                   std::unique_ptr<State> state, os::Event stop, Registry& registry, std::shared_ptr<const Gone> gone)
    : config_(config),
      run_folder_(std::move(run_folder)),
      targets_(std::move(targets)),
      stop_(std::move(stop)),
      registry_(registry),
      gone_(std::move(gone)),
      cache_(config.binary_cache),
      jobs_(kMostWaiting),
      state_(std::move(state)) {}

Deployer::~Deployer() { stop(); }

void Deployer::start() {
  for (int i = 0; i < kThreads; ++i)
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

Result<DeployedRef> Deployer::remove(const std::string& tenant, std::string_view name) {
  QUERN_TRY(DeployedRef function, registry_.find(tenant, name, ""));
  QUERN_TRY(const bool was_there, state_.with([&](auto& state) { return state->remove_function(tenant, name); }));
  (void)was_there;
  registry_.remove(tenant, name);
  return function;
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
  QUERN_TRY(auto function, assemble(job.tenant, *std::move(parsed.manifest), files, deployed.warnings));
  if (const DeployedRef current = registry_.current(job.tenant, job.name);
      current && current->version == function->version) {
    deployed.is_new = false;
    function->created_at = current->created_at;
  }
  QUERN_TRY(store(*function, files));
  deployed.function = function;
  registry_.put(std::move(function));
  return deployed;
}

Result<std::shared_ptr<DeployedFunction>> Deployer::assemble(const std::string& tenant, Manifest manifest,
                                                             const Files& files, std::vector<std::string>& warnings) {
  std::shared_ptr<DeployedFunction> function(new DeployedFunction, [gone = gone_](DeployedFunction* old) {
    const uint64_t id = old->id;
    delete old;
    if (gone && *gone) (*gone)(id);
  });
  function->id = next_function.fetch_add(1);
  function->tenant = tenant;
  function->name = manifest.name;
  function->version = version_of(manifest, files);
  function->created_at = os::wall_time();
  function->manifest = std::move(manifest);
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
    function->binaries.emplace(device->caps.build_key, std::move(binary));
    any = true;
  }
  if (!any) {
    std::string drivers;
    for (const DeviceRecord* device : targets_) drivers += (drivers.empty() ? "" : ", ") + device->caps.driver;
    return unsupported(fmt::format("function {}: has no program for any device here ({})", kept.name, drivers));
  }
  function->constants.resize(kept.buffers.size());
  // Constants have one size whatever the dims are.
  for (const DeviceRecord* device : targets_) {
    function->limits.alignment_bytes =
        std::max<uint64_t>(function->limits.alignment_bytes, device->caps.alignment_bytes);
    function->limits.max_allocation_bytes =
        std::min(function->limits.max_allocation_bytes, device->caps.max_allocation_bytes);
  }
  QUERN_TRY(const Plan plan, make_plan(kept, corner_of(kept, Corner::kDefault), function->limits));
  for (size_t i = 0; i < kept.buffers.size(); ++i) {
    const BufferDecl& buffer = kept.buffers[i];
    if (buffer.role != Role::kConstant) continue;
    QUERN_TRY(const auto bytes, constant_bytes(buffer, plan.buffers[i], files));
    QUERN_TRY(function->constants[i], hold(bytes));
  }
  return function;
}

Result<Binary> Deployer::binary_for(const DeviceRecord& device, const ProgramDecl& program, const Manifest& manifest,
                                    const Files& files) {
  QUERN_TRY(std::string text, source_text(program, files));
  std::string options = option_text(program);
  std::string identity = fmt::format("quern binary 1\n{}\n{}\n", device.caps.build_key, options);
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
  HostObjectRef known = held_.with([&](auto& held) {
    std::erase_if(held, [](const auto& item) { return item.second.expired(); });
    const auto it = held.find(hash);
    return it == held.end() ? nullptr : it->second.lock();
  });
  if (known) return known;
  auto object = std::make_shared<HostObject>();
  object->hash = hash;
  object->size_bytes = bytes.size();
  QUERN_TRY(object->fd, os::immutable_copy("quern-object", bytes));
  held_.with([&](auto& held) { held[hash] = object; });
  return HostObjectRef(object);
}

Status Deployer::store(const DeployedFunction& function, const Files& files) {
  FunctionRecord record;
  record.tenant = function.tenant;
  record.name = function.name;
  record.version = function.version;
  record.created_at = function.created_at;
  return state_.with([&](auto& state) -> Status {
    for (const auto& [path, bytes] : files) {
      QUERN_TRY(record.files[path], state->objects().put(bytes));
    }
    return state->put_function(record);
  });
}

Status Deployer::recover() {
  QUERN_TRY(const auto records, state_.with([](auto& state) { return state->functions(); }));
  for (const FunctionRecord& record : records) {
    const Status back = [&]() -> Status {
      Files files;
      for (const auto& [path, hash] : record.files) {
        QUERN_TRY(files[path], state_.with([&](auto& state) { return state->objects().get(hash); }));
      }
      ParsedManifest parsed = parse_manifest(files);
      if (!parsed.manifest) return invalid(list_mistakes(parsed.mistakes));
      std::vector<std::string> ignored;
      QUERN_TRY(auto function, assemble(record.tenant, *std::move(parsed.manifest), files, ignored));
      function->created_at = record.created_at;
      registry_.put(std::move(function));
      return {};
    }();
    if (!back.ok())
      os::log_error("function {} of tenant {}: does not come back: {}", record.name, record.tenant, back.error().text);
  }
  return {};
}

}  // namespace quern::daemon
