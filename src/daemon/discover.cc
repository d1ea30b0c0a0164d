// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ipc/channel.h"
#include "os/env.h"
#include "os/event.h"
#include "os/file.h"
#include "os/log.h"
#include "os/process.h"
#include "os/thread.h"

namespace quern::daemon {
namespace {

using Found = ipc::Discovered::Found;

constexpr Duration kLimit = Duration::seconds(60);

void use(Choice& choice, std::string name, std::string why) {
  choice.is_used = true;
  choice.name = std::move(name);
  choice.why = std::move(why);
}

bool is_same_model(const Found& one, const Found& other) {
  return one.kind == other.kind && one.name == other.name && one.memory_bytes == other.memory_bytes;
}

// Which of the equal devices of its platform this one is: two equal cards are two devices.
size_t number_among_equals(const std::vector<Choice>& choices, size_t position) {
  const Found& found = choices[position].found;
  size_t number = 0;
  for (size_t i = 0; i < position; ++i)
    number += choices[i].found.platform == found.platform && is_same_model(choices[i].found, found);
  return number;
}

// The same GPU, which another platform showed before; null if there is none.
const Choice* twin_of(const std::vector<Choice>& choices, size_t position) {
  const Found& found = choices[position].found;
  for (size_t i = 0; i < position; ++i) {
    const Choice& before = choices[i];
    if (before.is_used && before.found.platform != found.platform && is_same_model(before.found, found) &&
        number_among_equals(choices, i) == number_among_equals(choices, position))
      return &before;
  }
  return nullptr;
}

size_t choose_gpus(std::vector<Choice>& choices) {
  size_t used = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    Choice& choice = choices[i];
    if (choice.found.kind != Found::Kind::kGpu || !choice.found.error.empty()) continue;
    if (const Choice* twin = twin_of(choices, i))
      choice.why = fmt::format("same GPU as {} of platform '{}'", twin->name, twin->found.platform);
    else
      use(choice, fmt::format("gpu{}", used++), "a GPU");
  }
  return used;
}

void choose_cpu(std::vector<Choice>& choices) {
  Choice* first = nullptr;
  for (Choice& choice : choices) {
    if (choice.found.kind != Found::Kind::kCpu || !choice.found.error.empty()) continue;
    if (!first) {
      use(choice, "cpu0", "the only CPU device");
      first = &choice;
    } else {
      choice.why = fmt::format("same cores as cpu0 of platform '{}'", first->found.platform);
      first->why = "the first CPU device";
    }
  }
}

void choose_named(std::vector<Choice>& choices, const std::vector<Found>& found,
                  const std::vector<DeviceConfig>& configured) {
  for (const DeviceConfig& device : configured) {
    const auto position = find_device(found, device);
    if (!position) continue;
    Choice& choice = choices[*position];
    if (choice.found.error.empty())
      use(choice, choice.name.empty() ? device.name : choice.name + ", " + device.name, "named in quern.yaml");
  }
}

std::string why_unused(const Found& found, bool has_config, size_t gpus) {
  if (!found.error.empty()) return found.error;
  if (has_config) return "not named in quern.yaml";
  if (found.kind == Found::Kind::kCpu && gpus > 0) return "there is a GPU; name both in quern.yaml to use both";
  return "neither a CPU nor a GPU; name it in quern.yaml to use it";
}

bool shares_cores(const CoreUser& one, const CoreUser& other, std::vector<int>& shared) {
  if (one.cores.empty() || other.cores.empty()) {
    shared = one.cores.empty() ? other.cores : one.cores;
    return true;
  }
  shared.clear();
  for (const int core : one.cores)
    if (std::find(other.cores.begin(), other.cores.end(), core) != other.cores.end()) shared.push_back(core);
  return !shared.empty();
}

}  // namespace

std::string to_text(const Choice& choice) {
  const std::string what = choice.found.kind == Found::Kind::kNone
                               ? fmt::format("platform '{}'", choice.found.platform)
                               : fmt::format("device '{}' of platform '{}'", choice.found.name, choice.found.platform);
  const std::string how = choice.is_used ? "is used as " + choice.name : "is not used";
  return fmt::format("{} {}: {}", what, how, choice.why);
}

