// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "base/units.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "main/command.h"
#include "os/event.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/log.h"
#include "os/signals.h"
#include "os/thread.h"
#include "server/server.h"

namespace quern::main {
namespace {

/// How long running calls may take to end once someone asked us to stop.
constexpr Duration kStopLimit = Duration::seconds(10);

struct ServeFlags {
  std::string listen = "127.0.0.1:8080";
  std::string state = "./state";
  std::string config;
  std::string log_level = "info";
  std::string binary_cache;
  uint32_t threads = 1;
  std::vector<int> cores;
  std::string record;
  std::string record_limit = "1GiB";
};

Result<std::pair<std::string, uint16_t>> split_listen(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  const auto wrong = [&] { return invalid(fmt::format("--listen {}: write HOST:PORT, as in 127.0.0.1:8080", listen)); };
  if (colon == std::string::npos || colon == 0) return wrong();
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  uint16_t port = 0;
  const char* end = listen.data() + listen.size();
  const auto [rest, problem] = std::from_chars(listen.data() + colon + 1, end, port);
  if (problem != std::errc() || rest != end || colon + 1 == listen.size()) return wrong();
  return std::pair{std::move(host), port};
}

Result<daemon::Config> read_config(const ServeFlags& flags) {
  daemon::Config config;
  if (!flags.config.empty()) {
    QUERN_TRY(auto bytes, os::read_file(flags.config, 1 << 20));
    QUERN_TRY(config, daemon::parse_config(as_text(bytes), flags.config));
  }
  // Absolute, for executors and builders work elsewhere.
  config.state_folder = os::absolute(flags.state);
  if (!flags.binary_cache.empty()) config.binary_cache = os::absolute(flags.binary_cache);
  config.host_cores = flags.cores;
  config.record_file = flags.record;
  const auto limit = parse_bytes(flags.record_limit);
  if (!limit.ok()) return invalid(fmt::format("--record-limit {}", limit.error().text));
  config.record_bytes = *limit;
  return config;
}

os::Level level_of(const std::string& name) {
  if (name == "debug") return os::Level::kDebug;
  if (name == "warning") return os::Level::kWarning;
  return name == "error" ? os::Level::kError : os::Level::kInfo;
}

Status serve(const ServeFlags& flags) {
  os::start_log(level_of(flags.log_level));
  os::want_all_descriptors();
  QUERN_TRY(auto address, split_listen(flags.listen));
  const auto& [host, port] = address;
  QUERN_TRY(auto config, read_config(flags));
  if (config.tenants.empty() && !server::is_loopback(host))
    return denied(
        fmt::format("--listen {}: without tenants anyone who can reach it could run code; name tenants with "
                    "keys in a quern.yaml (--config), or listen on 127.0.0.1",
                    flags.listen));
  const bool has_keys = !config.tenants.empty();
  QUERN_TRY(auto stop, os::stop_signals());  // before any thread: they inherit what is blocked
  QUERN_TRY(const os::Event stopped, os::Event::create());
  QUERN_TRY(auto daemon, daemon::Daemon::create(std::move(config)));
  server::ServerConfig server_config;
  server_config.host = host;
  server_config.port = port;
  server_config.version = version();
  server_config.threads = flags.threads;
  server_config.cores = flags.cores;
  server_config.has_keys = has_keys;
  auto server = server::Server::create(server_config, *daemon);
  if (!server.ok()) {
    daemon->stop({0});
    return std::move(server).error();
  }
  (*server)->start();
  const bool is_v6 = host.find(':') != std::string::npos;
  fmt::print("listening on http://{}:{}\n", is_v6 ? "[" + host + "]" : host, (*server)->port());
  std::fflush(stdout);

  os::wait_readable(stop.get(), Duration::forever());
  (void)os::take_signal(stop);
  os::log_info("asked to stop; calls that run may end within {}, or are cut off by a second signal",
               to_string(kStopLimit));
  // Whoever asks twice does not want to wait. Executors and builders end with this process.
  const os::Thread impatient("impatient", [&] {
    os::wait_first_readable(stop.get(), stopped.fd());
    if (os::take_signal(stop)) std::_Exit(1);
  });
  daemon->stop_deploys();
  (*server)->stop(kStopLimit);
  daemon->stop(kStopLimit);
  os::log_info("stopped");
  stopped.signal();
  return {};
}

}  // namespace

void add_serve(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("serve", "Start a server");
  auto flags = std::make_shared<ServeFlags>();
  command->add_option("--listen", flags->listen, "Where to listen; port 0 takes any, and the first line says which")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_option("--state", flags->state, "Where deployed functions are kept")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_option("--config", flags->config, "Devices and tenants")->type_name("quern.yaml");
  command->add_option("--log-level", flags->log_level, "The least that is logged")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads that talk to callers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--record", flags->record, "Write all that the scheduler hears and decides, to replay it")
      ->type_name("FILE");
  command->add_option("--record-limit", flags->record_limit, "How much of it")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--binary-cache", flags->binary_cache)->group("");
  command->add_option("--cores", flags->cores)->delimiter(',')->group("");
  command->footer(
      "Ctrl-C stops it in order. One server per state folder.\n\nExamples:\n"
      "  quern serve --state ./state\n"
      "  quern serve --listen 0.0.0.0:8080 --config quern.yaml      with tenants and keys\n"
      "  quern serve --record day.txt                               then: quern simulate --replay day.txt");
  command->callback([=, &work] {
    work = [=] {
      const auto served = serve(*flags);
      return served.ok() ? 0 : fail(served.error());
    };
  });
}

}  // namespace quern::main
