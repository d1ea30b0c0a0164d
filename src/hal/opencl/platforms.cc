// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/platforms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "hal/opencl/cl_error.h"
#include "hal/opencl/opencl_device.h"
#include "os/thread.h"

namespace quern::hal::opencl {
namespace {

Platform look_at(const Api& api, cl_platform_id id) {
  Platform platform{name_of_platform(api, id), {}, ""};
  const std::vector<int> before = os::threads_of_libraries();
  cl_uint count = 0;
  cl_int code = api.GetDeviceIDs(id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (code == CL_SUCCESS && count > 0) {
    platform.devices.resize(count);
    code = api.GetDeviceIDs(id, CL_DEVICE_TYPE_ALL, count, platform.devices.data(), nullptr);
    if (code != CL_SUCCESS) platform.devices.clear();
  }
  const std::vector<int> now = os::threads_of_libraries();
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::back_inserter(platform.threads));
  if (platform.devices.empty()) platform.error = fmt::format("shows no device, {}", name_of_cl(code));
  return platform;
}

}  // namespace

Result<std::vector<Platform>> platforms_of(const Api& api) {
  cl_uint count = 0;
  if (cl_int code = api.GetPlatformIDs(0, nullptr, &count); code != CL_SUCCESS || count == 0)
    return unavailable(fmt::format("opencl: no platform, {}; install a vendor's ICD", name_of_cl(code)));
  std::vector<cl_platform_id> ids(count);
  if (cl_int code = api.GetPlatformIDs(count, ids.data(), nullptr); code != CL_SUCCESS)
    return cl_error(code, "opencl: platforms");
  std::vector<Platform> platforms;
  for (auto id : ids) platforms.push_back(look_at(api, id));
  return platforms;
}

Result<std::vector<cl_device_id>> devices_of(const std::vector<Platform>& platforms, const std::string& name) {
  const bool is_whole_name =
      std::any_of(platforms.begin(), platforms.end(), [&](const Platform& platform) { return platform.name == name; });
  std::vector<cl_device_id> devices;
  std::vector<std::string> names, errors;
  bool is_there = false;
  for (const Platform& platform : platforms) {
    names.push_back(fmt::format("'{}'", platform.name));
    if (is_whole_name ? platform.name != name : platform.name.find(name) == std::string::npos) continue;
    is_there = true;
    devices.insert(devices.end(), platform.devices.begin(), platform.devices.end());
    if (!platform.error.empty()) errors.push_back(fmt::format("platform '{}' {}", platform.name, platform.error));
  }
  if (!is_there)
    return not_found(fmt::format("opencl platform '{}': no platform has this in its name; there are {}", name,
                                 fmt::join(names, ", ")));
  if (devices.empty()) return unavailable(fmt::format("opencl: {}", fmt::join(errors, "; ")));
  return devices;
}

std::vector<Found> found_on(const Api& api, const std::vector<Platform>& platforms) {
  std::vector<Found> found;
  for (const Platform& platform : platforms)
    for (auto id : platform.devices) {
      found.push_back(found_of(api, id));
      found.back().index = static_cast<uint32_t>(found.size() - 1);
    }
  for (const Platform& platform : platforms) {
    if (platform.error.empty()) continue;
    Found none;
    none.platform = platform.name;
    none.error = platform.error;
    none.units = 0;
    found.push_back(std::move(none));
  }
  return found;
}

}  // namespace quern::hal::opencl
