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

/// What enumeration shows before anything is opened.
struct Found {
  uint32_t index = 0;  ///< what DeviceOptions names, where it names no platform
  std::string name;
  bool is_gpu = false;
  uint32_t units = 1;
  uint64_t memory_bytes = 0;
  std::string platform;  ///< as the vendor names what brought it
};

/// What the operator says of a device.
struct DeviceOptions {
  uint32_t index = 0;              ///< among the devices of `platform`
  std::string platform;            ///< a part of its name; empty: all platforms
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
  virtual Result<std::vector<Found>> enumerate() = 0;
  virtual Result<std::unique_ptr<Device>> open(const DeviceOptions& options) = 0;
};

}  // namespace quern::hal
