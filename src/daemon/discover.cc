// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ipc/channel.h"
#include "os/env.h"
#include "os/event.h"
#include "os/file.h"
#include "os/log.h"
#include "os/process.h"
#include "os/thread.h"

namespace quern::daemon {
namespace {
constexpr Duration kLimit = Duration::seconds(60);
}  // namespace

Result<std::vector<DeviceConfig>> discover_devices(const std::string& cache_folder) {
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
  const auto* found = received.ok() ? std::get_if<ipc::Discovered>(&received->frame) : nullptr;
  if (!found) {
    process.kill();
    (void)process.wait(Duration::forever());
    const std::string words = os::read_available(log.first, 2048);
    return unavailable(
        fmt::format("devices: OpenCL shows none: {}; install a driver (pocl-opencl-icd for the CPU) or "
                    "name devices in quern.yaml",
                    words.empty() ? received.error().text : words));
  }
  std::vector<DeviceConfig> devices;
  for (const auto& device : found->devices)
    if (device.is_gpu) {
      DeviceConfig config;
      config.name = fmt::format("gpu{}", devices.size());
      config.index = device.index;
      config.in_place = false;
      devices.push_back(config);
    }
  if (!devices.empty()) return devices;
  if (found->devices.empty())
    return unavailable("devices: OpenCL shows none; install a driver, as pocl-opencl-icd for the CPU");
  DeviceConfig config;
  config.name = "cpu0";
  config.index = found->devices.front().index;
  if (found->devices.size() > 1) {
    std::vector<std::string> others;
    for (size_t i = 1; i < found->devices.size(); ++i)
      others.push_back(fmt::format("'{}'", found->devices[i].platform));
    os::log_info("devices: that of platform '{}' is used, and not that of {}; name devices in quern.yaml to choose",
                 found->devices.front().platform, fmt::join(others, ", "));
  }
  config.cores = os::allowed_cores();
  if (config.cores.size() > 1) config.cores.erase(config.cores.begin());
  devices.push_back(config);
  return devices;
}

}  // namespace quern::daemon
