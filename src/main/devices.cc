// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>

#include "base/units.h"
#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

int list_devices(const Remote& remote) {
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  const auto devices = server->devices();
  if (!devices.ok()) return fail(devices.error());
  if (remote.json) {
    fmt::print("{}\n", devices->json);
    return 0;
  }
  std::vector<std::vector<std::string>> rows{
      {"NAME", "DRIVER", "STATE", "UNITS", "CORES", "MEMORY", "EXECUTORS", "RUNNING", "RUNS", "DEVICE TIME", "MODEL"}};
  for (const auto& one : devices->items)
    rows.push_back({one.name, one.driver, one.is_up ? "up" : "down", std::to_string(one.units),
                    one.cores.empty() ? "-" : fmt::format("{}", fmt::join(one.cores, ",")),
                    show_bytes(one.memory_bytes), std::to_string(one.executors), std::to_string(one.running),
                    std::to_string(one.runs_ended), show_time(static_cast<double>(one.device_time_ns)), one.model});
  constexpr std::array<size_t, 6> kNumbers{3, 5, 6, 7, 8, 9};
  fmt::print("{}", align(rows, kNumbers));
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("devices", "List the devices and what they did");
  auto remote = add_remote_flags(*command);
  command->callback([=, &work] { work = [=] { return list_devices(*remote); }; });
}

}  // namespace quern::main
