// SPDX-License-Identifier: Apache-2.0
//
// A function from its files: programs for all devices here, checked against the manifest.
#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/units.h"
#include "daemon/builder_process.h"
#include "daemon/deployer.h"
#include "daemon/mistakes.h"
#include "function/includes.h"
#include "function/plan_builder.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

std::atomic<uint64_t> next_function{1};
std::atomic<uint64_t> next_build{1};

/// The driver whose programs a device runs; null if the function has none. The fake device runs OpenCL C whose entries
/// it has host versions of.
const char* driver_for(const Graph& graph, const DeviceRecord& device) {
  if (graph.program_for(device.caps.driver)) return device.caps.driver.c_str();
  return device.caps.driver == "fake" && graph.program_for("opencl") ? "opencl" : nullptr;
}

/// What the compiler is given of a program: its files as text_to_compile makes them, which is what was checked.
Files files_to_compile(const ProgramDecl& program, const Files& files) {
  Files texts;
  for (const auto* names : {&program.files, &program.headers})
    for (const std::string& name : *names)
      if (const auto file = files.find(name); file != files.end())
        texts[name] = bytes_of(text_to_compile(as_text(file->second)));
  return texts;
}

/// The last programs that were compiled and that the disk did not take, by key. A deploy asks for a program once it is
/// compiled, and must find it also when the disk is full. Any thread.
class UnstoredPrograms {
 public:
  void put(const std::string& key, const BinaryContent& content) {
    programs_.with([&](auto& programs) {
      std::erase_if(programs, [&](const auto& one) { return one.first == key; });
      if (programs.size() == kMost) programs.erase(programs.begin());
      programs.emplace_back(key, content);
    });
  }
  std::optional<BinaryContent> get(const std::string& key) {
    return programs_.with([&](auto& programs) -> std::optional<BinaryContent> {
      for (const auto& [known, content] : programs)
        if (known == key) return content;
      return std::nullopt;
    });
  }

 private:
  static constexpr size_t kMost = 16;  ///< of some 100 KiB each; more than builders work at a time
  os::Guarded<std::vector<std::pair<std::string, BinaryContent>>> programs_;
};
UnstoredPrograms unstored;

/// A disk that is full costs another compilation after the next start, and nothing else.
void note_stored(const std::string& key, const BinaryContent& content, const Status& stored) {
  if (stored.ok()) return;
  os::log_warning("a compiled program is not stored, and is compiled again after the next start: {}",
                  stored.error().text);
  unstored.put(key, content);
}

}  // namespace

Result<std::shared_ptr<DeployedFunction>> Deployer::assemble(const std::string& tenant, Manifest manifest,
                                                             std::string version, const Files& files,
                                                             const std::map<std::string, ConstantRecord>& constants,
                                                             std::vector<std::string>& warnings,
                                                             std::vector<BuildOrder>* orders) {
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
    any = any || driver_for(kept, *device);
    QUERN_TRY(std::optional<Binary> found, binary_for(*device, kept, files, orders));
    if (!found) continue;
    Binary& binary = *found;
    std::vector<ProgramSignatures> signatures;
    for (const CompiledProgram& program : binary.programs) signatures.push_back(program.signatures);
    const auto mistakes = mistakes_in(kept, check_signatures(kept, signatures));
    if (const std::string text = list_mistakes(mistakes); !text.empty()) {
      const auto origin = orders ? Origin::kDeployed : Origin::kStored;
      const auto problems = check_signatures(kept, signatures, origin);
      if (const auto left = list_mistakes(mistakes_in(kept, problems)); !left.empty()) return invalid(left);
      os::log_warning("function {} of tenant {}: version {} works as it did, but cannot be deployed again: {}",
                      kept.name, tenant, short_version(function->version), text);
    }
    if (function->binaries.empty()) collect_warnings(mistakes, warnings);
    // Which device runs it is not known here: one that cannot slice it is one too many.
    function->unsliceable.resize(kept.kernels.size());
    for (size_t i = 0; i < kept.kernels.size(); ++i) {
      const KernelDecl& kernel = kept.kernels[i];
      binary.unsliceable.push_back(device->caps.launch_offset ? unsliceable(kernel, signatures[kernel.program])
                                                              : "the device has no launch offset");
      if (function->unsliceable[i].empty()) function->unsliceable[i] = binary.unsliceable[i];
    }
    function->binaries.emplace(device->caps.build_key, std::move(binary));
  }
  if (!any) {
    std::string drivers;
    for (const DeviceRecord* device : targets_) drivers += (drivers.empty() ? "" : ", ") + device->caps.driver;
    return unsupported(fmt::format("function {}: has no program for any device here ({})", kept.name, drivers));
  }
  if (orders && !orders->empty()) return std::shared_ptr<DeployedFunction>();
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

// Compiled programs are a cache: one that is missing, damaged or recorded in a way that nobody reads is compiled again.
std::optional<BinaryContent> Deployer::find_binary(const std::string& key) {
  const auto known = state_.ask(StateThread::kServer, [&](State& state) { return state.binary(key); });
  if (known.ok() && *known) {
    const auto signatures = ipc::decode_signatures((*known)->signatures);
    auto binary = objects_.get((*known)->object);
    if (signatures.ok() && binary.ok()) return BinaryContent{*std::move(binary), (*known)->signatures};
    os::log_warning("a compiled program is not as it was stored, and is compiled again: {}",
                    (binary.ok() ? signatures.error() : binary.error()).text);
  }
  return unstored.get(key);
}

