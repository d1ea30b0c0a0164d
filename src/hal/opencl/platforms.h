// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "hal/driver.h"
#include "hal/opencl/api.h"

namespace quern::hal::opencl {

/// A platform as the loader shows it.
struct Platform {
  std::string name;
  std::vector<cl_device_id> devices;
  std::string error;              ///< why it shows no device; empty: it shows some
  std::vector<int> threads = {};  ///< of libraries, that began while the platform was asked for its devices
};

/// Every platform, in the order of the loader; a platform that fails has an error and hides no other. kUnavailable if
/// there is none.
Result<std::vector<Platform>> platforms_of(const Api& api);

/// The devices of the platform with this whole name; where there is none, of all platforms that have `name` in theirs,
/// and so of all platforms if it is empty. kNotFound if no platform fits, with the names of all; kUnavailable if those
/// that fit show no device.
Result<std::vector<cl_device_id>> devices_of(const std::vector<Platform>& platforms, const std::string& name);

/// What Driver::enumerate tells of them.
std::vector<Found> found_on(const Api& api, const std::vector<Platform>& platforms);

}  // namespace quern::hal::opencl
