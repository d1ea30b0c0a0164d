// SPDX-License-Identifier: Apache-2.0
#include "bench/stage.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>

#include "os/clock.h"
#include "os/env.h"
#include "os/event.h"
#include "os/file.h"

namespace quern::bench {
namespace {

namespace json = boost::json;

constexpr Duration kStartLimit = Duration::seconds(60), kStopLimit = Duration::seconds(20);
constexpr size_t kLongestLog = 1 << 20;
constexpr uint64_t kDeviceMemory = uint64_t{4} << 30;

double number_at(const json::object& object, std::string_view key) {
  const auto* found = object.if_contains(key);
  boost::system::error_code ignored;
  return found && found->is_number() ? found->to_number<double>(ignored) : 0;
}

// Where functions are: one of them tells that it is the right one.
Result<std::string> source_folder(const std::string& name, const std::string& function) {
  for (const std::string& folder : {name, QUERN_BENCH_SOURCE "/" + name})
    if (os::exists(folder + "/" + function + "/function.yaml")) return os::absolute(folder);
  return not_found(fmt::format("folder {}: not here; run the benchmark in Quern's own folder", name));
}

}  // namespace

Layout Layout::here() {
  const std::vector<int> cores = os::allowed_cores();
  Layout layout;
  layout.host = cores.empty() ? 0 : cores.front();
  layout.device = cores.size() > 1 ? cores[1] : layout.host;
  layout.text = cores.size() > 1
                    ? fmt::format("device (worker and launch threads, raw's too) on core {}, all else on core {}",
                                  layout.device, layout.host)
                    : fmt::format("ONE CORE ({}) for device and host: ratios say little", layout.host);
  return layout;
}

daemon::DeviceConfig Layout::device_config() const {
  daemon::DeviceConfig config;
  config.name = "cpu0";
  config.driver = "opencl";
  config.cores = {device};
  config.memory_bytes = kDeviceMemory;
  return config;
}

Result<Folder> Folder::create() {
  QUERN_TRY(std::string path, os::make_temporary_folder("quern-bench"));
  return Folder(std::move(path));
}

Folder::~Folder() {
  if (!path_.empty()) os::remove_tree(path_);
}

Result<std::string> examples_folder() { return source_folder("examples", "spin"); }
Result<std::string> functions_folder() { return source_folder("bench/functions", "chain300"); }

Result<std::unique_ptr<Server>> Server::start(const Layout& layout, const std::string& folder,
                                              const std::vector<std::string>& more) {
  std::unique_ptr<Server> server(new Server);
  QUERN_TRY(server->spawn(layout, folder, more));
  QUERN_TRY(server->wait_ready());
  return server;
}

Duration Server::cpu_time() const { return os::cpu_time_of_process(process_.pid()); }

Status Server::spawn(const Layout& layout, const std::string& folder, const std::vector<std::string>& more) {
  const std::string config = fmt::format("devices: [{{name: cpu0, driver: opencl, cores: [{}], memory: {}GiB}}]\n",
                                         layout.device, kDeviceMemory >> 30);
  QUERN_TRY(os::write_file(folder + "/quern.yaml", as_bytes_of(config)));
  QUERN_TRY(auto ends, os::pipe());
  os::ProcessOptions options;
  // The benchmark measures the product, a program beside quern-bench that has no benchmark in it.
  constexpr std::string_view kOwnEnding = "-bench";
  options.program = os::own_path();
  if (options.program.ends_with(kOwnEnding)) options.program.resize(options.program.size() - kOwnEnding.size());
  options.arguments = {"serve",
                       "--listen",
                       "127.0.0.1:0",
                       "--state",
                       folder + "/state",
                       "--config",
                       folder + "/quern.yaml",
                       "--cores",
                       std::to_string(layout.host),
                       "--log-level",
                       "warning"};
  for (const char* name : {"PATH", "HOME", "TMPDIR", "OCL_ICD_VENDORS", "LD_LIBRARY_PATH"})
    if (auto value = os::env(name); !value.empty()) options.environment[name] = value;
  options.arguments.insert(options.arguments.end(), more.begin(), more.end());
  options.cores = {layout.host, layout.device};  // ours may be narrower, and its children need the device's
  options.descriptors = 4096;
  options.log = ends.second.get();
  QUERN_TRY(process_, os::Process::spawn(options));
  log_fd_ = std::move(ends.first);
  ends.second.reset();
  // A pipe that nobody empties stops who writes to it.
  reader_ = os::Thread("bench-log", [this] { read_log(); });
  return {};
}

Status Server::wait_ready() {
  constexpr std::string_view kMark = "listening on ";
  const Time deadline = os::now() + kStartLimit;
  while (url_.empty()) {
    if (os::wait_readable(process_.pidfd(), Duration::millis(20)))
      return unavailable("server: did not start:\n" + log());
    if (os::now() > deadline)
      return unavailable(fmt::format("server: not ready within {}:\n{}", to_string(kStartLimit), log()));
    const std::string said = log();
    const size_t at = said.find(kMark);
    const size_t end = at == std::string::npos ? at : said.find('\n', at);
    if (end != std::string::npos) url_ = said.substr(at + kMark.size(), end - at - kMark.size());
  }
  const size_t colon = url_.rfind(':');
  const char* last = url_.data() + url_.size();
  if (const auto [rest, problem] = std::from_chars(url_.data() + colon + 1, last, port_);
      problem != std::errc() || rest != last)
    return internal("server: says that it listens on " + url_);
  QUERN_TRY(auto client, connect());
  for (;;) {
    const auto ready = client.is_ready();
    if (ready.ok() && *ready) return {};
    if (os::now() > deadline)
      return unavailable(fmt::format("server: no device within {}:\n{}", to_string(kStartLimit), log()));
    settle();
  }
}

void Server::read_log() {
  for (;;) {
    os::wait_readable(log_fd_.get(), Duration::forever());
    const std::string piece = os::read_available(log_fd_, 64 * 1024);
    if (piece.empty()) return;  // the other end is closed
    log_.with([&](std::string& text) {
      if (text.size() < kLongestLog) text += piece;
    });
  }
}

std::string Server::log() const {
  return log_.with([](const std::string& text) { return text; });
}

Status Server::deploy(const std::string& name) {
  QUERN_TRY(auto examples, examples_folder());
  QUERN_TRY(auto packed, client::pack_folder(examples + "/" + name));
  QUERN_TRY(auto client, connect());
  QUERN_TRY(client.deploy(packed.name, packed.tar));
  return {};
}

Result<client::Client> Server::connect() const { return client::Client::create({.url = url_, .key = {}}); }

Result<ServerCounters> Server::counters() const {
  QUERN_TRY(auto client, connect());
  QUERN_TRY(auto answer, client.send("GET", "/v1/counters", "", {}));
  boost::system::error_code code;
  const auto value = json::parse(as_text(answer.body), code);
  const auto* root = value.if_object();
  const auto* stages = root && root->if_contains("stages") ? root->at("stages").if_object() : nullptr;
  if (answer.status != 200 || !stages)
    return internal("server: /v1/counters answers " + std::string(as_text(answer.body)));
  ServerCounters counters;
  counters.copied_bytes = static_cast<uint64_t>(number_at(*root, "copied_bytes"));
  counters.device_ns = number_at(*root, "device_ns");
  for (const auto& [name, stage] : *stages)
    if (const auto* both = stage.if_object())
      counters.stages.push_back({std::string(name), number_at(*both, "ns"), number_at(*both, "count")});
  return counters;
}

Status Server::stop() {
  if (process_.pid() < 0) return {};
  ::kill(process_.pid(), SIGTERM);
  const auto exit = process_.wait(kStopLimit);
  if (exit && exit->code == 0 && exit->signal == 0) return {};
  return internal(exit ? fmt::format("server: ended with code {}, signal {}:\n{}", exit->code, exit->signal, log())
                       : fmt::format("server: did not stop within {}:\n{}", to_string(kStopLimit), log()));
}

void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace quern::bench
