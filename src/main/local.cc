// SPDX-License-Identifier: Apache-2.0
#include "main/local.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <future>

#include "base/hash.h"
#include "daemon/config.h"
#include "function/tar.h"
#include "main/tensors.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"

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

Result<std::unique_ptr<Local>> Local::create(const LocalFlags& flags) {
  os::start_log(os::Level::kError);
  daemon::Config config;
  if (!flags.config.empty()) {
    QUERN_TRY(auto bytes, os::read_file(flags.config, 1 << 20));
    QUERN_TRY(config, daemon::parse_config(as_text(bytes), flags.config));
    config.tenants.clear();
  }
  QUERN_TRY(std::string state, os::make_temporary_folder("quern-local"));
  std::unique_ptr<Local> self(new Local(std::move(state)));
  config.state_folder = self->state_;
  if (!flags.binary_cache.empty()) config.binary_cache = os::absolute(flags.binary_cache);
  QUERN_TRY(self->daemon_, daemon::Daemon::create(std::move(config)));
  QUERN_TRY(self->tenant_, self->daemon_->authenticate(""));
  return self;
}

Local::~Local() {
  last_.reset();
  if (daemon_) daemon_->stop({0});
  daemon_.reset();
  os::remove_tree(state_);
}

Result<daemon::FunctionRef> Local::deploy(const Folder& folder) {
  std::promise<Result<daemon::Deployed>> promise;
  daemon_->deploy(*tenant_, folder.name, folder.tar,
                  [&](Result<daemon::Deployed> deployed) { promise.set_value(std::move(deployed)); });
  QUERN_TRY(daemon::Deployed deployed, promise.get_future().get());
  for (const std::string& warning : deployed.warnings) fmt::print(stderr, "{}\n", warning);
  return deployed.function;
}

Result<Local::Answer> Local::call(const daemon::FunctionRef& function, const client::InferRequest& request,
                                  bool profile) {
  last_.reset();
  CallSpec spec;
  daemon::CallOptions options;
  options.profile = profile;
  spec.parameters = request.parameters;
  if (const auto timeout = spec.parameters.extract("timeout"))
    if (const auto* micros = std::get_if<int64_t>(&timeout.mapped())) options.timeout = Duration::micros(*micros);
  spec.parameters.erase("priority");  // nobody else is here
  for (const client::TensorView& input : request.inputs) spec.inputs.push_back({input.name, input.dtype, input.shape});
  QUERN_TRY(auto call, daemon_->prepare(*tenant_, function, spec, options));
  for (size_t i = 0; i < request.inputs.size(); ++i)
    std::memcpy(call->inputs[i].bytes.data(), request.inputs[i].bytes.data(), request.inputs[i].bytes.size());
  std::promise<std::unique_ptr<daemon::Call>> promise;
  daemon_->submit(std::move(call), [&](std::unique_ptr<daemon::Call> ended) { promise.set_value(std::move(ended)); });
  last_ = promise.get_future().get();
  if (last_->error) return *last_->error;
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