Result<std::optional<Binary>> Deployer::binary_for(const DeviceRecord& device, const Graph& graph, const Files& files,
                                                   std::vector<BuildOrder>* orders) {
  const char* driver = driver_for(graph, device);
  if (!driver) return std::optional<Binary>();
  Binary binary;
  for (uint32_t i = 0; i < graph.program_names.size(); ++i) {
    const ProgramDecl* program = graph.program_for(driver, i);
    QUERN_CHECK(program, "a driver has all programs or none");
    QUERN_TRY(std::optional<CompiledProgram> one, compiled(device, *program, graph, files, orders));
    if (one) binary.programs.push_back(*std::move(one));
  }
  if (binary.programs.size() < graph.program_names.size()) return std::optional<Binary>();
  return std::optional<Binary>(std::move(binary));
}

Result<std::optional<CompiledProgram>> Deployer::compiled(const DeviceRecord& device, const ProgramDecl& program,
                                                          const Graph& graph, const Files& files,
                                                          std::vector<BuildOrder>* orders) {
  BuildOrder order;
  order.device = &device;
  const Files texts = files_to_compile(program, files);
  QUERN_TRY(order.frame.text, source_text(program, texts));
  QUERN_TRY(const std::string sources, source_text(program, files));
  order.frame.options = option_text(program);
  // All that the compiler reads (builder/builder.h), but for what comes with the driver. Each part has its length, so
  // that no part can be taken for another. 5: since programs tell what their kernels do with memory.
  std::string identity = "quern binary 5";
  const auto add = [&](std::string_view part) { identity += fmt::format("\n{} {}", part.size(), part); };
  add(device.caps.build_key);
  add(order.frame.options);
  const auto sizes = group_sizes_of(graph, program.number);
  identity += fmt::format("\n{} sizes", sizes.size());
  for (const Size3& size : sizes) {
    identity += fmt::format(" {}x{}x{}", size[0], size[1], size[2]);
    order.frame.group_sizes.push_back(size);
  }
  identity += fmt::format("\n{} headers", program.headers.size());
  for (const std::string& name : program.headers) {
    add(name);
    add(as_text(files.at(name)));
    order.frame.headers.emplace_back(name, as_text(texts.at(name)));
  }
  add(sources);
  order.key = sha256(identity);

  std::optional<BinaryContent> content = find_binary(order.key);
  if (!content && (content = cache_.get(order.key))) {
    if (ipc::decode_signatures(content->signatures).ok())
      note_stored(order.key, *content, store_binary(order.key, *content));
    else
      content.reset();
  }
  if (!content && orders) {
    // Devices that are alike, and programs that are, are compiled once.
    const bool is_ordered =
        std::any_of(orders->begin(), orders->end(), [&](const BuildOrder& other) { return other.key == order.key; });
    if (!is_ordered) orders->push_back(std::move(order));
    return std::optional<CompiledProgram>();
  }
  if (!content) {
    QUERN_TRY(content, build(graph.name, std::move(order), nullptr));
  }
  CompiledProgram made;
  QUERN_TRY(made.signatures, ipc::decode_signatures(content->signatures));
  QUERN_TRY(made.object, hold(content->binary));
  return std::optional<CompiledProgram>(std::move(made));
}

Status Deployer::store_binary(const std::string& key, const BinaryContent& content) {
  const std::string object = sha256(content.binary);
  return put_and_record(StateThread::kServer, {{object, content.binary}}, [&](State& state) {
    return state.put_binary({key, object, content.signatures});
  });
}

Result<BinaryContent> Deployer::build(const std::string& name, BuildOrder order, const os::Event* abandoned) {
  const DeviceRecord& device = *order.device;
  ipc::BuildFrame& frame = order.frame;
  frame.device.driver = device.config.driver;
  frame.device.platform = device.config.platform;
  frame.device.library = device.config.library;
  frame.device.index = device.config.index;
  frame.device.memory_bytes = device.config.memory_bytes;
  // Beside the devices where there is room: compiling is not device work.
  std::vector<int> cores = config_.host_cores.empty() ? os::allowed_cores() : config_.host_cores;
  std::vector<int> free;
  for (int core : cores)
    if (!std::count(device.config.cores.begin(), device.config.cores.end(), core)) free.push_back(core);
  if (!device.config.cores.empty()) frame.device.cores = {free.empty() ? device.config.cores.front() : free.front()};
  const std::string folder = fmt::format("{}/builder-{}", run_folder_, next_build.fetch_add(1));
  ++builds_;
  os::log_info("function {}: is being compiled for device {}", name, device.config.name);
  const Time begun = os::now();
  auto built = build_program(std::move(frame), folder, config_.build_limit, stop_, abandoned);
  os::log_info("function {}: {} after {}", name, built.ok() ? "is compiled" : "is not compiled",
               show_time(static_cast<double>((os::now() - begun).ns)));
  if (!built.ok()) {
    // Headers are named as the function's folder has them.
    std::string log = built.error().text;
    for (const std::string& prefix : {folder + "/headers/", folder + "/"})
      for (size_t at = log.find(prefix); at != std::string::npos; at = log.find(prefix, at))
        log.erase(at, prefix.size());
    return Error{built.error().code, fmt::format("function {}: its program does not build for device {}:\n{}", name,
                                                 device.config.name, log)};
  }
  if (built->build_key != device.caps.build_key)
    return internal(
        fmt::format("builder: built for '{}' where '{}' was asked for", built->build_key, device.caps.build_key));
  BinaryContent content{std::move(built->binary), ipc::encode(built->signatures)};
  cache_.put(order.key, content);
  note_stored(order.key, content, store_binary(order.key, content));
  return content;
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

}  // namespace quern::daemon
