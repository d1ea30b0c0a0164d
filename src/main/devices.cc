// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "base/units.h"
#include "daemon/discover.h"
#include "main/command.h"
#include "main/remote.h"
#include "os/file.h"

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

struct ShowFlags {
  bool all = false, markdown = false;
  std::string config;
};

using ShownDevice = ipc::Discovered::Found;

std::string yes_or_why_not(const std::string& why_not) { return why_not.empty() ? "yes" : "no: " + why_not; }

const char* yes_or_no(bool is_so) { return is_so ? "yes" : "no"; }

const char* name_of_kind(ShownDevice::Kind kind) {
  constexpr const char* kNames[] = {"none", "cpu", "gpu", "other"};
  return kNames[static_cast<size_t>(kind)];
}

/// What holds on a device that can be used, as cells of a table.
std::vector<std::string> promises_of(const ShownDevice& found) {
  if (!found.error.empty()) return {"-", "-", "-", "-", "-"};
  return {yes_or_why_not(found.unsliceable), yes_or_no(found.classes), yes_or_why_not(found.undivided), found.clock,
          yes_or_no(found.in_place)};
}

void show_table(const std::vector<daemon::Choice>& choices) {
  std::vector<std::vector<std::string>> rows{{"PLATFORM", "VERSION", "DEVICE", "KIND", "INDEX", "UNITS", "MEMORY",
                                              "SLICES", "CLASSES", "PARTITIONS", "CLOCK", "IN PLACE", "USED", "WHY"}};
  for (const daemon::Choice& choice : choices) {
    const auto& found = choice.found;
    const bool is_device = found.kind != ShownDevice::Kind::kNone, is_whole = found.error.empty();
    std::vector<std::string> row{found.platform,
                                 found.version.empty() ? "-" : found.version,
                                 is_device ? found.name : "-",
                                 name_of_kind(found.kind),
                                 is_device ? std::to_string(found.index) : "-",
                                 is_whole ? std::to_string(found.units) : "-",
                                 is_whole ? show_bytes(found.memory_bytes) : "-"};
    for (std::string& cell : promises_of(found)) row.push_back(std::move(cell));
    row.push_back(choice.is_used ? choice.name : "no");
    row.push_back(choice.why);
    rows.push_back(std::move(row));
  }
  constexpr std::array<size_t, 3> kNumbers{4, 5, 6};
  fmt::print("{}", align(rows, kNumbers));
}

// Only columns that are the same on every machine where the driver is installed: docs/guide/devices.md has the rows.
void show_markdown(const std::vector<daemon::Choice>& choices) {
  std::vector<std::string> rows{"| platform | kind | slices | classes | partitions | clock | in place |",
                                "|---|---|---|---|---|---|---|"};
  for (const daemon::Choice& choice : choices) {
    if (!choice.found.error.empty()) continue;
    const std::string row = fmt::format("| {} | {} | {} |", choice.found.platform, name_of_kind(choice.found.kind),
                                        fmt::join(promises_of(choice.found), " | "));
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
  }
  fmt::print("{}\n", fmt::join(rows, "\n"));
}

void show_json(const std::vector<daemon::Choice>& choices) {
  std::string devices;
  for (const daemon::Choice& choice : choices) {
    const auto& found = choice.found;
    devices += fmt::format(
        "{}{{\"platform\": {}, \"version\": {}, \"name\": {}, \"kind\": {}, \"index\": {}, \"units\": {}, "
        "\"memory_bytes\": {}, \"slices\": {}, \"unsliceable\": {}, \"classes\": {}, \"partitions\": {}, "
        "\"undivided\": {}, \"clock\": {}, \"in_place\": {}, \"error\": {}, \"used\": {}, \"used_as\": {}, \"why\": "
        "{}}}",
        devices.empty() ? "" : ", ", json_string(found.platform), json_string(found.version), json_string(found.name),
        json_string(name_of_kind(found.kind)), found.index, found.units, found.memory_bytes,
        found.error.empty() && found.unsliceable.empty(), json_string(found.unsliceable), found.classes,
        found.error.empty() && found.undivided.empty(), json_string(found.undivided), json_string(found.clock),
        found.in_place, json_string(found.error), choice.is_used, json_string(choice.name), json_string(choice.why));
  }
  fmt::print("{{\"quern\": {}, \"devices\": [{}]}}\n", json_string(fmt::format("{} ({})", version(), commit())),
             devices);
}

/// What a server with these entries would warn about, to standard error; the error of an entry that names no device.
Status check_entries(const std::vector<ShownDevice>& found, const std::vector<daemon::DeviceConfig>& entries) {
  std::vector<daemon::CoreUser> core_users;
  Status status;
  for (const daemon::DeviceConfig& entry : entries) {
    if (entry.driver != "opencl") continue;
    if (!entry.library.empty()) {
      fmt::print(stderr, "device {}: is of library {}, which is not looked into\n", entry.name, entry.library);
    } else if (const auto position = daemon::find_device(found, entry)) {
      const auto& device = found[*position];
      if (device.kind == ShownDevice::Kind::kCpu) core_users.push_back({entry.name, device.platform, entry.cores});
      if (!device.error.empty()) status = unsupported(fmt::format("device {}: {}", entry.name, device.error));
    } else {
      status = not_found(fmt::format("device {}: nothing that is listed has index {}{}; name a PLATFORM of the list",
                                     entry.name, entry.index,
                                     entry.platform.empty() ? "" : fmt::format(" of platform '{}'", entry.platform)));
    }
  }
  for (const std::string& warning : daemon::warnings_of_shared_cores(core_users)) fmt::print(stderr, "{}\n", warning);
  return status;
}

/// Removed with all that is in it.
struct ScratchFolder {
  std::string path;
  ~ScratchFolder() { os::remove_tree(path); }
};

Status show_all(const ShowFlags& flags, bool json) {
  std::vector<daemon::DeviceConfig> entries;
  if (!flags.config.empty()) {
    QUERN_TRY(const auto bytes, os::read_file(flags.config, 1 << 20));
    QUERN_TRY(auto config, daemon::parse_config(as_text(bytes), flags.config));
    entries = std::move(config.devices);
  }
  QUERN_TRY(std::string path, os::make_temporary_folder("quern-devices"));
  const ScratchFolder folder{std::move(path)};
  QUERN_TRY(const auto found, daemon::enumerate_devices(folder.path));
  const auto choices = daemon::choose(found, entries);
  json ? show_json(choices) : flags.markdown ? show_markdown(choices) : show_table(choices);
  return check_entries(found, entries);
}

}  // namespace

void add_devices(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("devices", "List the devices and what they did");
  auto remote = add_remote_flags(*command);
  auto flags = std::make_shared<ShowFlags>();
  auto* all = command->add_flag("--all", flags->all,
                                "Ask OpenCL instead of a server: every platform and device of this machine, what holds "
                                "on it, and whether a server would use it");
  command->add_option("--config", flags->config, "With --all: devices as a server with this file uses them")
      ->type_name("quern.yaml")
      ->needs(all);
  command->add_flag("--markdown", flags->markdown, "With --all: what holds on each driver, as a table for a page")
      ->needs(all);
  command->callback([=, &work] {
    work = [=] {
      if (!flags->all) return list_devices(*remote);
      const Status shown = show_all(*flags, remote->json);
      return shown.ok() ? 0 : fail(shown.error());
    };
  });
}

}  // namespace quern::main
