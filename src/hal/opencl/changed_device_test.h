// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <utility>

#include "hal/cts/backend.h"
#include "hal/cts/suite.h"
#include "hal/opencl/opencl_device.h"
#include "hal/opencl/platforms.h"

namespace quern::hal::opencl {

/// The device of the suite, opened once more as a device that is different in what `change` sets. To be called after
/// the suite has opened its own: vendors read their environment once.
inline Result<std::unique_ptr<OpenclDevice>> open_changed(const std::function<void(OpenclDevice::Setup&)>& change) {
  const DeviceOptions options = cts::backend().options;
  OpenclDevice::Setup setup;
  QUERN_TRY(setup.api, Api::load(options.library));
  QUERN_TRY(const auto platforms, platforms_of(setup.api));
  QUERN_TRY(const auto ids, devices_of(platforms, options.platform));
  setup.id = ids.at(options.index);
  QUERN_TRY(setup.caps, caps_of(setup.api, setup.id, 0));
  setup.caps.partitions = false;
  cl_int code = CL_SUCCESS;
  setup.context = {setup.api.CreateContext(nullptr, 1, &setup.id, nullptr, nullptr, &code), setup.api.ReleaseContext};
  if (code != CL_SUCCESS) return internal("no context");
  setup.group_sizes = cts::group_sizes();
  setup.traits = traits_of(setup.api, setup.id);
  change(setup);
  return std::make_unique<OpenclDevice>(std::move(setup));
}

}  // namespace quern::hal::opencl
