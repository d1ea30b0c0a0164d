// SPDX-License-Identifier: Apache-2.0
#include "main/local.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <future>

#include "base/hash.h"
#include "daemon/config.h"
#include "daemon/daemon_waits.h"
#include "daemon/discover.h"
#include "function/tar.h"
#include "main/drivers.h"
#include "main/tensors.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "os/poller.h"
#include "os/signals.h"

namespace quern::main {

void add_local_flags(CLI::App& command, LocalFlags& flags) {
  command.add_option("--config", flags.config, "Devices, as for serve")->type_name("quern.yaml");
  command.add_option("--binary-cache", flags.binary_cache)->group("");
}

Result<Folder> read_folder(const std::string& path) {
  QUERN_TRY(client::Packed packed, client::pack_folder(path));
  Folder folder;
  folder.name = std::move(packed.name);
  folder.tar = std::move(packed.tar);
  QUERN_TRY(folder.files, read_tar(folder.tar));
  folder.parsed = parse_manifest(folder.files);
  return folder;
}

Status tell_mistakes(const Folder& folder) {
  for (const Mistake& mistake : folder.parsed.mistakes) fmt::print(stderr, "{}\n", to_string(mistake));
  if (folder.parsed.manifest) return {};
  return invalid(fmt::format("function {}: its manifest has mistakes; they are listed above", folder.name));
}

namespace {

Status wrap_drivers(daemon::Config& config, const LocalFlags& flags) {
  if (config.devices.empty()) {
    const std::string folder = config.state_folder + "/discover";
    QUERN_TRY(config.devices, daemon::discover_devices(folder));
    os::remove_tree(folder);
  }
  for (daemon::DeviceConfig& device : config.devices) {
    if (flags.slices) device.driver = sliced_name(device.driver, *flags.slices);
    if (!flags.poison) continue;
    device.driver = guarded_name(device.driver, *flags.poison);
    device.in_place = false;  // what is used in place lies in memory of the daemon, where there is no room for guards
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Local>> Local::create(const LocalFlags& flags) {
  // Once: there may be two, and the threads of the first one log.
  [[maybe_unused]] static const bool is_started = (os::start_log(os::Level::kError), true);
  daemon::Config config;
  if (!flags.config.empty()) {
    QUERN_TRY(auto bytes, os::read_file(flags.config, 1 << 20));
    QUERN_TRY(config, daemon::parse_config(as_text(bytes), flags.config));
    config.tenants.clear();
  }
  QUERN_TRY(auto signals, os::stop_signals());  // before any thread: they inherit what is blocked
  QUERN_TRY(auto quit, os::Event::create());
  QUERN_TRY(std::string state, os::make_temporary_folder("quern-local"));
  std::unique_ptr<Local> self(new Local(std::move(state), std::move(signals), std::move(quit)));
  config.state_folder = self->state_;
  if (!flags.binary_cache.empty()) config.binary_cache = os::absolute(flags.binary_cache);
  if (flags.slices || flags.poison) QUERN_TRY(wrap_drivers(config, flags));
  QUERN_TRY(self->daemon_, daemon::Daemon::create(std::move(config)));
  QUERN_TRY(self->tenant_, self->daemon_->authenticate(""));
  self->watcher_ = os::Thread("watcher", [raw = self.get()] { raw->watch(); });
  return self;
}

// A daemon that stops ends calls and builds, so that whoever waits for one goes on and tidies up.
void Local::watch() {
  auto poller = os::Poller::create();
  if (!poller.ok() || !poller->add(signals_.get(), 1).ok() || !poller->add(quit_.fd(), 2).ok()) return;
  const std::vector<uint64_t> ready = poller->wait(Duration::forever());
  if (std::find(ready.begin(), ready.end(), 1) == ready.end()) return;
  interrupted_ = true;
  daemon_->stop({0});
}

Error Local::or_interrupted(const Error& error) const {
  return interrupted_ ? Error{ErrorCode::kCancelled, "interrupted"} : error;
}

Local::~Local() {
  quit_.signal();
  if (watcher_.joinable()) watcher_.join();
  last_.reset();
  if (daemon_) daemon_->stop({0});
  daemon_.reset();
  os::remove_tree(state_);
}

Result<daemon::FunctionRef> Local::deploy(const Folder& folder, bool tell) {
  const auto deployed = daemon::deploy_and_wait(*daemon_, *tenant_, folder.name, folder.tar);
  if (!deployed.ok()) return or_interrupted(deployed.error());
  if (tell)
    for (const std::string& warning : deployed->warnings) fmt::print(stderr, "{}\n", warning);
  return deployed->function;
}

Result<Local::Answer> Local::call(const daemon::FunctionRef& function, const client::InferRequest& request,
                                  bool profile) {
  last_.reset();
  CallSpec spec;
  daemon::CallOptions options;
  options.profile = profile;
  spec.parameters = request.parameters;
  if (const auto timeout = spec.parameters.extract("timeout")) {
    const auto given = timeout_of(timeout.mapped());
    if (!given.ok()) return invalid("--param timeout: " + given.error().text);
    options.timeout = *given;
  }
  if (const auto priority = spec.parameters.extract("priority")) {
    const auto* number = std::get_if<int64_t>(&priority.mapped());
    if (!number || *number < 0 || *number > 9) return invalid("--param priority: write 0 (most urgent) to 9");
    options.priority = static_cast<uint8_t>(*number);
  }
  for (const client::TensorView& input : request.inputs) spec.inputs.push_back({input.name, input.dtype, input.shape});
  QUERN_TRY(auto call, daemon_->prepare(*tenant_, function, spec, options));
  for (size_t i = 0; i < request.inputs.size(); ++i)
    std::memcpy(call->inputs[i].bytes.data(), request.inputs[i].bytes.data(), request.inputs[i].bytes.size());
  std::promise<std::unique_ptr<daemon::Call>> promise;
  daemon_->submit(std::move(call), [&](std::unique_ptr<daemon::Call> ended) { promise.set_value(std::move(ended)); });
  last_ = promise.get_future().get();
  if (last_->error) return or_interrupted(*last_->error);
  Answer answer;
  answer.call = last_.get();
  answer.answer.version = short_version(function->version);
  answer.answer.request = last_->id;
  for (const daemon::CallTensor& output : last_->outputs)
    answer.answer.outputs.push_back({output.name, output.dtype, output.shape, output.bytes});
  std::string parameters;
  for (const auto& [name, rounds] : last_->rounds)
    parameters += fmt::format("{}\"{}\": {}", parameters.empty() ? "" : ", ", name, rounds);
  answer.answer.parameters_json = "{" + parameters + "}";
  return answer;
}

client::FunctionInfo info_of(const daemon::Function& function) {
  client::FunctionInfo info;
  info.name = function.name;
  info.version = short_version(function.version);
  for (const DimDecl& dim : function.manifest.dims) info.dims.push_back({dim.name, dim.value});
  for (const LetDecl& let : function.manifest.lets) info.lets.push_back({let.name, let.value.text()});
  for (const ParamDecl& param : function.manifest.params)
    info.params.push_back({param.name, std::string(name_of(param.dtype))});
  for (const BufferDecl& buffer : function.manifest.buffers) {
    if (buffer.role != Role::kInput && buffer.role != Role::kOutput) continue;
    client::FunctionInfo::Tensor tensor{buffer.name, buffer.dtype, open_shape(function.manifest, buffer), {}};
    for (const Expression& size : buffer.shape) tensor.expressions.push_back(size.text());
    (buffer.role == Role::kInput ? info.inputs : info.outputs).push_back(std::move(tensor));
  }
  return info;
}

}  // namespace quern::main
