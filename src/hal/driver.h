// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hal/device.h"

namespace quern::hal {

/// One device as enumeration shows it before anything is opened, with what can be promised on it. A platform that shows
/// no device is an entry of its own, of kind kNone.
struct Found {
  enum class Kind : uint8_t { kNone, kCpu, kGpu, kOther };
  uint32_t index = 0;  ///< what DeviceOptions names, where it names no platform
  std::string name;
  Kind kind = Kind::kNone;
  uint32_t units = 1;
  uint64_t memory_bytes = 0;
  std::string platform;     ///< as the vendor names what brought it
  std::string version;      ///< of the driver, as the vendor writes it
  std::string unsliceable;  ///< why no kernel can be launched in slices; empty: kernels can be
  std::string undivided;    ///< why its units cannot be divided; empty: they can be
  std::string clock;        ///< which clock gives the times of launches, in words
  bool classes = false;     ///< Caps::worker_classes
  bool in_place = false;    ///< Caps::unified_memory
  std::string error;        ///< why it cannot be used; empty: it can be. With an error, promises mean nothing
};

/// What the operator says of a device.
struct DeviceOptions {
  uint32_t index = 0;              ///< among the devices of `platform`
  std::string platform;            ///< its name, or a part of it; empty: all platforms
  std::string library;             ///< what the driver opens instead of its usual library; one per process
  std::vector<int> cores;          ///< a CPU device: the cores its workers run on; empty: all
  uint64_t memory_bytes = 0;       ///< 0: what the device says
  std::string cache_folder;        ///< private to this process; code is loaded from it
  std::vector<Size3> group_sizes;  ///< a builder: every local size it will build for; vendors want to know at the start
};

/// A vendor's library, opened at run time. One per process.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Devices in the order of their index, then the platforms that show none. A device or platform that fails is an
  /// entry with an error, and hides no other. kUnavailable if the library cannot be opened or shows no platform.
  virtual Result<std::vector<Found>> enumerate() = 0;
  virtual Result<std::unique_ptr<Device>> open(const DeviceOptions& options) = 0;
};

}  // namespace quern::hal
