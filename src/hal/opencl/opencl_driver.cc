// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/opencl_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "hal/opencl/cl_error.h"
#include "hal/opencl/opencl_device.h"
#include "hal/opencl/platforms.h"
#include "hal/opencl/pocl_binary.h"
#include "hal/opencl/pocl_release.h"
#include "os/env.h"
#include "os/file.h"
#include "os/thread.h"

namespace quern::hal::opencl {
namespace {

void set_env_if_unset(const char* name, const std::string& value) {
  if (os::env(name).empty()) os::set_env(name, value);
}

class OpenclDriver final : public Driver {
 public:
  Result<std::vector<Found>> enumerate() override;
  Result<std::unique_ptr<Device>> open(const DeviceOptions& options) override;

 private:
  Status prepare(const DeviceOptions& options);

  // One thread: that of `enumerate` and `open`.
  bool prepared_ = false;
  Api api_;
  std::string library_;
  std::vector<int> threads_before_;
  std::map<std::string, std::set<int>> threads_of_;  // by platform: started when that was first asked for its devices
  std::vector<Size3> group_sizes_;                   // what this process can build for
};

// PoCL reads its variables at the first call of the process and starts its workers in it.
Status OpenclDriver::prepare(const DeviceOptions& options) {
  if (!options.cores.empty()) QUERN_TRY(os::pin_to(options.cores));
  if (prepared_) {
    if (!options.library.empty() && options.library != library_)
      return invalid(fmt::format("opencl library {}: this process has opened {}; one process has one library",
                                 options.library, library_.empty() ? "that of the machine" : library_));
    return {};
  }
  if (!options.cache_folder.empty()) {
    QUERN_TRY(os::make_folders(options.cache_folder, 0700));
    set_env_if_unset("POCL_CACHE_DIR", os::absolute(options.cache_folder));
  }
  if (const auto folder = os::env("POCL_CACHE_DIR"); !folder.empty() && !os::can_hold_code(folder))
    return invalid(fmt::format("cache folder {}: code cannot be loaded from it; mount it without noexec", folder));
  // Without a list, as many as this process may use: PoCL counts the machine's.
  const auto workers = std::to_string(options.cores.empty() ? os::allowed_cores().size() : options.cores.size());
  set_env_if_unset("POCL_MAX_PTHREAD_COUNT", workers);
  set_env_if_unset("POCL_CPU_MAX_CU_COUNT", workers);   // since PoCL 4
  set_env_if_unset("POCL_MAX_COMPUTE_UNITS", workers);  // since PoCL 5
  if (!options.group_sizes.empty()) {
    std::string list;
    for (const auto& size : options.group_sizes)
      if (size != Size3{0, 0, 0}) list += (list.empty() ? "" : ",") + variant_of(size);
    os::set_env("POCL_BINARY_SPECIALIZE_WG", list);
    group_sizes_ = options.group_sizes;
  }
  threads_before_ = os::threads_of_libraries();
  QUERN_TRY(api_, Api::load(options.library));
  library_ = options.library;
  prepared_ = true;
  return {};
}

Result<std::vector<Found>> OpenclDriver::enumerate() {
  QUERN_TRY(prepare({}));
  QUERN_TRY(const auto platforms, platforms_of(api_));
  return found_on(api_, platforms);
}

constexpr cl_uint kMostParts = 64;  // of one size

// Of 1, 2, 4, ... units each: any share has one that is at least half as large. A driver that cannot has none.
std::vector<OpenclDevice::Partition> partition(const Api& api, cl_device_id id, const Caps& caps) {
  std::vector<OpenclDevice::Partition> partitions;
  for (uint32_t units = 1; caps.partitions && units < caps.units; units *= 2) {
    const cl_uint count = std::min(caps.units / units, kMostParts);
    std::vector<cl_device_partition_property> wanted{CL_DEVICE_PARTITION_BY_COUNTS};
    wanted.insert(wanted.end(), count, units);
    wanted.insert(wanted.end(), {CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0});
    std::vector<cl_device_id> made(count);
    if (api.CreateSubDevices(id, wanted.data(), count, made.data(), nullptr) != CL_SUCCESS) break;
    for (cl_uint i = 0; i < count; ++i)
      partitions.push_back({units, i * units, Handle<cl_device_id>(made[i], api.ReleaseDevice)});
  }
  return partitions;
}

Result<std::unique_ptr<Device>> OpenclDriver::open(const DeviceOptions& options) {
  QUERN_TRY(prepare(options));
  QUERN_TRY(const auto platforms, platforms_of(api_));
  for (const Platform& platform : platforms)
    threads_of_[platform.name].insert(platform.threads.begin(), platform.threads.end());
  QUERN_TRY(const auto ids, devices_of(platforms, options.platform));
  if (options.index >= ids.size())
    return not_found(fmt::format("opencl device {}{}: does not exist; there are {}", options.index,
                                 options.platform.empty() ? "" : fmt::format(" of platform '{}'", options.platform),
                                 ids.size()));
  QUERN_TRY(auto caps, caps_of(api_, ids[options.index], options.memory_bytes));
  const Traits& traits = traits_of(api_, ids[options.index]);
  let_pocl_count(traits.counts_code_wrong);
  // Root and partitions are in one context, so that buffers and programs serve all of them.
  auto partitions = partition(api_, ids[options.index], caps);
  if (partitions.empty()) caps.partitions = false;
  std::vector<cl_device_id> all{ids[options.index]};
  for (const auto& one : partitions) all.push_back(one.id.get());
  cl_int code = CL_SUCCESS;
  Handle<cl_context> context(
      api_.CreateContext(nullptr, static_cast<cl_uint>(all.size()), all.data(), nullptr, nullptr, &code),
      api_.ReleaseContext);
  if (code != CL_SUCCESS) return cl_error(code, fmt::format("opencl device {}: context", caps.name));

  OpenclDevice::Setup setup;
  setup.api = api_;
  setup.id = ids[options.index];
  setup.partitions = std::move(partitions);
  setup.context = std::move(context);
  setup.caps = std::move(caps);
  setup.group_sizes = group_sizes_;
  setup.cache_folder = os::env("POCL_CACHE_DIR");
  setup.traits = traits;
  // PoCL starts its workers when it is asked for its devices: those of other platforms are none of this device's.
  std::set<int> others(threads_before_.begin(), threads_before_.end());
  for (const Platform& platform : platforms)
    if (std::find(platform.devices.begin(), platform.devices.end(), setup.id) == platform.devices.end())
      others.insert(threads_of_[platform.name].begin(), threads_of_[platform.name].end());
  setup.threads_before.assign(others.begin(), others.end());
  return std::unique_ptr<Device>(std::make_unique<OpenclDevice>(std::move(setup)));
}

}  // namespace

Result<std::unique_ptr<Driver>> create_driver() { return std::unique_ptr<Driver>(std::make_unique<OpenclDriver>()); }

}  // namespace quern::hal::opencl