Result<std::vector<Found>> enumerate_devices(const std::string& cache_folder) {
  QUERN_TRY(os::make_folders(cache_folder, 0700));
  QUERN_TRY(auto sockets, os::socket_pair());
  QUERN_TRY(auto log, os::pipe());
  os::ProcessOptions options;
  options.arguments = {"executor"};
  options.environment = os::vendor_environment();
  options.environment.insert({{"HOME", cache_folder}, {"TMPDIR", cache_folder}, {"POCL_CACHE_DIR", cache_folder}});
  options.socket = sockets.second.get();
  options.log = log.second.get();
  QUERN_TRY(os::Process process, os::Process::spawn(options));
  sockets.second.reset();
  log.second.reset();
  ipc::Channel channel(std::move(sockets.first));
  QUERN_TRY(channel.send(ipc::Discover{"opencl"}));
  os::wait_readable(channel.fd(), kLimit);
  auto received = channel.receive();
  if (received.ok())
    if (auto* discovered = std::get_if<ipc::Discovered>(&received->frame)) return std::move(discovered->devices);
  process.kill();
  (void)process.wait(Duration::forever());
  const std::string words = os::read_available(log.first, 2048);
  const std::string why = !words.empty() ? words : received.ok() ? "its answer makes no sense" : received.error().text;
  return unavailable(fmt::format(
      "devices: OpenCL shows none: {}; install a driver (pocl-opencl-icd for the CPU) or name devices in quern.yaml",
      why));
}

std::vector<Choice> choose(const std::vector<Found>& found, const std::vector<DeviceConfig>& configured) {
  std::vector<Choice> choices;
  for (const Found& one : found) choices.push_back({one, false, "", ""});
  size_t gpus = 0;
  if (!configured.empty()) {
    choose_named(choices, found, configured);
  } else {
    gpus = choose_gpus(choices);
    if (gpus == 0) choose_cpu(choices);
  }
  for (Choice& choice : choices)
    if (choice.why.empty()) choice.why = why_unused(choice.found, !configured.empty(), gpus);
  return choices;
}

std::optional<size_t> find_device(const std::vector<Found>& found, const DeviceConfig& wanted) {
  // Another library may show other devices.
  if (wanted.driver != "opencl" || !wanted.library.empty()) return std::nullopt;
  const bool is_whole_name =
      std::any_of(found.begin(), found.end(), [&](const Found& one) { return one.platform == wanted.platform; });
  uint32_t number = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string& platform = found[i].platform;
    const bool fits = is_whole_name ? platform == wanted.platform : platform.find(wanted.platform) != std::string::npos;
    if (fits && found[i].kind != Found::Kind::kNone && number++ == wanted.index) return i;
  }
  return std::nullopt;
}

std::vector<std::string> warnings_of_shared_cores(const std::vector<CoreUser>& devices) {
  std::vector<std::string> warnings;
  std::vector<int> shared;
  for (size_t i = 0; i < devices.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (devices[i].platform == devices[j].platform || !shares_cores(devices[i], devices[j], shared)) continue;
      const std::string which = shared.empty() ? "all cores" : fmt::format("cores {}", fmt::join(shared, ", "));
      warnings.push_back(fmt::format(
          "device {}: shares {} with device {} of another platform, so that each slows down the other; give "
          "each its own cores",
          devices[i].name, which, devices[j].name));
    }
  return warnings;
}

Result<std::vector<DeviceConfig>> discover_devices(const std::string& cache_folder) {
  QUERN_TRY(const auto found, enumerate_devices(cache_folder));
  std::vector<DeviceConfig> devices;
  std::vector<std::string> lines;
  for (const Choice& choice : choose(found)) {
    lines.push_back(to_text(choice));
    os::log_info("devices: {}", lines.back());
    if (!choice.is_used) continue;
    DeviceConfig config;
    config.name = choice.name;
    config.index = choice.found.index;
    if (choice.found.kind == Found::Kind::kGpu) {
      config.in_place = false;
    } else {
      config.cores = os::allowed_cores();
      if (config.cores.size() > 1) config.cores.erase(config.cores.begin());
    }
    devices.push_back(std::move(config));
  }
  if (devices.empty())
    return unavailable(
        fmt::format("devices: {}; install a driver, as pocl-opencl-icd for the CPU, or name devices in "
                    "quern.yaml",
                    lines.empty() ? "OpenCL shows none" : fmt::format("{}", fmt::join(lines, ", "))));
  return devices;
}

}  // namespace quern::daemon
