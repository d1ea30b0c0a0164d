// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "hal/cts/backend.h"
#include "hal/opencl/opencl_driver.h"
#include "os/env.h"
#include "os/thread.h"

namespace quern::hal::cts {

// QUERN_TEST_PLATFORM chooses among the drivers of this machine, by a part of the platform's name. QUERN_TEST_UNITS
// says on how many cores the device is opened; without it, on all.
Backend backend() {
  DeviceOptions options;
  options.platform = os::env("QUERN_TEST_PLATFORM");
  const auto cores = os::allowed_cores();
  const std::string units = os::env("QUERN_TEST_UNITS");
  if (!units.empty()) options.cores.assign(cores.begin(), cores.begin() + std::stoi(units));
  return {.name = "opencl",
          .create_driver = opencl::create_driver,
          .options = options,
          .unsupported = {},
          .expected_failures = {}};
}

}  // namespace quern::hal::cts
