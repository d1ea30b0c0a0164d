// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/config.h"
#include "ipc/frames.h"

namespace quern::daemon {

/// A device that OpenCL shows on this machine, and what Quern does with it.
struct Choice {
  ipc::Discovered::Found found;
  bool is_used = false;
  std::string name;  ///< of the device in quern.yaml, or as a server without `devices` calls it; empty: not used
  std::string why;   ///< it is used, or is not
};

/// "device 'D' of platform 'P' is used as cpu0: the only CPU platform"
std::string to_text(const Choice& choice);

/// Asks OpenCL what it shows, in a process of its own that works in `cache_folder`: the caller never loads a vendor's
/// library. Devices in the order of their index. kUnavailable if OpenCL cannot be opened or shows no platform. Blocks.
Result<std::vector<ipc::Discovered::Found>> enumerate_devices(const std::string& cache_folder);

/// Chooses among `found`, one choice for each, in the same order.
///
/// With `configured`, the devices that it names are used and no others. Else every GPU is used, but only once if two
/// platforms show it (equal name and memory). Without a GPU the first CPU device is used: the CPU devices of all
/// platforms are the same cores.
std::vector<Choice> choose(const std::vector<ipc::Discovered::Found>& found,
                           const std::vector<DeviceConfig>& configured = {});

/// The position of the device that an entry of quern.yaml names, as the driver opens it; nothing if there is none. A
/// whole name of a platform means this platform, a part of a name all platforms that have it.
std::optional<size_t> find_device(const std::vector<ipc::Discovered::Found>& found, const DeviceConfig& wanted);

/// A device that executes kernels on cores of this machine.
struct CoreUser {
  std::string name;
  std::string platform;    ///< what tells its driver from others; never shown
  std::vector<int> cores;  ///< empty: all
};

/// One warning for each two devices of different platforms that share cores.
std::vector<std::string> warnings_of_shared_cores(const std::vector<CoreUser>& devices);

/// The devices of a machine whose operator named none, as `choose` chooses them; a CPU device gets all cores but one.
/// The log says of every device whether it is used, and why. Blocks.
Result<std::vector<DeviceConfig>> discover_devices(const std::string& cache_folder);

}  // namespace quern::daemon
